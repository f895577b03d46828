//! All commands with all options, as `--help` has them.

use super::{COLUMNS, compare, fenced, wrapped};
use crate::tombolo::tombolo;

#[test]
fn options_are_those_of_the_command() {
    let mut body = "The text of `--help` of each command. [Running \
                    servers](../book/servers.md#options-from-elsewhere)\nsays how options are \
                    given in a file or in the environment.\n"
        .to_owned();
    describe(&[], &mut body);
    compare("options.md", "Commands and options", &body);
}

fn describe(path: &[&str], body: &mut String) {
    let help = help(path);
    let name = ["tombolo"].iter().chain(path).copied().collect::<Vec<_>>().join(" ");
    *body += &format!("\n## `{name}`\n\n{}", fenced(&help));
    let commands = help.lines().skip_while(|&line| line != "Commands:").skip(1);
    for line in commands.take_while(|line| line.starts_with("  ")) {
        match line.split_whitespace().next() {
            Some("help") | None => {}
            // Lines that go on are further in.
            Some(_) if line.starts_with("   ") => {}
            Some(command) => describe(&[path, &[command]].concat(), body),
        }
    }
}

fn help(path: &[&str]) -> String {
    let output = tombolo(&[path, &["--help"]].concat()).output().unwrap();
    assert!(output.status.success(), "tombolo {path:?} --help");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| narrow(line.trim_end()) + "\n").collect()
}

/// A line, or several ones below each other if it is too long.
fn narrow(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    let bare = line.trim_start();
    let name = line.len() - bare.len();
    // In a list of names with their meanings, a meaning goes on below its beginning.
    let meaning = bare.find("  ").map_or(0, |end| bare.len() - bare[end..].trim_start().len());
    let (lead, text) = line.split_at(name + meaning);
    wrapped(lead, text)
}
