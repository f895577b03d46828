//! The figures of a host, as `/metrics` has them.

use super::{compare, wrapped};
use crate::mount::Mounts;
use crate::tombolo::{Running, address_of_page, folder, get, printed};

#[test]
fn metrics_are_those_of_a_server_and_a_mount() {
    let Some(mounts) = Mounts::unmounted(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let folder = folder();
    let pod = folder.path().join("pod");
    let pod = pod.to_str().unwrap();
    printed(&["pod", "create", pod, "--size", "16MiB", "--scr", "1MiB"]);
    let zero = "127.0.0.1:0";
    let mut host = Running::start(&["serve", "--pod", pod, "--listen", zero, "--metrics", zero]);
    let of_server = figures(&get(&address_of_page(&mut host), "/metrics"));
    let mut host = mounts.mount_monitored(0, &[]);
    let of_mount = figures(&get(&address_of_page(&mut host), "/metrics"));
    let only = of_mount.into_iter().filter(|figure| !of_server.contains(figure));
    let body = format!(
        "{}\n\n{}\n\n{}\n\n{}",
        wrapped(
            "",
            "`/metrics` of a server has these figures. Those of the pod have its UUID as label, and \
             those of a host the host's number, too. A counter only grows. \
             [Monitoring](../book/monitoring.md) says which of them to watch."
        ),
        of_server.join("\n"),
        wrapped(
            "",
            "`/metrics` of a mount has those that begin with `tombolo_pod` or `tombolo_host`, but \
             for expired values and refused operations. And it has these:"
        ),
        only.collect::<Vec<_>>().join("\n")
    );
    compare("metrics.md", "Metrics", &body);
}

fn figures(answer: &str) -> Vec<String> {
    let about = |mark: &str| {
        let lines = answer.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|line| line.split_once(' ').unwrap()).collect::<Vec<_>>()
    };
    let (helps, types) = (about("# HELP "), about("# TYPE "));
    assert_eq!(helps.len(), types.len());
    let figure = |((name, help), (_, kind)): (&(&str, &str), &(&str, &str))| {
        wrapped("* ", &format!("`{name}`, a {kind}: {help}"))
    };
    helps.iter().zip(&types).map(figure).collect()
}
