//! Processes of tests: this program, started again.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use tombolo_pod::PodSpec;

const ROLE: &str = "TOMBOLO_TEST_ROLE";

/// A process that plays a part in a test. Dropping it kills it.
pub(crate) struct Player {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Starts a process that does what [`children`] says for this part.
pub(crate) fn start(spec: &PodSpec, words: &[&str]) -> Player {
    let part = format!("{spec} {}", words.join(" "));
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "children::a_child_plays_its_part", "--nocapture"])
        .env(ROLE, part)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    Player { child, stdout }
}

impl Player {
    /// Waits for a line of this text.
    pub(crate) fn says(&mut self, text: &str) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "it ended before it said {text}"
            );
            if line.trim_end().ends_with(text) {
                return;
            }
        }
    }

    /// Kills it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended well.
    pub(crate) fn ends(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does nothing, unless a test has started this process.
#[test]
fn a_child_plays_its_part() {
    let Ok(part) = env::var(ROLE) else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let spec: PodSpec = words[0].parse().unwrap();
    match words[1] {
        "writer" => super::deaths::write_for_ever(&spec, words[2]),
        "litmus" => super::litmus::play(&spec, words[2], words[3].parse().unwrap()),
        other => panic!("there is no part {other}"),
    }
}
