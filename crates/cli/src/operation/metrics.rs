//! `/metrics`, as Prometheus reads it.
//!
//! Figures of the pod have its UUID as label, and no host: all hosts tell the same. Figures of a
//! host have the host's number, too.

use std::fmt::{Display, Write as _};

use tombolo::{Evicted, Store};
use tombolo_server::{CommandLatency, Server};

use super::figures::Scope;
use super::hosts::{HostState, Hosts};
use super::subject::Subject;

/// A page that grows family by family.
pub(crate) struct Text {
    text: String,
    pod: String,
    host: String,
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// A family of one sample.
    fn figure(&mut self, name: &str, is_counter: bool, scope: Scope, help: &str, value: f64) {
        let name = if is_counter { format!("{name}_total") } else { name.to_owned() };
        self.family(&name, if is_counter { "counter" } else { "gauge" }, help);
        let labels = match scope {
            Scope::Pod => self.pod.clone(),
            Scope::Host => self.host.clone(),
        };
        self.sample(&name, &labels, value);
    }
}

/// All that is known of a host, and of its pod.
pub(super) fn text(subject: &dyn Subject, hosts: &Hosts) -> String {
    let objects = subject.objects();
    let pod = format!("pod=\"{}\"", objects.pod().identity().uuid);
    let host = format!("{pod},host=\"{}\"", objects.seat().host());
    let mut text = Text { text: String::new(), pod, host };
    for figure in subject.figures() {
        let prefix = match figure.scope {
            Scope::Pod => "tombolo_pod_",
            Scope::Host => "tombolo_host_",
        };
        // Prometheus wants seconds.
        let (name, value) = match figure.name.strip_suffix("_ms") {
            Some(name) => (format!("{prefix}{name}_seconds"), figure.value as f64 / 1000.0),
            None => (format!("{prefix}{}", figure.name), figure.value as f64),
        };
        let help = figure.help.replace(", in milliseconds", ", in seconds");
        text.figure(&name, figure.is_counter, figure.scope, &help, value);
    }
    states(&mut text, hosts);
    subject.add_metrics(&mut text);
    text.text
}

/// Evictions by the policy of now, and by earlier ones.
pub(super) fn evictions(text: &mut Text, store: &Store) {
    let name = "tombolo_host_evictions_total";
    text.family(name, "counter", "Values that this host evicted, by policy and reason.");
    let now = store.eviction_policy();
    let shown = |evicted: &Evicted| evicted.policy == now || evicted.values > 0;
    for Evicted { policy, reason, values } in store.evicted().into_iter().filter(shown) {
        let reason = reason.name();
        let labels = format!("{},policy=\"{policy}\",reason=\"{reason}\"", text.host);
        text.sample(name, &labels, values);
    }
}

fn states(text: &mut Text, hosts: &Hosts) {
    let name = "tombolo_pod_hosts";
    text.family(name, "gauge", "Hosts by their state, as this host sees them.");
    for (state, word) in HostState::ALL {
        let labels = format!("{},state=\"{word}\"", text.pod);
        text.sample(name, &labels, hosts.count(state));
    }
}

/// The figures of a server.
pub(super) fn of_server(text: &mut Text, server: &Server) {
    let stats = server.stats();
    let figures = [
        ("clients", false, "Connections that are open.", stats.clients),
        ("connections", true, "Connections there were.", stats.connections),
        ("rejected", true, "Connections refused because there were too many.", stats.rejected),
        ("not_accepted", true, "Times that no connection could be accepted.", stats.not_accepted),
        ("commands", true, "Commands executed.", stats.commands),
        ("errors", true, "Replies that were errors.", stats.errors),
        ("hits", true, "Keys that clients asked for and that had a value.", stats.hits),
        ("misses", true, "Keys that clients asked for and that had none.", stats.misses),
        ("received_bytes", true, "Bytes received.", stats.bytes_in),
        ("sent_bytes", true, "Bytes sent.", stats.bytes_out),
    ];
    for (name, is_counter, help, value) in figures {
        let name = format!("tombolo_server_{name}");
        text.figure(&name, is_counter, Scope::Host, help, value as f64);
    }
    latencies(text, &server.latencies());
}

fn latencies(text: &mut Text, latencies: &[CommandLatency]) {
    let name = "tombolo_server_command_duration_seconds";
    text.family(name, "histogram", "How long commands took, by command.");
    for latency in latencies {
        let labels = format!("{},command=\"{}\"", text.host, latency.command);
        for (time, count) in &latency.within {
            let le = format!("{labels},le=\"{}\"", time.as_secs_f64());
            text.sample(&format!("{name}_bucket"), &le, count);
        }
        let le = format!("{labels},le=\"+Inf\"");
        text.sample(&format!("{name}_bucket"), &le, latency.count);
        text.sample(&format!("{name}_sum"), &labels, latency.total.as_secs_f64());
        text.sample(&format!("{name}_count"), &labels, latency.count);
    }
}
