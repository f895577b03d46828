//! The MEGALON paper's evaluation in virtual time: figures 4 to 15, and its comparison of memory.
//!
//! A [`Figure`] says what is run for it, what is measured, and what the paper states about it. A
//! figure runs pods, and in each of them one step after the other. So a pod is loaded once, and
//! grows, and figures share those that are made alike (`plan`). Pods are run in parallel, each in
//! one OS thread, and know nothing of each other; a figure comes out the same whatever else is
//! drawn.
//!
//! At a scale of less than 1 datasets, SCR and caches are that much smaller, and what is stated per
//! object stays as it is. Nothing is fitted to a figure.

mod chart;
mod csv;
mod drawn;
mod fig04;
mod fig05;
mod fig06;
mod fig07;
mod fig08;
mod fig09;
mod fig10;
mod fig11;
mod fig12;
mod fig13;
mod fig14;
mod fig15;
mod measure;
mod memory;
mod plan;
mod point;
mod report;
mod room;
mod run;
mod scheme;
mod sketch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use tombolo_timing::Profile;

pub(crate) use drawn::Place;
pub use drawn::{Drawn, Row, Shown};
use measure::Progress;
pub use measure::Stage;
use plan::Plan;
use point::{COLUMNS, Measured, Points};
pub use point::{Measure, Point};
pub use report::{Page, Summary, html};
use room::Room;
use run::{Run, Step};
pub(crate) use sketch::Sketch;

/// The figures there are, in the order of the paper.
pub const FIGURES: [Figure; 13] = [
    fig04::FIGURE,
    fig05::FIGURE,
    fig06::FIGURE,
    fig07::FIGURE,
    fig08::FIGURE,
    fig09::FIGURE,
    fig10::FIGURE,
    fig11::FIGURE,
    fig12::FIGURE,
    fig13::FIGURE,
    fig14::FIGURE,
    fig15::FIGURE,
    memory::FIGURE,
];

/// A figure of the paper.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The name by which a user asks for it: its number, but for `memory`.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The method, in a sentence.
    pub about: &'static str,
    /// The quantity along the horizontal axis.
    x: &'static str,
    /// Whether it is drawn as bars, instead of lines.
    bars: bool,
    measures: &'static [Measure],
    runs: fn() -> Vec<Run>,
    compare: fn(&mut Points<'_>),
}

/// The paper's test bed, `profiles/megalon.toml`.
///
/// # Panics
/// If the file is not sound, which a test says.
pub fn test_bed() -> Profile {
    const TEXT: &str = include_str!("../../../../profiles/megalon.toml");
    Profile::parse("profiles/megalon.toml", TEXT).expect("a test has parsed it")
}

/// Where, how large, and by which lot figures are drawn.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine, at full scale.
    pub profile: Profile,
    /// How large datasets, SCR and caches are, compared with the paper's.
    pub scale: f64,
    /// Decides everything that is drawn by lot.
    pub seed: u64,
}

impl Figure {
    /// The figure that is asked for by `id`.
    pub fn by_id(id: &str) -> Option<Self> {
        FIGURES.into_iter().find(|figure| figure.id == id)
    }

    /// All its runs, in each edition there is.
    fn all_runs(&self) -> Vec<Run> {
        (self.runs)().into_iter().flat_map(Run::editions).collect()
    }

    /// Its points, as soon as all of them are measured: where, its plan says.
    fn points(
        &self,
        plan: &[(usize, usize)],
        measured: &[Option<Vec<Measured>>],
    ) -> Option<Vec<Point>> {
        let runs = self.all_runs();
        let steps = runs.iter().flat_map(|run| run.steps.iter().map(move |step| (run, step)));
        let point = |((run, step), &(pod, number)): ((&Run, &Step), &(usize, usize))| {
            let (panel, curve, x) = (step.panel.clone(), run.curve(), step.x.clone());
            Some(Point { panel, curve, x, measured: measured[pod].as_ref()?[number] })
        };
        steps.zip(plan).map(point).collect()
    }

    fn with(self, points: Vec<Point>) -> Drawn {
        let mut compared = Points { figure: self.id, points: &points, rows: Vec::new() };
        (self.compare)(&mut compared);
        let rows = compared.rows;
        let values = |measure: &Measure| -> Vec<f64> {
            points.iter().map(|point| (measure.of)(&point.measured)).collect()
        };
        let shown = |measure: &Measure| Shown {
            what: format!("{}, {}", measure.name, measure.unit),
            values: values(measure),
        };
        Drawn {
            id: self.id,
            title: self.title,
            about: self.about,
            x: self.x,
            bars: self.bars,
            shown: self.measures.iter().map(shown).collect(),
            columns: COLUMNS.iter().map(|(name, m)| (*name, values(m))).collect(),
            places: points.into_iter().map(Place::from).collect(),
            rows,
        }
    }
}

/// The progress that is told while figures are drawn.
pub enum Event<'a> {
    /// Something is being done for a figure, by the thread that tells so.
    Doing {
        /// The figure.
        figure: Figure,
        /// The stage that begins.
        stage: Stage,
        /// For which point, for people.
        place: String,
    },
    /// There are so many points, of all figures; this thread has just done one.
    Points {
        /// So many.
        done: usize,
        /// Of so many.
        of: usize,
    },
    /// A figure is done: the one with this number among all that are, in the order of the paper.
    Drawn(usize, &'a [Drawn]),
}

/// Told by several threads.
pub type Tell<'a> = dyn Fn(Event<'_>) -> Result<()> + Sync + 'a;

/// Draws figures, one after the other, up to `jobs` pods at a time, and no more than find room in
/// `host_bytes` of this machine's memory.
///
/// # Errors
/// Those of the pods, and of who is told, the first of which ends all.
pub fn draw(
    figures: &[Figure],
    settings: &Settings,
    jobs: usize,
    host_bytes: u64,
    tell: &Tell<'_>,
) -> Result<Vec<Drawn>> {
    let (plan, numbers) = planned(figures);
    let of = plan.todo.iter().sum();
    tell(Event::Points { done: 0, of })?;
    let done = AtomicUsize::new(0);
    let measured = Mutex::new(vec![None; plan.pods.len()]);
    // Figures by their places among those to be drawn.
    let drawn: Mutex<(Vec<usize>, Vec<Drawn>)> = Mutex::default();
    let room = Room::new(host_bytes);
    let outcomes = in_parallel(&plan.order(), jobs, |&number| {
        let (run, firsts) = (&plan.pods[number], &plan.firsts[number]);
        let context = || format!("figure {}, {}", FIGURES[firsts[0]].id, run.scheme.name());
        let progresses = |progress| match progress {
            Progress::Does(stage, step, place) => {
                tell(Event::Doing { figure: FIGURES[firsts[step]], stage, place })
            }
            Progress::Done => {
                tell(Event::Points { done: done.fetch_add(1, Ordering::Relaxed) + 1, of })
            }
        };
        let points = room.with(bytes_of(run, settings.scale), || {
            measure::run(run, plan.todo[number], settings, &progresses).with_context(context)
        })?;
        let mut measured = measured.lock().expect(WHOLE);
        measured[number] = Some(points);
        let mut drawn = drawn.lock().expect(WHOLE);
        let (places, all) = &mut *drawn;
        for (place, (figure, &number)) in figures.iter().zip(&numbers).enumerate() {
            let Err(at) = places.binary_search(&place) else { continue };
            let Some(points) = figure.points(&plan.points[number], &measured) else { continue };
            places.insert(at, place);
            all.insert(at, figure.with(points));
            tell(Event::Drawn(at, all))?;
        }
        Ok(())
    });
    outcomes.into_iter().flatten().collect::<Result<()>>()?;
    let (_, all) = drawn.into_inner().expect(WHOLE);
    Ok(all)
}

/// The pods of these figures, and the figures' numbers among all.
fn planned(figures: &[Figure]) -> (Plan, Vec<usize>) {
    let all: Vec<Vec<Run>> = FIGURES.iter().map(Figure::all_runs).collect();
    let number = |figure: &Figure| FIGURES.iter().position(|of| of.id == figure.id);
    let numbers: Vec<usize> = figures.iter().filter_map(number).collect();
    (Plan::new(&all).only(&numbers), numbers)
}

/// Why a lock is not poisoned.
const WHOLE: &str = "nobody panics with it";

/// Memory of this machine that the largest pod of these figures takes, in bytes, about.
pub fn largest_pod_bytes(figures: &[Figure], scale: f64) -> u64 {
    let (plan, _) = planned(figures);
    plan.order().into_iter().map(|pod| bytes_of(&plan.pods[pod], scale)).max().unwrap_or(0)
}

fn bytes_of(run: &Run, scale: f64) -> u64 {
    (run.host_bytes() * scale) as u64
}

/// Told that so many of so many runs are done, by several threads.
pub type RunsDone<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Makes each run, up to `jobs` at a time; the outcomes by run.
///
/// # Errors
/// The first run's that failed, in their order.
pub(crate) fn measure_each<R: Ord + Sync, O: Send>(
    runs: BTreeSet<R>,
    jobs: usize,
    tell: &RunsDone<'_>,
    measure: impl Fn(&R) -> Result<O> + Sync,
) -> Result<BTreeMap<R, O>> {
    let runs: Vec<R> = runs.into_iter().collect();
    let done = AtomicUsize::new(0);
    tell(0, runs.len());
    let outcomes = in_parallel(&runs, jobs, |run| {
        let outcome = measure(run)?;
        tell(done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
        Ok(outcome)
    });
    let outcomes = outcomes.into_iter().flatten().collect::<Result<Vec<_>>>()?;
    Ok(runs.into_iter().zip(outcomes).collect())
}

/// The outcome of each task, in their order; none of those that were not begun when one failed.
fn in_parallel<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Vec<Option<Result<R>>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let outcomes: Vec<Mutex<Option<Result<R>>>> = tasks.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(number) else { break };
                    let outcome = work(task);
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    *outcomes[number].lock().expect(WHOLE) = Some(outcome);
                }
            });
        }
    });
    let outcome = |slot: Mutex<_>| slot.into_inner().expect(WHOLE);
    outcomes.into_iter().map(outcome).collect()
}

/// So many million objects, as a place on an axis.
fn millions(count: f64) -> String {
    format!("{count} M")
}

#[cfg(test)]
mod tests {
    use super::point::Measured;
    use super::*;

    #[test]
    fn all_that_is_compared_is_measured() {
        for figure in FIGURES {
            let mut points = Vec::new();
            for run in figure.all_runs() {
                for step in &run.steps {
                    points.push(Point {
                        panel: step.panel.clone(),
                        curve: run.curve(),
                        x: step.x.clone(),
                        measured: Measured { mops: 2.0, mean_us: 1.0, ..Measured::default() },
                    });
                }
                let sizes: Vec<_> = run.steps.iter().map(|step| step.millions).collect();
                assert!(sizes.is_sorted(), "figure {}: a pod never shrinks", figure.id);
            }
            let drawn = figure.with(points);
            assert!(!drawn.rows.is_empty(), "figure {}", figure.id);
            assert!(chart::svg(&drawn).unwrap().contains(figure.title));
        }
    }

    #[test]
    fn the_test_bed_is_sound() {
        assert_eq!(test_bed().name, "megalon");
    }

    #[test]
    fn the_first_failure_ends_all() {
        let outcomes = in_parallel(&[1, 2, 3, 4], 1, |&n| {
            anyhow::ensure!(n != 2, "two");
            Ok(n)
        });
        assert!(matches!(outcomes[..], [Some(Ok(1)), Some(Err(_)), None, None]));
    }
}
