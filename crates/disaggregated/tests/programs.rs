//! Programs come to the right results, whatever keeps their memory coherent.

use tombolo_coherence::Filter;
use tombolo_disaggregated::{Config, Core, Protocol, Summary, System};
use tombolo_programs::{Parameters, Program, ProgramName};

fn run<const WORDS: usize>(name: ProgramName, config: &Config) -> Summary {
    // Smaller than by default: there are many.
    let scale = name.default_scale().saturating_sub(5).max(*name.scales().start());
    let parameters = Parameters { scale: Some(scale), ..Parameters::default() };
    let program: Program<Core<WORDS>> = Program::new(name, &parameters, config.threads).unwrap();
    let system: System<WORDS> = System::new(config).unwrap();
    system.run_program(&program, |_, core| core);
    program.verify().unwrap_or_else(|wrong| panic!("{:?}: {wrong}", config.protocol));
    system.summary()
}

#[test]
fn every_program_is_right_under_every_protocol() {
    for &name in ProgramName::ALL {
        for protocol in Protocol::ALL {
            let config = Config { threads: 8, ..Config::paper(protocol, 4) };
            let summary = run::<1>(name, &config);
            assert!(summary.accesses > 0 && summary.isolated_threads == 0, "{name}");
            let uncached = protocol == Protocol::Uncached;
            let asked: u64 = ["MemRd", if uncached { "MemWr" } else { "MemInv" }]
                .iter()
                .filter_map(|message| summary.messages.get(message))
                .sum();
            assert_eq!(asked, summary.remote_reads, "{name}: a request a transaction");
        }
    }
}

#[test]
fn hosts_are_as_many_as_words_of_their_sets_allow() {
    // The same program whatever the width of sets, on 64 hosts; and on 100 and more of them.
    let name: ProgramName = "cc".parse().unwrap();
    let config = Config { threads: 64, ..Config::paper(Protocol::Sha, 64) };
    assert_eq!(run::<1>(name, &config), run::<2>(name, &config));
    let config = Config { threads: 100, ..Config::paper(Protocol::Bi, 100) };
    let summary = run::<2>(name, &config);
    assert!(summary.messages["BISnpData"] > 99 * summary.primitives["fetch_exclusive"] / 2);
    let refused = |config: &Config| System::<1>::new(config).err().unwrap().to_string();
    assert!(refused(&config).contains("hosts 100"), "{}", refused(&config));
    let config = Config { threads: 2000, ..Config::paper(Protocol::Bi, 2000) };
    assert!(refused(&config).contains("1 to 1024"));
}

#[test]
fn each_request_has_its_answers() {
    let config = Config { filter: Filter::Directory, ..Config::paper(Protocol::Bi, 16) };
    let counts = run::<1>("sssp".parse().unwrap(), &config).messages;
    let of = |names: &[&str]| -> u64 { names.iter().filter_map(|name| counts.get(name)).sum() };
    assert_eq!(of(&["BISnpData", "BISnpInv"]), of(&["BIRspI", "BIRspS"]));
    let requests = of(&["MemRd", "MemInv", "MemWr", "ralloc", "rfree", "rwalk"]);
    assert_eq!(requests, of(&["Cmp", "Cmp-E", "Cmp-S"]));
}

#[test]
fn interleaving_and_several_nodes_take_away_queues() {
    let name: ProgramName = "pr".parse().unwrap();
    let slow = Config { node_gb_per_s: 0.1, ..Config::paper(Protocol::Sha, 4) };
    let one = run::<1>(name, &slow);
    let many = run::<1>(name, &Config { nodes: 8, interleave_bytes: 256, ..slow });
    assert!(many.queueing_ns < one.queueing_ns / 2.0, "{} {}", one.queueing_ns, many.queueing_ns);
    assert!(many.seconds < one.seconds);
}
