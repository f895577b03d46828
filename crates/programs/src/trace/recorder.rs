//! Writes a trace of what a program does.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::rc::Rc;

use super::{MAX_ACCESS_BYTES, Record, TraceError, TraceWriter};
use crate::{Access, Processor};

/// A trace that threads write while they run. Errors of writing show at the end.
///
/// Barriers leave no trace: records are in the order in which the machine let threads do them.
pub struct Recorder<W: Write> {
    shared: Rc<RefCell<State<W>>>,
}

struct State<W: Write> {
    writer: TraceWriter<W>,
    /// The first error; nothing is written after it.
    error: Option<TraceError>,
}

impl<W: Write> Recorder<W> {
    /// Begins a trace of a program of so many threads.
    ///
    /// # Errors
    ///
    /// Those of [`TraceWriter::new`].
    pub fn new(writer: W, threads: u32) -> Result<Self, TraceError> {
        let state = State { writer: TraceWriter::new(writer, threads)?, error: None };
        Ok(Self { shared: Rc::new(RefCell::new(state)) })
    }

    /// A processor that does what another one does, and writes it down.
    pub fn processor<P: Processor>(&self, thread: u32, inner: P) -> Recorded<P, W> {
        let (shared, instructions) = (Rc::clone(&self.shared), Rc::new(Cell::new(0)));
        Recorded { inner, thread, instructions, shared }
    }

    /// Ends the trace; how many records there are, and the writer.
    ///
    /// # Errors
    ///
    /// The first error of writing.
    ///
    /// # Panics
    ///
    /// If one of its processors is still there.
    pub fn finish(self) -> Result<(u64, W), TraceError> {
        let state = Rc::try_unwrap(self.shared).ok().expect("threads have ended");
        let State { writer, error } = state.into_inner();
        error.map_or_else(|| writer.finish(), Err)
    }
}

/// A processor whose accesses are written down.
pub struct Recorded<P, W: Write> {
    inner: P,
    thread: u32,
    /// Instructions since the last record.
    instructions: Rc<Cell<u64>>,
    shared: Rc<RefCell<State<W>>>,
}

impl<P: Clone, W: Write> Clone for Recorded<P, W> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            thread: self.thread,
            instructions: Rc::clone(&self.instructions),
            shared: Rc::clone(&self.shared),
        }
    }
}

impl<P, W: Write> Recorded<P, W> {
    fn record(&self, address: u64, bytes: u32, write: bool) {
        let mut state = self.shared.borrow_mut();
        if state.error.is_some() {
            return;
        }
        let mut instructions = u32::try_from(self.instructions.take() + 1).unwrap_or(u32::MAX);
        let mut done = 0;
        while done < bytes {
            let record = Record {
                thread: self.thread,
                address: address + u64::from(done),
                bytes: (bytes - done).min(MAX_ACCESS_BYTES),
                write,
                instructions: std::mem::take(&mut instructions),
            };
            if let Err(error) = state.writer.write(&record) {
                state.error = Some(error);
                return;
            }
            done += record.bytes;
        }
    }
}

impl<P: Processor, W: Write + 'static> Processor for Recorded<P, W> {
    fn access(&self, address: u64, bytes: u32, access: Access) {
        // The machine may let others go first; the access is done when it returns.
        self.inner.access(address, bytes, access);
        self.record(address, bytes, access.writes());
    }

    fn depends(&self) {
        self.inner.depends();
    }

    fn works(&self, instructions: u64) {
        self.inner.works(instructions);
        self.instructions.set(self.instructions.get() + instructions);
    }

    fn barrier(&self) {
        self.inner.barrier();
    }
}
