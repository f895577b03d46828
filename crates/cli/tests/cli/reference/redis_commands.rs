//! The commands of Redis' protocol, as `COMMAND` has them.

use std::collections::HashMap;

use redis::{Value, cmd};

use super::{compare, table};
use crate::tombolo::Servers;

#[test]
fn redis_commands_are_those_of_a_server() {
    let servers = Servers::start(1, &["--size", "16MiB", "--scr", "1MiB"], &[]);
    let mut connection = servers.connect(0);
    let mut names: Vec<String> = cmd("COMMAND").arg("LIST").query(&mut connection).unwrap();
    names.sort();
    let infos: Vec<Vec<Value>> =
        cmd("COMMAND").arg("INFO").arg(&names).query(&mut connection).unwrap();
    let docs: HashMap<String, HashMap<String, Value>> =
        cmd("COMMAND").arg("DOCS").query(&mut connection).unwrap();
    let rows: Vec<_> =
        names.iter().zip(&infos).map(|(name, info)| row(name, info, &docs[name])).collect();
    let body = format!(
        "Commands that a server knows, as `COMMAND INFO` and `COMMAND DOCS` describe them. \
         [Running\nservers](../book/servers.md#redis-commands) has what differs from Redis.\n\n\
         The column *Words* counts the words of a command, its name included.\n\n{}",
        table(&["Command", "Words", "Group", "Meaning"], &rows)
    );
    compare("redis.md", "Redis commands", &body);
}

fn row(name: &str, info: &[Value], docs: &HashMap<String, Value>) -> Vec<String> {
    let arity: i64 = redis::from_redis_value(info[1].clone()).unwrap();
    let text = |field: &str| redis::from_redis_value::<String>(docs[field].clone()).unwrap();
    let words = if arity < 0 { format!("{} or more", -arity) } else { arity.to_string() };
    vec![format!("`{}`", name.to_uppercase()), words, text("group"), text("summary")]
}
