//! Several commands in one step: what `EXEC`, scripts, and commands on several keys are made of.

use std::time::Instant;

use bytes::Bytes;
use tombolo_kv::Watch;

use super::table::{self, COMMANDS};
use super::{Context, Failure, Step, error_of, pubsub, tracking, unknown};
use crate::database::Notes;
use crate::reply::Reply;

impl Context<'_> {
    /// Runs `body`, so that all that the commands and the store of its context read and change
    /// happens in one step. `body` may run several times: the last time counts, and what it does
    /// besides must not matter. A failure of `body` leaves everything as it was. Within another one
    /// `body` is a part of that.
    ///
    /// `None` if what is watched has changed: then nothing was done.
    ///
    /// # Errors
    /// The failure of `body`, or of the store.
    pub(super) fn atomically<T>(
        &mut self,
        watched: &[Watch],
        mut body: impl FnMut(&mut Context<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.view.is_some() {
            return body(self).map(Some);
        }
        let (shared, room, notes, mut outcome) = (self.shared, self.room, self.notes, None);
        let (database, mut done) = (self.session.database, Step::default());
        let id = self.session.client.id;
        let session = &mut *self.session;
        let unchanged = shared.store.atomically(watched, &mut |view| {
            // It may be done again.
            session.choose(database);
            notes.iter().for_each(|notes| drop(notes.split_off(0)));
            let step = Step::default();
            let mut context = Context { shared, session, room, view: Some(view), notes, step };
            let result = body(&mut context);
            done = context.step;
            let keep = result.is_ok();
            outcome = Some(result);
            keep
        })?;
        if !unchanged {
            return Ok(None);
        }
        if matches!(outcome, Some(Ok(_))) {
            if done.flushed {
                shared.tell_change(b"", id);
            }
            done.notes.iter().for_each(|(name, notes)| tracking::tell(name, notes, id, shared));
            // Their lengths were checked, and the step is done.
            done.messages.iter().for_each(|message| _ = pubsub::send(shared, message));
        } else {
            notes.iter().for_each(|notes| drop(notes.split_off(0)));
            self.session.choose(database);
        }
        outcome.transpose()
    }

    /// The same, with nothing watched.
    ///
    /// # Errors
    /// The failure of `body`, or of the store.
    pub(super) fn in_one_step<T>(
        &mut self,
        body: impl FnMut(&mut Context<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = self.atomically(&[], body)?;
        done.ok_or_else(|| Failure::new("ERR the store did not do what it was asked"))
    }

    /// Runs a command as a part of another one; its reply, which may be an error. The room for
    /// replies gets less by it.
    ///
    /// # Errors
    /// [`Failure::Room`] alone: there is too little room for the reply.
    pub(super) fn call(&mut self, request: &[Bytes]) -> Result<Reply, Failure> {
        let Some(place) = table::place(&request[0]) else { return Ok(unknown(request)) };
        let command = &COMMANDS[place];
        if !command.accepts(request.len()) {
            return Ok(error_of(Failure::arity(command.name)));
        }
        let (start, noted) = (Instant::now(), self.notes.map_or(0, Notes::count));
        let reply = match (command.run)(self, request) {
            Err(Failure::Room(bytes)) => return Err(Failure::Room(bytes)),
            Err(failure) => error_of(failure),
            Ok(reply) => reply,
        };
        let noted = self.notes.map_or_else(Vec::new, |notes| notes.split_off(noted));
        self.step.notes.push((command.name, noted));
        let failed = usize::from(matches!(reply, Reply::Error(_)));
        self.shared.tallies.of(place).add(1, failed, start.elapsed());
        self.room = self.room.saturating_sub(reply.value_bytes());
        Ok(reply)
    }
}
