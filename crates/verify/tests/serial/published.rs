//! `adya`'s checker, which knows lists and registers, and no ranges.

use adya::{History, Opts, Valid, Workload};
use tombolo_verify::serializability::Condition;
use tombolo_verify::transactions::{Operation, Outcome, Transaction};

use crate::every_order::Log;

/// Whether it finds nothing wrong with `log`.
pub(crate) fn finds_nothing(log: &Log, workload: Workload, condition: Condition) -> bool {
    let model = match condition {
        Condition::Serializable => "serializable",
        Condition::StrongSession => "strong-session-serializable",
        Condition::Strict => "strict-serializable",
    };
    let options = Opts { models: vec![model.to_owned()], ..Opts::default() };
    let history = History::from_json(&json(log)).expect("the history is well formed");
    // Where it says that it does not know, nothing depends on anything.
    adya::check(&history, workload, &options).valid != Valid::False
}

/// The begins and ends of transactions, a line each. At equal times begins come first, so that
/// touching transactions are concurrent.
fn json(log: &Log) -> String {
    let mut lines = Vec::new();
    for (process, transaction) in log.iter().enumerate() {
        let (kind, at) = match transaction.outcome {
            Outcome::Committed { at } => ("ok", at),
            Outcome::Aborted { at } => ("fail", at),
            Outcome::Unknown { at } => ("info", at),
            Outcome::Pending => ("info", u64::MAX),
        };
        lines.push((transaction.begun_at, false, line("invoke", process, transaction)));
        lines.push((at, true, line(kind, process, transaction)));
    }
    lines.sort();
    lines.into_iter().map(|(_, _, line)| line + "\n").collect()
}

fn line(kind: &str, process: usize, transaction: &Transaction<u8, u32>) -> String {
    let operations: Vec<_> = transaction.operations.iter().map(operation).collect();
    let value = operations.join(", ");
    format!(r#"{{"type": "{kind}", "process": {process}, "value": [{value}]}}"#)
}

fn operation(operation: &Operation<u8, u32>) -> String {
    match operation {
        Operation::Append { key, value } => format!(r#"["append", {key}, {value}]"#),
        Operation::ReadList { key, list } => format!(r#"["r", {key}, {list:?}]"#),
        Operation::Write { key, value } => format!(r#"["w", {key}, {value}]"#),
        Operation::Read { key, value: Some(value) } => format!(r#"["r", {key}, {value}]"#),
        Operation::Read { key, value: None } => format!(r#"["r", {key}, null]"#),
        _ => unreachable!("there are no ranges in these histories"),
    }
}
