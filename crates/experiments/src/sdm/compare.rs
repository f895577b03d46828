//! The figures: the runs of each, the rows shown, and the paper's statements.

use tombolo_disaggregated::Summary;

use super::suite::{Suite, Workload};
use super::{FULL, INV, Measured, NETWORK_NS, Run, SDM, SdmFigure};
use crate::figures::{Drawn, Sketch};

const HOSTS: [usize; 4] = [2, 4, 8, 16];
const NETWORKS_NS: [u32; 3] = [100, NETWORK_NS, 1000];

/// What the paper calls the two that it compares with INV-CF.
const SYSTEMS: [(usize, &str); 2] = [(SDM, "SDM"), (FULL, "SDM-full")];

type Quantity = fn(&Summary) -> f64;
const IPC: Quantity = |run| run.ipc;
const LATENCY: Quantity = |run| run.amat_ns;

pub(super) const FIGURE_3: SdmFigure = SdmFigure { id: "3", runs: at_four, draw: figure_3 };
pub(super) const FIGURE_8: SdmFigure = SdmFigure { id: "8", runs: at_four, draw: figure_8 };
pub(super) const FIGURE_9: SdmFigure = SdmFigure { id: "9", runs: by_hosts, draw: figure_9 };
pub(super) const FIGURE_10: SdmFigure = SdmFigure { id: "10", runs: by_hosts, draw: figure_10 };
pub(super) const FIGURE_11: SdmFigure = SdmFigure { id: "11", runs: by_network, draw: figure_11 };

fn run(workload: Workload, protocol: usize, hosts: usize, network_ns: u32) -> Run {
    Run { workload, protocol, hosts, network_ns }
}

fn all(hosts: &[usize], networks: &[u32]) -> Vec<Run> {
    let mut runs = Vec::new();
    for workload in Workload::all() {
        for protocol in [INV, SDM, FULL] {
            for &hosts in hosts {
                runs.extend(networks.iter().map(|&ns| run(workload, protocol, hosts, ns)));
            }
        }
    }
    runs
}

fn at_four() -> Vec<Run> {
    all(&[4], &[NETWORK_NS])
}

fn by_hosts() -> Vec<Run> {
    all(&HOSTS, &[NETWORK_NS])
}

fn by_network() -> Vec<Run> {
    all(&HOSTS, &NETWORKS_NS)
}

/// The geometric mean over a suite, and the most.
fn over_suite(suite: Suite, of: impl Fn(Workload) -> f64) -> (f64, f64) {
    let all: Vec<f64> = suite.workloads().map(of).collect();
    let mean = (all.iter().map(|value| value.ln()).sum::<f64>() / all.len() as f64).exp();
    (mean, all.into_iter().fold(0.0, f64::max))
}

fn figure_3(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "3",
        "Shared lines and accesses to them",
        "Programs under INV-CF, on four hosts: the share of lines that several hosts access, and of accesses \
         that go to such lines.",
        "program",
        &["lines that are shared", "accesses to shared lines"],
    );
    for suite in Suite::ALL {
        for workload in suite.workloads() {
            let found = measured.at(run(workload, INV, 4, NETWORK_NS));
            let values = [found.shared_line_ratio, found.shared_access_ratio];
            sketch.point(suite.name(), "inv", workload.name(), &values);
        }
        // Some share nothing, so this mean is not geometric.
        let ratios = suite
            .workloads()
            .map(|workload| measured.at(run(workload, INV, 4, NETWORK_NS)).shared_access_ratio);
        let mean = ratios.sum::<f64>() / suite.workloads().count() as f64;
        let quantity = format!("accesses to shared lines, {}, mean", suite.name());
        sketch.says(quantity, "most workloads yield high ratios", mean);
    }
    sketch.drawn
}

fn figure_8(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "8",
        "Instructions per cycle and latency",
        "Programs on four hosts, as compared with INV-CF.",
        "program",
        &["IPC over INV-CF", "mean access time over INV-CF"],
    );
    // By suite and system: mean and most of the instructions per cycle, mean latency.
    let stated = [
        [(1.23, Some(2.08), 0.10), (4.16, None, 0.09)],
        [(1.86, Some(4.48), 0.34), (2.23, None, 0.33)],
    ];
    for (suite, stated) in Suite::ALL.into_iter().zip(stated) {
        for ((protocol, name), (ipc, most, latency)) in SYSTEMS.into_iter().zip(stated) {
            let over = |workload, quantity| {
                measured.over_inv(run(workload, protocol, 4, NETWORK_NS), quantity)
            };
            for workload in suite.workloads() {
                let values = [over(workload, IPC), over(workload, LATENCY)];
                sketch.point(suite.name(), name, workload.name(), &values);
            }
            let (mean, highest) = over_suite(suite, |workload| over(workload, IPC));
            let quantity = |what: &str| format!("{name}, {}, {what}", suite.name());
            sketch.states(quantity("IPC over INV-CF, mean"), ipc, mean);
            if let Some(most) = most {
                sketch.states(quantity("IPC over INV-CF, most"), most, highest);
                if suite == Suite::Compute {
                    let count = suite.workloads().count() as f64;
                    let others = (mean.powf(count) / highest).powf(1.0 / (count - 1.0));
                    let says = "some workloads show minor improvement";
                    sketch.says(quantity("IPC over INV-CF, mean of the others"), says, others);
                }
            }
            let (mean, _) = over_suite(suite, |workload| over(workload, LATENCY));
            sketch.states(quantity("latency over INV-CF, mean"), latency, mean);
        }
    }
    sketch.drawn
}

/// The means over the suites, by hosts.
fn along_hosts(sketch: &mut Sketch, measured: &Measured, quantity: Quantity, network_ns: u32) {
    for suite in Suite::ALL {
        let panel = match network_ns {
            NETWORK_NS => suite.name().to_owned(),
            ns => format!("{}, {ns} ns", suite.name()),
        };
        for (protocol, name) in SYSTEMS {
            for hosts in HOSTS {
                let mean = mean_over_inv(measured, suite, protocol, hosts, network_ns, quantity);
                sketch.point(&panel, name, hosts.to_string(), &[mean]);
            }
        }
    }
}

fn mean_over_inv(
    measured: &Measured,
    suite: Suite,
    protocol: usize,
    hosts: usize,
    network_ns: u32,
    quantity: Quantity,
) -> f64 {
    let of = |workload| measured.over_inv(run(workload, protocol, hosts, network_ns), quantity);
    over_suite(suite, of).0
}

fn figure_9(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "9",
        "Instructions per cycle on more hosts",
        "The same 32 threads on two to sixteen hosts, each compared with INV-CF on as many.",
        "hosts",
        &["IPC over INV-CF"],
    );
    along_hosts(&mut sketch, measured, IPC, NETWORK_NS);
    let stated = [[1.67, 5.77], [2.21, 2.65]];
    for (suite, stated) in Suite::ALL.into_iter().zip(stated) {
        for ((protocol, name), paper) in SYSTEMS.into_iter().zip(stated) {
            let ours = mean_over_inv(measured, suite, protocol, 16, NETWORK_NS, IPC);
            let quantity = format!("{name}, {}, IPC over INV-CF on 16 hosts", suite.name());
            sketch.states(quantity, paper, ours);
            let few = mean_over_inv(measured, suite, protocol, 2, NETWORK_NS, IPC);
            let quantity = format!("{name}, {}, IPC over INV-CF, 16 hosts over 2", suite.name());
            sketch.says(quantity, "becomes more notable", ours / few);
        }
    }
    sketch.drawn
}

fn figure_10(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "10",
        "Latency on more hosts",
        "The same 32 threads on two to sixteen hosts, each compared with INV-CF on as many.",
        "hosts",
        &["mean access time over INV-CF"],
    );
    along_hosts(&mut sketch, measured, LATENCY, NETWORK_NS);
    let at = |suite, hosts| mean_over_inv(measured, suite, SDM, hosts, NETWORK_NS, LATENCY);
    for suite in Suite::ALL {
        let quantity = format!("SDM, {}, latency over INV-CF on 16 hosts", suite.name());
        match suite {
            Suite::Compute => sketch.states(quantity, 0.09, at(suite, 16)),
            Suite::Graph => {
                sketch.says(quantity, "becomes more significant", at(suite, 16));
            }
        }
        let quantity = format!("SDM, {}, latency over INV-CF, 16 hosts over 2", suite.name());
        sketch.says(quantity, "becomes more significant", at(suite, 16) / at(suite, 2));
    }
    sketch.drawn
}

fn figure_11(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "11",
        "Latency and the network",
        "Networks that take 100 to 1000 ns one way, on two to sixteen hosts, each compared with INV-CF.",
        "hosts",
        &["mean access time over INV-CF"],
    );
    for network_ns in NETWORKS_NS {
        along_hosts(&mut sketch, measured, LATENCY, network_ns);
    }
    let mean = |hosts, network_ns| {
        let of = |suite| mean_over_inv(measured, suite, SDM, hosts, network_ns, LATENCY);
        (of(Suite::Compute) * of(Suite::Graph)).sqrt()
    };
    sketch.states("SDM, latency over INV-CF, 2 hosts, 100 ns".into(), 0.31, mean(2, 100));
    sketch.states("SDM, latency over INV-CF, 2 hosts, 1000 ns".into(), 0.25, mean(2, 1000));
    sketch.states("SDM, latency over INV-CF, 4 hosts, 1000 ns".into(), 0.10, mean(4, 1000));
    sketch.drawn
}
