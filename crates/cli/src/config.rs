//! Options from a TOML file: they become the defaults of the command line, so that environment
//! variables and flags override them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory};
use toml::{Table, Value};

use crate::cli::Cli;

/// The command line, with the defaults of the file that `--config` or `TOMBOLO_CONFIG` names.
pub(crate) fn with_defaults_from_file() -> anyhow::Result<Command> {
    match file_named(std::env::args()) {
        Some(path) => read(Cli::command(), &path, &std::env::args().collect::<Vec<_>>()),
        None => Ok(Cli::command()),
    }
}

/// The file has to be known before the command line is parsed.
fn file_named(args: impl Iterator<Item = String>) -> Option<PathBuf> {
    let mut args = args.take_while(|arg| arg != "--");
    let mut found = None;
    while let Some(arg) = args.next() {
        if arg == "--config" {
            found = args.next();
        } else if let Some(path) = arg.strip_prefix("--config=") {
            found = Some(path.to_owned());
        }
    }
    found.map(PathBuf::from).or_else(|| std::env::var_os("TOMBOLO_CONFIG").map(PathBuf::from))
}

fn read(command: Command, path: &Path, args: &[String]) -> anyhow::Result<Command> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let table: Table = text.parse().with_context(|| format!("{name} is no TOML"))?;
    apply(command, &table, "", args).with_context(|| format!("in {name}"))
}

/// Gives `command` and its subcommands the defaults in `table`. A mistake in the table of a command
/// that `args` do not name does no harm.
fn apply(
    mut command: Command,
    table: &Table,
    path: &str,
    args: &[String],
) -> anyhow::Result<Command> {
    for (name, value) in table {
        let full = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Value::Table(inner) = value
            && command.find_subcommand(name).is_some()
        {
            let mut outcome = Ok(());
            command = command.mut_subcommand(name, |subcommand| {
                let kept = subcommand.clone();
                apply(subcommand, inner, &full, args).unwrap_or_else(|error| {
                    outcome = Err(error);
                    kept
                })
            });
            if args.contains(name) {
                outcome?;
            }
            continue;
        }
        let id = name.replace('-', "_");
        let known = command.get_arguments().any(|arg| arg.get_id() == id.as_str());
        if !known {
            bail!("{full} is no option of `tombolo {}`; see its --help", path.replace('.', " "));
        }
        let texts = texts(value).with_context(|| {
            format!("{full} must be a string, a number, true or false, or a list of these")
        })?;
        command = command.mut_arg(id, |arg| arg.default_values(texts).required(false));
    }
    Ok(command)
}

/// The values of an option; several where it may be given several times.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        value => scalar(value).map(|text| vec![text]),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The environment variable that a value comes from which is wrong.
pub(crate) fn variable_of(error: &clap::Error) -> Option<String> {
    let value = match error.get(ContextKind::InvalidValue)? {
        ContextValue::String(value) if !value.is_empty() => value,
        _ => return None,
    };
    let is_given = std::env::args().any(|arg| arg.ends_with(value));
    let mut ours = std::env::vars().filter(|(name, _)| name.starts_with("TOMBOLO_"));
    ours.find(|(_, found)| !is_given && found == value).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::cli;

    fn parse(toml: &str, args: &[&str]) -> anyhow::Result<Cli> {
        let words: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let command = apply(Cli::command(), &toml.parse()?, "", &words)?;
        Ok(Cli::from_arg_matches(&command.try_get_matches_from(args)?)?)
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// Commands that a help text shows, without what a shell does with them.
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter_map(|line| line.trim().strip_prefix("tombolo "));
        let words = |line: &str| {
            let words = line.split_ascii_whitespace();
            let own = words.take_while(|word| !["|", "&", "&&", "#", ">", "<"].contains(word));
            own.fold("tombolo".to_owned(), |text, word| text + " " + word)
        };
        let own = lines.map(words).collect();
        command.get_subcommands().fold(own, |all: Vec<_>, inner| [all, examples(inner)].concat())
    }

    /// An example was a usage error.
    #[test]
    fn examples_are_command_lines() {
        let examples = examples(&Cli::command());
        assert!(examples.len() > 20, "{examples:?}");
        for example in examples {
            let words = example.split(' ');
            let parsed = Cli::command().try_get_matches_from(words);
            let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn flags_override_the_file() {
        let toml = "[up]\nhosts = 5\nport = 8000\nsize = '64MiB'\n";
        let cli::Command::Up(up) = parse(toml, &["tombolo", "up", "--hosts", "2"]).unwrap().command
        else {
            panic!("`up` was parsed");
        };
        assert_eq!((up.hosts, up.port, up.sizes.size), (2, 8000, Some(64 << 20)));
    }

    #[test]
    fn options_that_may_be_given_several_times_take_a_list() {
        let toml = "[bench.ycsb]\nfiles = ['a', 'b']\nproperties = 'recordcount=7'";
        let cli::Command::Bench(cli::BenchCommand::Ycsb(args)) =
            parse(toml, &["tombolo", "bench", "ycsb"]).unwrap().command
        else {
            panic!("`bench ycsb` was parsed");
        };
        assert_eq!(args.workload.files, ["a", "b"]);
        assert_eq!(args.workload.properties, ["recordcount=7"]);
    }

    /// A number with a point was refused as being none.
    #[test]
    fn numbers_may_have_a_point() {
        let error = format!("{:#}", parse("[up]\nport = 1.5", &["tombolo", "up"]).unwrap_err());
        assert!(error.contains("1.5") && !error.contains("must be a string"), "{error}");
    }

    /// A mistake in one command's table was the end of every command.
    #[test]
    fn a_mistake_in_the_table_of_another_command_does_no_harm() {
        let toml = "[serve]\nlisten = [{}]\n[pod.create]\nnonsense = 1\n[up]\nhosts = 2";
        parse(toml, &["tombolo", "up"]).unwrap();
        let error = parse(toml, &["tombolo", "pod", "create", "x"]).unwrap_err();
        assert!(error.to_string().contains("pod.create.nonsense"), "{error:#}");
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        let error = |toml| format!("{:#}", parse(toml, &["tombolo", "up"]).unwrap_err());
        assert!(error("[up]\nhots = 5").contains("up.hots is no option of `tombolo up`"));
        assert!(error("[up]\nhosts = [{}]").contains("up.hosts must be"));
        assert!(error("[up]\nhosts = 99").contains("99"));
    }

    #[test]
    fn finds_the_file_among_the_arguments() {
        let named = |args: &[&str]| file_named(args.iter().map(|&arg| arg.to_owned()));
        assert_eq!(named(&["tombolo", "up", "--config", "x.toml"]), Some("x.toml".into()));
        assert_eq!(named(&["tombolo", "--config=y.toml", "up"]), Some("y.toml".into()));
    }
}
