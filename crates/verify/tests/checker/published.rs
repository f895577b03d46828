//! The checker that `stateright` publishes, asked the same question.

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use tombolo_verify::history::Outcome;

use crate::sequential::{Log, Op, Ret, Store};

impl SequentialSpec for Store {
    type Op = (u32, Op);
    type Ret = Ret;

    fn invoke(&mut self, (key, op): &Self::Op) -> Ret {
        self.apply(*key, op)
    }
}

/// Each operation is a thread of its own, as clients in the log may have several at once.
pub(crate) fn is_linearizable(log: &Log) -> bool {
    let mut events = Vec::new();
    for (thread, record) in log.iter().enumerate() {
        if matches!(record.outcome, Outcome::Failed { .. }) {
            continue;
        }
        events.push((record.invoked_at, None, thread));
        if let Outcome::Returned { at, result } = &record.outcome {
            events.push((*at, Some(result.clone()), thread));
        }
    }
    events.sort_by_key(|(time, result, _)| (*time, result.is_some()));

    let mut tester = LinearizabilityTester::new(Store::default());
    for (_, result, thread) in events {
        let fed = match result {
            None => tester.on_invoke(thread, (log[thread].key, log[thread].operation.clone())),
            Some(result) => tester.on_return(thread, result),
        };
        fed.expect("each thread invokes once and then returns");
    }
    tester.is_consistent()
}
