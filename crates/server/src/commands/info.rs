//! `INFO`.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::table::COMMANDS;
use super::{Context, Failure, Outcome, REDIS_VERSION, is};
use crate::reply::Reply;
use crate::store::{InfoSection, Store};
use crate::subscriptions::Kind;

/// Sections that are shown only if they are asked for, by name or by `all`.
const DETAILED: [&str; 1] = ["Commandstats"];

pub(super) fn info(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let asks = |words: &[&str]| args[1..].iter().any(|arg| words.iter().any(|word| is(arg, word)));
    let all = asks(&["all", "everything"]);
    let usual = all || args.len() == 1 || asks(&["default"]);
    let mut text = String::new();
    for (title, fields) in sections(context)? {
        let shown = if DETAILED.contains(&title.as_str()) { all } else { usual };
        if !shown && !asks(&[&title]) {
            continue;
        }
        if !text.is_empty() {
            text += "\r\n";
        }
        let _ = write!(text, "# {title}\r\n");
        for (name, value) in fields {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    Ok(Reply::Text(text))
}

fn section(title: &str, fields: &[(&str, String)]) -> InfoSection {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    (title.to_owned(), fields.collect())
}

fn sections(context: &Context<'_>) -> Result<Vec<InfoSection>, Failure> {
    let none = || "0".to_owned();
    let mut sections = vec![
        server(context),
        clients(context),
        memory(context),
        section(
            "Persistence",
            &[
                ("loading", none()),
                ("async_loading", none()),
                ("rdb_changes_since_last_save", none()),
                ("rdb_bgsave_in_progress", none()),
                ("rdb_last_bgsave_status", "ok".to_owned()),
                ("aof_enabled", none()),
                ("aof_rewrite_in_progress", none()),
            ],
        ),
        stats(context),
        section(
            "Replication",
            &[
                ("role", "master".to_owned()),
                ("connected_slaves", none()),
                ("master_repl_offset", none()),
            ],
        ),
        processor(),
        section("Modules", &[]),
        commands(context),
        errors(context),
        section("Cluster", &[("cluster_enabled", none())]),
    ];
    sections.extend(context.store().info());
    sections.push(keyspace(context)?);
    Ok(sections)
}

fn server(context: &Context<'_>) -> InfoSection {
    let uptime = context.shared.started.elapsed().as_secs();
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("tombolo_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("os", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", std::process::id().to_string()),
            ("tcp_port", context.shared.address.port().to_string()),
            ("server_time_usec", now_us.to_string()),
            ("uptime_in_seconds", uptime.to_string()),
            ("uptime_in_days", (uptime / 86400).to_string()),
        ],
    )
}

fn clients(context: &Context<'_>) -> InfoSection {
    let all = context.shared.clients.all();
    let pubsub_clients = all.iter().filter(|client| client.is_subscriber()).count();
    section(
        "Clients",
        &[
            ("connected_clients", context.shared.counters.snapshot().clients.to_string()),
            ("cluster_connections", "0".to_owned()),
            ("maxclients", context.shared.config.max_clients.to_string()),
            ("blocked_clients", "0".to_owned()),
            ("tracking_clients", context.shared.tracking.client_count().to_string()),
            ("pubsub_clients", pubsub_clients.to_string()),
        ],
    )
}

fn memory(context: &Context<'_>) -> InfoSection {
    let (usage, eviction) = (context.store().usage(), context.store().eviction());
    let most_bytes = eviction.limit_bytes.unwrap_or(usage.bytes);
    section(
        "Memory",
        &[
            ("used_memory", usage.used_bytes.to_string()),
            ("used_memory_human", human(usage.used_bytes)),
            ("used_memory_rss", resident_bytes().to_string()),
            ("used_memory_rss_human", human(resident_bytes())),
            ("used_memory_dataset", usage.used_bytes.to_string()),
            ("total_system_memory", usage.bytes.to_string()),
            ("total_system_memory_human", human(usage.bytes)),
            ("maxmemory", most_bytes.to_string()),
            ("maxmemory_human", human(most_bytes)),
            ("maxmemory_policy", eviction.policy.to_string()),
        ],
    )
}

fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T"];
    let mut shown = bytes as f64;
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut unit = "B";
    for next in units {
        if shown < 1024.0 {
            break;
        }
        (shown, unit) = (shown / 1024.0, next);
    }
    format!("{shown:.2}{unit}")
}

/// Bytes of memory that this process has; 0, if that cannot be told.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

fn stats(context: &Context<'_>) -> InfoSection {
    let stats = context.shared.counters.snapshot();
    let subscribed_to = |kind| context.shared.subscriptions.name_count(kind).to_string();
    section(
        "Stats",
        &[
            ("total_connections_received", stats.connections.to_string()),
            ("rejected_connections", stats.rejected.to_string()),
            ("total_commands_processed", stats.commands.to_string()),
            ("total_error_replies", stats.errors.to_string()),
            ("total_net_input_bytes", stats.bytes_in.to_string()),
            ("total_net_output_bytes", stats.bytes_out.to_string()),
            ("keyspace_hits", stats.hits.to_string()),
            ("keyspace_misses", stats.misses.to_string()),
            ("expired_keys", context.store().usage().expired.to_string()),
            ("evicted_keys", context.store().usage().evicted.to_string()),
            ("pubsub_channels", subscribed_to(Kind::Channel)),
            ("pubsub_patterns", subscribed_to(Kind::Pattern)),
            ("tracking_total_keys", context.shared.tracking.key_count().to_string()),
            ("latest_fork_usec", "0".to_owned()),
        ],
    )
}

/// Seconds of processor time, as the kernel counts them: in hundredths.
fn processor() -> InfoSection {
    let line = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program comes second, in parentheses, and may have spaces.
    let fields: Vec<&str> = line.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let seconds = |at: usize| {
        let ticks = fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok());
        format!("{:.6}", ticks.unwrap_or(0.0) / 100.0)
    };
    section("CPU", &[("used_cpu_sys", seconds(12)), ("used_cpu_user", seconds(11))])
}

fn commands(context: &Context<'_>) -> InfoSection {
    let tallies = COMMANDS.iter().enumerate().filter_map(|(at, command)| {
        let tally = context.shared.tallies.of(at);
        let (calls, ns) = (tally.calls.count(), tally.calls.total_ns());
        let [rejected, failed] =
            [&tally.rejected, &tally.failed].map(|figure| figure.load(Ordering::Relaxed));
        let us_per_call = ns as f64 / 1000.0 / calls.max(1) as f64;
        let text = format!(
            "calls={calls},usec={},usec_per_call={us_per_call:.2},rejected_calls={rejected},failed_calls={failed}",
            ns / 1000
        );
        (calls + rejected > 0).then(|| (format!("cmdstat_{}", command.name), text))
    });
    ("Commandstats".to_owned(), tallies.collect())
}

fn errors(context: &Context<'_>) -> InfoSection {
    let errors = context.shared.tallies.errors().into_iter();
    let fields =
        errors.map(|(code, count)| (format!("errorstat_{code}"), format!("count={count}")));
    ("Errorstats".to_owned(), fields.collect())
}

fn keyspace(context: &Context<'_>) -> Result<InfoSection, Failure> {
    let counts = context.shared.key_counts()?;
    let expiring = context.store().usage().expiring;
    let fields = counts.iter().enumerate().filter(|&(_, &keys)| keys > 0).map(|(number, keys)| {
        // Nothing tells of which database a key is that expires.
        let expires = if number == 0 { expiring.min(*keys) } else { 0 };
        let text = format!("keys={keys},expires={expires},avg_ttl=0,subexpiry=0");
        (format!("db{number}"), text)
    });
    Ok(("Keyspace".to_owned(), fields.collect()))
}
