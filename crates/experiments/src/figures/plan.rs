//! Which pods there are to be for figures, and what is done in each of them.
//!
//! To load a pod takes most of the time, so figures share those that are made alike: their steps
//! are done in one pod, the smallest first, and a point that two of them need is measured once.
//! Objects that are only read stay as they were created. So steps that only read come first, and
//! have a pod of their own if that has to grow once others have written. The plan is that of all
//! figures, also if few are drawn: then the steps before theirs are done all the same, and a figure
//! comes out as it does with all others.

use std::cmp::Ordering;

use super::run::{Run, Step};

/// A step of a pod: the pod's number, and the step's.
type Done = (usize, usize);

/// The pods of some figures.
pub(super) struct Plan {
    /// The runs, a pod each.
    pub(super) pods: Vec<Run>,
    /// How many of each one's steps.
    pub(super) todo: Vec<usize>,
    /// The figure for which each of their steps is done first.
    pub(super) firsts: Vec<Vec<usize>>,
    /// Where the points of each figure are measured, in their order.
    pub(super) points: Vec<Vec<Done>>,
}

impl Plan {
    /// The pods of figures which consist of these runs.
    pub(super) fn new(figures: &[Vec<Run>]) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        for (figure, run) in numbered(figures) {
            match kinds.iter_mut().find(|kind| kind.run.shares_pod_with(run)) {
                Some(kind) => kind.add(figure, run),
                None => kinds.push(Kind::new(figure, run)),
            }
        }
        let pods: Vec<Kind> = kinds.into_iter().flat_map(Kind::pods).collect();
        let place = |run: &Run, step: &Step| {
            let of_pod = |pod: &Kind| {
                let at = |(_, of): &(usize, Step)| of.does_the_same_as(step);
                let same = pod.run.shares_pod_with(run);
                same.then(|| pod.steps.iter().position(at)).flatten()
            };
            let found = pods.iter().enumerate().find_map(|(n, pod)| Some((n, of_pod(pod)?)));
            found.expect("each step is in a pod")
        };
        let points = figures.iter().map(|runs| {
            let steps = |run| {
                let run: &Run = run;
                run.steps.iter().map(move |step| place(run, step))
            };
            runs.iter().flat_map(steps).collect()
        });
        let points = points.collect();
        let (firsts, pods): (_, Vec<Run>) = pods.into_iter().map(Kind::into_parts).unzip();
        Self { todo: pods.iter().map(Run::points).collect(), pods, firsts, points }
    }

    /// Leaves out what is done for none of these figures, or for them.
    pub(super) fn only(mut self, figures: &[usize]) -> Self {
        let wanted: Vec<Done> = figures.iter().flat_map(|&of| self.points[of].clone()).collect();
        for (number, todo) in self.todo.iter_mut().enumerate() {
            let steps = wanted.iter().filter(|(of, _)| *of == number);
            *todo = steps.map(|(_, step)| step + 1).max().unwrap_or(0);
        }
        self
    }

    /// Pods in which there is something to do, those of earlier figures first, and of these the
    /// largest, so that none is left for the end.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pods.len()).collect();
        order.retain(|&pod| self.todo[pod] > 0);
        let first = |pod: usize| self.firsts[pod].iter().min();
        order.sort_by(|&a, &b| {
            let effort = self.pods[b].effort().total_cmp(&self.pods[a].effort());
            first(a).cmp(&first(b)).then(effort)
        });
        order
    }
}

fn numbered(figures: &[Vec<Run>]) -> impl Iterator<Item = (usize, &Run)> {
    figures.iter().enumerate().flat_map(|(figure, runs)| runs.iter().map(move |run| (figure, run)))
}

/// The runs in pods that are made alike.
struct Kind {
    run: Run,
    /// And for which figure first.
    steps: Vec<(usize, Step)>,
}

impl Kind {
    fn new(figure: usize, run: &Run) -> Self {
        let mut kind = Self { run: run.clone(), steps: Vec::new() };
        kind.add(figure, run);
        kind
    }

    fn add(&mut self, figure: usize, run: &Run) {
        for step in &run.steps {
            if !self.steps.iter().any(|(_, known)| known.does_the_same_as(step)) {
                self.steps.push((figure, step.clone()));
            }
        }
    }

    /// One pod, or one for reads and one for the rest, if the first has to grow after the other's
    /// steps.
    fn pods(self) -> impl Iterator<Item = Self> {
        let Self { run, mut steps } = self;
        steps.sort_by(|(_, a), (_, b)| by_size(a, b));
        let (changing, reading): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|(_, step)| step.mix.changes());
        let last = reading.last().map_or(0.0, |(_, step)| step.millions);
        let together = changing.first().is_none_or(|(_, step)| step.millions >= last);
        let groups =
            if together { vec![[reading, changing].concat()] } else { vec![reading, changing] };
        groups.into_iter().map(move |steps| Self { run: run.clone(), steps })
    }

    fn into_parts(self) -> (Vec<usize>, Run) {
        let (firsts, steps) = self.steps.into_iter().unzip();
        (firsts, Run { steps, ..self.run })
    }
}

/// A pod never shrinks; and what it takes is told before anything is done there.
fn by_size(a: &Step, b: &Step) -> Ordering {
    let operates = |step: &Step| step.mix.operates();
    a.millions.total_cmp(&b.millions).then(operates(a).cmp(&operates(b)))
}

#[cfg(test)]
mod tests {
    use super::super::{FIGURES, Figure};
    use super::*;

    fn all() -> Vec<Vec<Run>> {
        FIGURES.iter().map(Figure::all_runs).collect()
    }

    #[test]
    fn every_point_is_measured_in_a_pod_of_its_kind() {
        let figures = all();
        let plan = Plan::new(&figures);
        for (runs, points) in figures.iter().zip(&plan.points) {
            let steps = runs.iter().flat_map(|run| run.steps.iter().map(move |step| (run, step)));
            assert_eq!(steps.clone().count(), points.len());
            for ((run, step), &(pod, number)) in steps.zip(points) {
                assert!(plan.pods[pod].shares_pod_with(run));
                assert!(plan.pods[pod].steps[number].does_the_same_as(step));
            }
        }
    }

    #[test]
    fn pods_never_shrink_and_are_read_before_they_are_written() {
        for pod in Plan::new(&all()).pods {
            assert!(pod.steps.is_sorted_by(|a, b| by_size(a, b).is_le()));
            assert!(pod.steps.is_sorted_by_key(|step| step.mix.changes()));
            let inserts = pod.steps.iter().position(|step| step.mix.inserts());
            assert!(
                inserts.is_none_or(|at| at + 1 == pod.steps.len()),
                "what is inserted is not loaded again"
            );
        }
    }

    #[test]
    fn a_figure_is_the_same_without_the_others() {
        let whole = Plan::new(&all());
        for figure in 0..FIGURES.len() {
            let alone = Plan::new(&all()).only(&[figure]);
            assert_eq!(alone.points[figure], whole.points[figure]);
            for &(pod, step) in &alone.points[figure] {
                assert!(step < alone.todo[pod]);
                assert_eq!(alone.pods[pod].millions(), whole.pods[pod].millions());
            }
        }
    }

    #[test]
    fn figures_share_pods() {
        let loaded = |pods: &[Run]| pods.iter().map(Run::millions).sum::<f64>();
        let apart: f64 = all().iter().map(|runs| loaded(runs)).sum();
        let shared = loaded(&Plan::new(&all()).pods);
        assert!(shared < 0.8 * apart, "{shared} of {apart} million objects are loaded");
    }
}
