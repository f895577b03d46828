//! The time that figures take.

use std::collections::HashMap;
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tombolo_experiments::figures::Stage;

/// The time and memory that a figure has taken so far.
struct Cost {
    begun: Instant,
    /// Processor time, by stage.
    stages: [Duration; Stage::ALL.len()],
}

/// The time that figures take, by stage: of a processor, since others may be at work on this
/// machine.
#[derive(Default)]
pub(super) struct Spent {
    figures: HashMap<&'static str, Cost>,
    /// The work of each thread, and its processor time when it began.
    doing: HashMap<ThreadId, (&'static str, Stage, Duration)>,
}

impl Spent {
    /// This thread begins something for a figure.
    pub(super) fn begins(&mut self, figure: &'static str, stage: Stage) {
        self.ends();
        let none = || Cost { begun: Instant::now(), stages: Default::default() };
        self.figures.entry(figure).or_insert_with(none);
        self.doing.insert(current().id(), (figure, stage, processor_time()));
    }

    /// This thread has ended what it was doing.
    pub(super) fn ends(&mut self) {
        let Some((figure, stage, since)) = self.doing.remove(&current().id()) else { return };
        if let Some(cost) = self.figures.get_mut(figure) {
            cost.stages[stage as usize] += processor_time().saturating_sub(since);
        }
    }

    /// The cost of a figure that was not paid for another one before, for people.
    pub(super) fn on(&self, figure: &str) -> String {
        let elsewhere = || "measured for other figures".to_owned();
        self.figures.get(figure).map_or_else(elsewhere, |cost| text(cost.begun, cost.stages))
    }

    /// The cost of all figures.
    pub(super) fn on_all(&self) -> String {
        let begun = self.figures.values().map(|cost| cost.begun).min();
        let of_all = |stage: Stage| self.figures.values().map(|c| c.stages[stage as usize]).sum();
        text(begun.unwrap_or_else(Instant::now), Stage::ALL.map(of_all))
    }
}

fn text(begun: Instant, stages: [Duration; Stage::ALL.len()]) -> String {
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
    let stages = Stage::ALL.map(|s| format!("{} {}", s.name(), seconds(stages[s as usize])));
    let stages = stages.join(", ");
    format!("{} (of processors: {stages})", seconds(begun.elapsed()))
}

/// The time that processors have spent on this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
