//! Programs by name and parameters.

use std::cell::Cell;
use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::str::FromStr;

use crate::array::Layout;
use crate::team::{Member, Team};
use crate::{Bytes, GraphSource, Processor, ProgramError, Region, gap, nas, parsec, synthetic};

/// The most threads a program can have.
pub const MAX_THREADS: usize = 4096;

/// The most edges of a synthetic graph: as many as a Kronecker graph has at scale 26.
const MOST_EDGES: u64 = 1 << 30;

/// The work of a program's threads.
pub(crate) trait Kernel: 'static {
    /// One thread's part. All threads pass the same number of barriers.
    fn run<P: Processor>(&self, me: &Member<P>);

    /// Whether the result is what an oracle says; if not, what is wrong.
    fn verify(&self) -> Result<(), String>;
}

/// A kernel on one kind of processor.
trait Runs<P> {
    fn run(&self, me: &Member<P>);
    fn verify(&self) -> Result<(), String>;
}

impl<P: Processor, K: Kernel> Runs<P> for K {
    fn run(&self, me: &Member<P>) {
        Kernel::run(self, me);
    }

    fn verify(&self) -> Result<(), String> {
        Kernel::verify(self)
    }
}

/// The parts that a kernel is made from.
pub(crate) struct Setup<'a> {
    pub(crate) layout: Layout,
    pub(crate) threads: usize,
    pub(crate) scale: u32,
    pub(crate) rounds: u32,
    pub(crate) parameters: &'a Parameters,
}

/// The input of a program.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The size, as a power of two of what [`ProgramName::scale_of`] says; the program's own if
    /// `None`.
    pub scale: Option<u32>,
    /// How often it is done, as [`ProgramName::rounds_of`] says; the program's own number if
    /// `None`.
    pub rounds: Option<u32>,
    /// Fixes inputs and random choices.
    pub seed: u64,
    /// The graph, for kernels that work on one.
    pub graph: GraphSource,
    /// Edges per vertex of synthetic graphs.
    pub edge_factor: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { scale: None, rounds: None, seed: 1, graph: GraphSource::default(), edge_factor: 16 }
    }
}

/// Facts of a program that are known without making it.
struct Facts {
    name: &'static str,
    about: &'static str,
    scale_of: &'static str,
    scales: RangeInclusive<u32>,
    scale: u32,
    rounds_of: &'static str,
    rounds: u32,
}

macro_rules! programs {
    ($(
        $variant:ident $name:literal: $about:literal,
        $scale_of:literal $scales:expr, $scale:literal,
        $rounds_of:literal $rounds:literal, $new:path;
    )+) => {
        /// The programs there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProgramName {
            $(#[doc = $about] $variant,)+
        }

        impl ProgramName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            const fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$variant => &Facts {
                        name: $name,
                        about: $about,
                        scale_of: $scale_of,
                        scales: $scales,
                        scale: $scale,
                        rounds_of: $rounds_of,
                        rounds: $rounds,
                    },)+
                }
            }
        }

        fn kernel<P: Processor>(name: ProgramName, setup: &mut Setup) -> Rc<dyn Runs<P>> {
            match name {
                $(ProgramName::$variant => Rc::new($new(setup)),)+
            }
        }
    };
}

programs! {
    Bfs "bfs": "GAP: breadth-first search, direction optimizing.",
        "vertices" 0..=26, 14, "sources, one after the other" 1, gap::Bfs::new;
    Bc "bc": "GAP: betweenness centrality, by Brandes' algorithm.",
        "vertices" 0..=26, 14, "sources" 1, gap::Bc::new;
    Cc "cc": "GAP: connected components, by the algorithm of Shiloach and Vishkin.",
        "vertices" 0..=26, 14, "repetitions" 1, gap::Cc::new;
    Sssp "sssp": "GAP: shortest paths, by delta stepping.",
        "vertices" 0..=26, 14, "sources, one after the other" 1, gap::Sssp::new;
    Pr "pr": "GAP: PageRank, pulling until scores hardly change.",
        "vertices" 0..=26, 14, "iterations, at most" 20, gap::Pr::new;
    Tc "tc": "GAP: triangles, by intersecting rows in order.",
        "vertices" 0..=26, 12, "repetitions" 1, gap::Tc::new;
    Cg "cg": "NAS-like: a sparse system of equations, by conjugate gradients.",
        "rows" 0..=24, 12, "iterations, at most" 15, nas::Cg::new;
    Is "is": "NAS-like: whole numbers sorted by counting.",
        "keys" 0..=27, 16, "repetitions" 2, nas::Is::new;
    Ep "ep": "NAS: pairs of Gaussian numbers, counted by size.",
        "pairs" 0..=36, 16, "repetitions" 1, nas::Ep::new;
    Ft "ft": "NAS: the heat equation, by Fourier transforms in three dimensions.",
        "points" 0..=24, 15, "steps of time" 2, nas::Ft::new;
    Mg "mg": "NAS: Poisson's equation, by multigrid.",
        "points, but of a cube with sides that are powers of two" 3..=27, 15,
        "cycles" 4, nas::Mg::new;
    Bt "bt": "NAS-like: coupled diffusion in a cube, by blocks along lines.",
        "points, but of a cube with sides that are powers of two" 3..=24, 12,
        "steps of time" 4, nas::Bt::new;
    Sp "sp": "NAS-like: diffusion in a cube, by numbers along lines.",
        "points, but of a cube with sides that are powers of two" 3..=27, 15,
        "steps of time" 4, nas::Sp::new;
    Lu "lu": "NAS-like: a system of equations on a cube, by over-relaxation.",
        "points, but of a cube with sides that are powers of two" 3..=27, 15,
        "sweeps there and back" 4, nas::Lu::new;
    Blackscholes "blackscholes": "PARSEC-like: prices of options, each on its own.",
        "options" 0..=24, 12, "repetitions" 4, parsec::Blackscholes::new;
    Canneal "canneal": "PARSEC-like: a netlist whose elements are exchanged until wires are short.",
        "elements" 0..=24, 15, "temperatures" 32, parsec::Canneal::new;
    Streamcluster "streamcluster": "PARSEC-like: points assigned to centers by local search.",
        "points" 0..=22, 12, "sets of 24 candidates" 1, parsec::Streamcluster::new;
    Fluidanimate "fluidanimate": "PARSEC-like: a fluid of particles in cells with locks.",
        "particles" 0..=22, 13, "frames" 1, parsec::Fluidanimate::new;
    Raytrace "raytrace": "PARSEC-like: a picture of spheres, found along rays through a grid.",
        "pixels" 0..=24, 17, "pictures" 1, parsec::Raytrace::new;
    Dedup "dedup": "PARSEC-like: a stream cut into chunks, of which equal ones are stored once.",
        "bytes" 0..=28, 19, "repetitions" 1, parsec::Dedup::new;
    Swaptions "swaptions": "PARSEC-like: prices of options on swaps, by simulated rates.",
        "swaptions" 0..=20, 7, "sets of 64 trials" 2, parsec::Swaptions::new;
    Ferret "ferret": "PARSEC-like: pictures that look like others, found by hashes.",
        "pictures" 0..=22, 14, "sets of 256 queries" 1, parsec::Ferret::new;
    Bodytrack "bodytrack": "PARSEC-like: a body followed through pictures by a particle filter.",
        "pixels" 4..=24, 15, "frames" 1, parsec::Bodytrack::new;
    X264 "x264": "PARSEC-like: a film coded block by block from the frame before.",
        "pixels" 6..=22, 15, "sets of 32 frames" 1, parsec::X264::new;
    Phases "phases": "Synthetic: an array that all threads write, and then all read.",
        "elements" 0..=26, 19, "sets of 32 times that it is read" 1, synthetic::Phases::new;
    Mixed "mixed": "Synthetic: a table that all threads read, and counters that all write.",
        "entries of the table" 0..=26, 20, "repetitions" 1, synthetic::Mixed::new;
}

impl ProgramName {
    /// One line on what it does.
    pub fn about(self) -> &'static str {
        self.facts().about
    }

    /// The things of which there are 2^scale.
    pub fn scale_of(self) -> &'static str {
        self.facts().scale_of
    }

    /// Which scales it takes.
    pub fn scales(self) -> RangeInclusive<u32> {
        self.facts().scales.clone()
    }

    /// Its scale unless told otherwise.
    pub fn default_scale(self) -> u32 {
        self.facts().scale
    }

    /// The meaning of [`Parameters::rounds`].
    pub fn rounds_of(self) -> &'static str {
        self.facts().rounds_of
    }

    /// Its rounds unless told otherwise.
    pub fn default_rounds(self) -> u32 {
        self.facts().rounds
    }

    /// Whether it works on a graph.
    pub fn takes_graph(self) -> bool {
        use ProgramName::{Bc, Bfs, Cc, Pr, Sssp, Tc};
        matches!(self, Bfs | Bc | Cc | Sssp | Pr | Tc)
    }

    fn scale(self, parameters: &Parameters) -> Result<u32, ProgramError> {
        let scale = parameters.scale.unwrap_or(self.default_scale());
        let scales = self.scales();
        let expected = || format!("{} to {}", scales.start(), scales.end());
        self.check("scale", scale.into(), scales.contains(&scale), expected)?;
        Ok(scale)
    }

    fn rounds(self, parameters: &Parameters) -> Result<u32, ProgramError> {
        let rounds = parameters.rounds.unwrap_or(self.default_rounds());
        self.check("rounds", rounds.into(), (1..=1 << 20).contains(&rounds), || {
            "1 to 1048576".to_owned()
        })?;
        Ok(rounds)
    }

    fn check_edges(self, parameters: &Parameters, scale: u32) -> Result<(), ProgramError> {
        let factor = parameters.edge_factor;
        let most = MOST_EDGES >> scale;
        let holds = !self.takes_graph() || (1..=most).contains(&u64::from(factor));
        self.check("edge factor", factor.into(), holds, || format!("1 to {most} at scale {scale}"))
    }

    fn check(
        self,
        parameter: &'static str,
        value: u64,
        holds: bool,
        expected: impl Fn() -> String,
    ) -> Result<(), ProgramError> {
        if holds {
            return Ok(());
        }
        let program = self.facts().name;
        Err(ProgramError::Parameter { program, parameter, value, expected: expected() })
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().name)
    }
}

impl FromStr for ProgramName {
    type Err = ProgramError;

    fn from_str(name: &str) -> Result<Self, ProgramError> {
        let names = || Self::ALL.iter().map(|program| program.facts().name);
        if let Some(index) = names().position(|known| known == name) {
            return Ok(Self::ALL[index]);
        }
        let nearest = names().min_by_key(|known| strsim::osa_distance(known, name));
        let nearest = nearest.expect("there are programs");
        Err(ProgramError::Unknown { name: name.to_owned(), nearest })
    }
}

/// A program, ready to be run once.
pub struct Program<P> {
    name: ProgramName,
    kernel: Rc<dyn Runs<P>>,
    team: Rc<Team>,
    threads: usize,
    ended: Rc<Cell<usize>>,
    layout: Layout,
}

impl<P: Processor> Program<P> {
    /// Makes the program's input, and lays it out.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Parameter`] if a parameter is out of its range.
    pub fn new(
        name: ProgramName,
        parameters: &Parameters,
        threads: usize,
    ) -> Result<Self, ProgramError> {
        let known = (1..=MAX_THREADS).contains(&threads);
        name.check("threads", threads as u64, known, || format!("1 to {MAX_THREADS}"))?;
        let (scale, rounds) = (name.scale(parameters)?, name.rounds(parameters)?);
        name.check_edges(parameters, scale)?;
        let mut setup = Setup { layout: Layout::default(), threads, scale, rounds, parameters };
        let kernel = kernel(name, &mut setup);
        let team = Team::new(&mut setup.layout, threads);
        Ok(Self { name, kernel, team, threads, ended: Rc::default(), layout: setup.layout })
    }

    /// Which program this is.
    pub fn name(&self) -> ProgramName {
        self.name
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The work of a thread. Each is to be run once, on a processor of its own; all of them
    /// together, since they wait for each other.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn thread(&self, thread: usize) -> impl FnOnce(P) + 'static {
        assert!(thread < self.threads, "thread {thread} of {}", self.threads);
        let (kernel, team) = (Rc::clone(&self.kernel), Rc::clone(&self.team));
        let ended = Rc::clone(&self.ended);
        move |processor| {
            kernel.run(&Member::new(team, thread, processor));
            ended.set(ended.get() + 1);
        }
    }

    /// Compares the result with what an oracle says.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Running`] if not all threads have ended, and [`ProgramError::Wrong`] if the
    /// result is not what it must be.
    pub fn verify(&self) -> Result<(), ProgramError> {
        let (program, ended, threads) = (self.name.facts().name, self.ended.get(), self.threads);
        if ended != threads {
            return Err(ProgramError::Running { program, ended, threads });
        }
        self.kernel.verify().map_err(|problem| ProgramError::Wrong { program, problem })
    }

    /// Writes its input into the memory of a machine that has one, before its threads run.
    pub fn write_to(&self, bytes: &dyn Bytes) {
        self.layout.write_to(bytes);
    }

    /// Takes its values from the memory of a machine in which all its threads have ended, of other
    /// processes too.
    pub fn read_from(&self, bytes: &dyn Bytes) {
        self.layout.read_from(bytes);
        self.ended.set(self.threads);
    }

    /// Where its arrays lie, by address; no two share a page.
    pub fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// How many bytes its arrays have.
    pub fn bytes(&self) -> u64 {
        self.regions().iter().map(|region| region.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Turn, run_in_turns};

    fn program(name: ProgramName) -> Program<Turn> {
        let parameters = Parameters { scale: Some(9), ..Parameters::default() };
        Program::new(name, &parameters, 2).unwrap()
    }

    /// The arrays that make a program's result.
    fn results(name: ProgramName) -> &'static [&'static str] {
        match name {
            ProgramName::Bfs => &["parents"],
            ProgramName::Bc | ProgramName::Pr => &["scores"],
            ProgramName::Cc => &["labels"],
            ProgramName::Sssp => &["distances"],
            ProgramName::Tc => &["total"],
            ProgramName::Cg | ProgramName::Mg | ProgramName::Lu => &["solution"],
            ProgramName::Bt | ProgramName::Sp => &["field"],
            ProgramName::Is => &["sorted keys"],
            ProgramName::Ep => &["Gaussian sums", "counts"],
            ProgramName::Ft => &["checksums"],
            ProgramName::Blackscholes | ProgramName::Swaptions => &["prices"],
            ProgramName::Raytrace => &["picture"],
            ProgramName::Ferret => &["results"],
            ProgramName::Bodytrack => &["bodies"],
            ProgramName::X264 => &["coded film", "motions"],
            ProgramName::Canneal => &["places"],
            ProgramName::Streamcluster => &["centers of points", "centers"],
            ProgramName::Fluidanimate => &["positions"],
            ProgramName::Dedup => &["recipe", "store", "chunks"],
            ProgramName::Phases => &["values", "sums of values"],
            ProgramName::Mixed => &["counters"],
        }
    }

    #[test]
    fn a_result_that_is_not_there_is_wrong() {
        for &name in ProgramName::ALL {
            let program = program(name);
            assert!(program.kernel.verify().is_err(), "{name}");
        }
    }

    #[test]
    fn a_spoiled_result_is_wrong() {
        for &name in ProgramName::ALL {
            for &result in results(name) {
                let program = program(name);
                run_in_turns(&program, 1, 100, |_, turn| turn);
                program.verify().unwrap();
                let is_result = |region: &Region| region.name == result;
                let last = program.regions().iter().rposition(is_result).unwrap();
                program.layout.spoilers[last]();
                let error = program.verify().expect_err(result);
                assert!(matches!(error, ProgramError::Wrong { .. }), "{error}");
            }
        }
    }
}
