//! The commands of README and book do what the text says: pasted into a shell as one block, and
//! typed into a terminal.
//!
//! Each document has a machine of its own: namespaces of processes, mounts and networks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// A document, and what its commands print.
struct Document {
    path: &'static str,
    /// Blocks with one of these words are left out.
    without: &'static [&'static str],
    /// Commands that the text takes for granted.
    before: &'static str,
    /// The printed texts, in this order.
    prints: &'static [&'static str],
}

const POD: &str = "tombolo pod create /dev/shm/my-pod --size 64MiB --scr 4MiB >/dev/null";

const DOCUMENTS: [Document; 9] = [
    Document {
        path: "README.md",
        // It builds; `.ci/run` has that.
        without: &["cargo "],
        before: "",
        prints: &["OK", "a bar of sand that joins an island", "/dev/shm/my-pod", "monday.pod"],
    },
    Document {
        path: "docs/book/quickstart.md",
        // Commands that build, and that take minutes without optimization; `up` has a terminal of
        // its own.
        without: &["cargo ", "bench ycsb", "check --scenario", "tombolo up", "-p 7002"],
        before: "",
        prints: &[
            "/dev/shm/my-pod",
            "PONG",
            "PONG",
            "OK",
            "the kill",
            "monday.pod",
            "/dev/shm/other",
        ],
    },
    Document {
        path: "docs/book/memory.md",
        without: &[],
        before: "",
        prints: &["would create", "/dev/shm/my-pod"],
    },
    Document {
        path: "docs/book/servers.md",
        // Devices, a configuration file and packages that are not here.
        without: &["/dev/dax", "--config", "deploy/"],
        before: "",
        prints: &["PONG", "PONG"],
    },
    Document {
        path: "docs/book/monitoring.md",
        without: &[],
        before: POD,
        prints: &["PONG", "tombolo_pod_objects", "lnr_used_bytes", "/dev/shm/my-pod", "\"hosts\""],
    },
    Document {
        path: "docs/book/saving.md",
        without: &[],
        before: POD,
        prints: &["monday.pod", "/dev/shm/other", "latest.pod"],
    },
    Document {
        path: "docs/book/files.md",
        // A benchmark of minutes without optimization.
        without: &["bench pagecache"],
        before: "mkdir /srv/data /mnt/one /mnt/two",
        prints: &["/dev/shm/pages", "is mounted on"],
    },
    Document {
        path: "docs/book/failures.md",
        // A host that has to be fenced, and campaigns.
        without: &["pod fence", "soak"],
        before: POD,
        prints: &["no problems", "no problems"],
    },
    Document {
        path: "docs/book/databases.md",
        // Benchmarks and campaigns.
        without: &["bench", "soak"],
        before: "",
        prints: &["warehouses", "no problems", "checkpoint is written", "a database with"],
    },
];

impl Document {
    /// Its commands, one block after the other.
    fn commands(&self) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(self.path)).unwrap();
        let blocks = text.split("\n```sh\n").skip(1);
        let blocks = blocks.map(|rest| rest.split_once("\n```").unwrap().0);
        let kept = blocks.filter(|block| !self.without.iter().any(|word| block.contains(word)));
        kept.flat_map(|block| [block, "\n"]).collect()
    }

    fn check(&self, how: &str, printed: &str) {
        let mut rest = printed;
        for expected in self.prints {
            let found = rest.split_once(expected);
            let what = || format!("{}, {how}: no {expected:?} in\n{printed}", self.path);
            rest = found.unwrap_or_else(|| panic!("{}", what())).1;
        }
        for wrong in ["command not found", "tombolo: ", "Usage:", "panicked", "syntax error"] {
            assert!(!printed.contains(wrong), "{}, {how}: {wrong} in\n{printed}", self.path);
        }
    }
}

/// Runs a shell on a machine of its own, which gets `commands`; all that is printed. `None`, with
/// the reason printed, where there is no such machine.
fn run(shell: &str, before: &str, commands: &str) -> Option<String> {
    const MACHINE: [&str; 4] = ["unshare", "-mnpf", "--mount-proc", "--kill-child"];
    let may = Command::new(MACHINE[0]).args(&MACHINE[1..]).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespaces can be made");
        return None;
    }
    // Not in shared memory, which the machine has of its own.
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_tombolo"), programs.join("tombolo")).unwrap();
    let (input, output) = (folder.path().join("input"), folder.path().join("output"));
    fs::write(&input, commands).unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let script = format!(
        "export PATH={}:$PATH
         ip link set lo up
         cd {}
         exec 8<{} 9>{}
         for place in /dev/shm /srv /mnt /var/tmp; do mount -t tmpfs tmpfs $place; done
         {before}
         {shell} <&8 >&9 2>&9",
        programs.display(),
        work.display(),
        input.display(),
        output.display(),
    );
    let mut machine = Command::new(MACHINE[0]);
    machine.args(&MACHINE[1..]).args(["sh", "-ec", &script]).env_remove("RUST_BACKTRACE");
    let status = machine.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    let printed = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
    assert!(status.success(), "{status}: {printed}");
    Some(printed)
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

/// Two servers were to be started by one block, and the second never was: the first kept the
/// shell.
#[test]
fn commands_of_documents_are_pasted_into_a_shell() {
    if !["redis-cli", "ip", "curl"].into_iter().all(has) {
        return;
    }
    for document in &DOCUMENTS {
        let Some(printed) = run("bash", document.before, &document.commands()) else { return };
        document.check("pasted", &printed);
    }
}

#[test]
fn commands_of_documents_are_typed_into_a_terminal() {
    if !["redis-cli", "ip", "curl", "script"].into_iter().all(has) {
        return;
    }
    for document in &DOCUMENTS {
        let shell = "script -qefc 'bash --norc --noprofile -i' /dev/null";
        let commands = format!("{}exit\n", document.commands());
        let Some(printed) = run(shell, document.before, &commands) else { return };
        document.check("typed", &printed);
    }
}

#[test]
fn fifty_lines_are_run() {
    let lines = DOCUMENTS.iter().map(|document| document.commands().lines().count());
    println!("lines of commands: {}", lines.clone().sum::<usize>());
    assert!(DOCUMENTS.iter().all(|document| !document.commands().trim().is_empty()));
}
