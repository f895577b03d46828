//! Graphs that users bring, and parameters that make no sense.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tombolo_programs::{
    EdgeList, GraphSource, MAX_VERTICES, Parameters, Program, ProgramError, ProgramName, Turn,
    run_in_turns,
};

const GRAPH_KERNELS: [ProgramName; 6] = [
    ProgramName::Bfs,
    ProgramName::Bc,
    ProgramName::Cc,
    ProgramName::Sssp,
    ProgramName::Pr,
    ProgramName::Tc,
];

fn read(text: &str, directed: bool) -> Result<EdgeList, ProgramError> {
    EdgeList::read("graph.txt", text.as_bytes(), directed)
}

fn run(graph: GraphSource, seed: u64) {
    for name in GRAPH_KERNELS {
        for threads in [1, 7] {
            let (graph, scale) = (graph.clone(), Some(8));
            let rounds = (name != ProgramName::Pr).then_some(2);
            let parameters = Parameters { graph, scale, seed, rounds, ..Parameters::default() };
            let program = Program::new(name, &parameters, threads).unwrap();
            run_in_turns(&program, seed, 3, |_, turn| turn);
            program.verify().unwrap_or_else(|error| panic!("{error}; {parameters:?}"));
        }
    }
}

#[test]
fn uniform_graphs() {
    (0..3).for_each(|seed| run(GraphSource::Uniform, seed));
}

#[test]
fn lists_of_edges() {
    for text in [
        "0 0",
        "0 1",
        "5 3\n3 5",
        "# a comment\n% another\n\n 0 1\n1,2\n2\t3\r\n7 7",
        "0 1 5\n1 2 0\n2 0 7\n0 1 4\n1 0 1000000000",
        "9 8 1\n8 7 1\n7 6 1\n6 5 1\n5 4 1\n4 9 100\n",
    ] {
        for directed in [false, true] {
            let list = Arc::new(read(text, directed).unwrap());
            run(GraphSource::Edges(list), 1);
        }
    }
}

#[test]
fn large_random_lists() {
    for (directed, weighted) in [(false, true), (true, false), (true, true)] {
        let mut word = 1_u64;
        let mut number = |end: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) % end
        };
        let mut text = String::new();
        for _ in 0..2000 {
            text += &format!("{} {}", number(500), number(500));
            text += &if weighted { format!(" {}\n", number(100)) } else { "\n".to_owned() };
        }
        let list = Arc::new(read(&text, directed).unwrap());
        assert_eq!(list.edges(), 2000);
        run(GraphSource::Edges(list), 2);
    }
}

#[test]
fn what_is_no_edge_is_reported_with_its_line() {
    let largest = MAX_VERTICES - 1;
    for (text, message) in [
        ("", "1: the text ends, and there was no edge".to_owned()),
        ("# nothing\n", "2: the text ends, and there was no edge".to_owned()),
        ("0 1\n2\n", "2: one vertex only; write `from to` or `from to weight`".to_owned()),
        (
            "0 1\n\n2 x",
            format!("3: \"x\" is no vertex; it must be a whole number from 0 to {largest}"),
        ),
        ("-1 0", format!("1: \"-1\" is no vertex; it must be a whole number from 0 to {largest}")),
        (
            "0 268435456",
            format!("1: \"268435456\" is no vertex; it must be a whole number from 0 to {largest}"),
        ),
        (
            "0 1 0.5",
            "1: \"0.5\" is no weight; it must be a whole number from 0 to 1073741824".to_owned(),
        ),
        ("0 1 2 3", "1: more than `from to weight`".to_owned()),
        (
            "0 1 2\n1 2",
            "2: no weight, but the first edge has one; write `from to weight`".to_owned(),
        ),
        ("0 1\n1 2 3", "2: a weight, but the first edge has none; write `from to`".to_owned()),
        (
            "0 1\n0 200000000\n1 2",
            "2: vertex 200000000 in a list of 3 edges; number the vertices from 0 on without gaps"
                .to_owned(),
        ),
        (&"1".repeat(2000), "1: more than 1000 bytes; this is no edge".to_owned()),
    ] {
        let error = read(text, false).unwrap_err();
        assert_eq!(error.to_string(), format!("graph.txt:{message}"));
    }
}

fn from_file(name: &str, bytes: &[u8]) -> Result<EdgeList, ProgramError> {
    EdgeList::from_file(name, bytes)
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn matrix_market_files_are_graphs() {
    let symmetric =
        "%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n4 4 2\n2 1\n4 3\n";
    let graph = from_file("web.mtx", symmetric.as_bytes()).unwrap();
    assert_eq!(graph, EdgeList::read("edges", &b"1 0\n3 2"[..], false).unwrap());
    let weighted = "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 -2.6\n2 3 1e-9\n";
    let graph = from_file("web.mtx", weighted.as_bytes()).unwrap();
    assert_eq!(graph, EdgeList::read("edges", &b"0 1 3\n1 2 1"[..], true).unwrap());
    for (text, problem) in [
        ("%%MatrixMarket matrix array real general\n", "dense matrices are no graphs"),
        ("%%MatrixMarket matrix coordinate text general\n", "text is none of pattern"),
        ("%%MatrixMarket matrix coordinate pattern odd\n", "odd is none of general"),
        ("%%MatrixMarket matrix coordinate pattern general\n1 2\n", "no line of sizes"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n0 1\n", "graph.mtx:3: a row"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 3\n", "number from 1 to 2"),
        ("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2\n", "no value behind"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n", "1 entries, where"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 0\n", "no entries"),
    ] {
        let error = from_file("graph.mtx", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

/// A serialized graph: rows of vertices, with weights if there are any.
fn serialized(directed: bool, rows: &[&[(u32, Option<u32>)]]) -> Vec<u8> {
    let edges: usize = rows.iter().map(|row| row.len()).sum();
    let mut bytes = vec![u8::from(directed)];
    let mut number = |value: usize| bytes.extend((value as u64).to_le_bytes());
    number(edges);
    number(rows.len());
    let mut offset = 0;
    number(0);
    for row in rows {
        offset += row.len();
        number(offset);
    }
    for (to, weight) in rows.iter().copied().flatten() {
        bytes.extend(to.to_le_bytes());
        bytes.extend(weight.iter().flat_map(|weight| weight.to_le_bytes()));
    }
    bytes
}

#[test]
fn serialized_graphs_of_gap_are_read() {
    let undirected = serialized(false, &[&[(1, None)], &[(0, None), (2, None)], &[(1, None)]]);
    let graph = from_file("kron.sg", &undirected).unwrap();
    assert_eq!(graph, EdgeList::read("edges", &b"0 1\n1 2"[..], false).unwrap());
    let weighted = serialized(true, &[&[(1, Some(7))], &[], &[(0, Some(9))]]);
    let graph = from_file("road.wsg.gz", &gzipped(&weighted)).unwrap();
    assert_eq!(graph, EdgeList::read("edges", &b"0 1 7\n2 0 9"[..], true).unwrap());
    let problem = |name: &str, bytes: &[u8]| from_file(name, bytes).unwrap_err().to_string();
    let cut = problem("kron.sg", &undirected[..undirected.len() - 2]);
    assert_eq!(cut, "the graph kron.sg: the file ends before an edge");
    assert!(problem("kron.sg", b"0 1\n1 2").contains("says neither directed nor not"));
    let mut beyond = undirected.clone();
    *beyond.last_mut().unwrap() = 1;
    assert!(problem("kron.sg", &beyond).contains("vertex 16777217 of 3"), "{beyond:?}");
}

#[test]
fn gzipped_lists_of_edges_are_read() {
    let text = b"# Nodes: 3 Edges: 2\n0\t1\n1\t2\n";
    let graph = from_file("snap.txt.gz", &gzipped(text)).unwrap();
    assert_eq!(graph, from_file("snap.txt", text).unwrap());
    let cut = gzipped(text);
    let error = from_file("snap.txt.gz", &cut[..cut.len() - 9]).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn parameters_out_of_range() {
    let refused = |name: ProgramName, parameters: Parameters, threads| {
        Program::<Turn>::new(name, &parameters, threads).err().unwrap().to_string()
    };
    let scale = |scale| Parameters { scale: Some(scale), ..Parameters::default() };
    assert_eq!(refused(ProgramName::Bfs, scale(27), 1), "scale is 27, but bfs takes 0 to 26");
    assert_eq!(refused(ProgramName::Mg, scale(2), 1), "scale is 2, but mg takes 3 to 27");
    assert_eq!(refused(ProgramName::Bfs, scale(3), 0), "threads is 0, but bfs takes 1 to 4096");
    assert_eq!(
        refused(ProgramName::Bfs, scale(3), 4097),
        "threads is 4097, but bfs takes 1 to 4096"
    );
    let rounds = Parameters { rounds: Some(0), ..Parameters::default() };
    assert_eq!(refused(ProgramName::Pr, rounds, 1), "rounds is 0, but pr takes 1 to 1048576");
    for edge_factor in [0, 65537] {
        let factor = Parameters { edge_factor, ..scale(14) };
        assert_eq!(
            refused(ProgramName::Tc, factor, 1),
            format!("edge factor is {edge_factor}, but tc takes 1 to 65536 at scale 14")
        );
    }
    assert_eq!(
        "sreamcluster".parse::<ProgramName>().unwrap_err().to_string(),
        "there is no program \"sreamcluster\"; the nearest name is \"streamcluster\""
    );
}

#[test]
fn as_many_threads_as_there_may_be() {
    let parameters = Parameters { scale: Some(10), ..Parameters::default() };
    let program = Program::new(ProgramName::Bfs, &parameters, 4096).unwrap();
    run_in_turns(&program, 1, 50, |_, turn| turn);
    program.verify().unwrap();
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = EdgeList::read("graph.txt", &bytes[..], false);
    }

    #[test]
    fn almost_edges(text in "(#?[0-9]{0,10}[ ,\t]?[0-9]{1,9}( [0-9]{1,11})?\r?\n?){0,6}") {
        if let Ok(list) = read(&text, true) {
            prop_assert!(list.edges() > 0 && list.vertices() <= MAX_VERTICES);
        }
    }
}
