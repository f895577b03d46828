//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use bytes::Bytes;

use super::{Context, Failure, Outcome, table, tracking};
use crate::database::stored;
use crate::reply::Reply;
use crate::session::{Queue, Session};

/// Keys that a client may watch.
const MOST_WATCHED: usize = 1 << 20;

/// Commands that are executed at once in a transaction.
const AT_ONCE: [&str; 6] = ["discard", "exec", "multi", "quit", "reset", "watch"];

/// Adds a request to the transaction that its client has begun, and answers; `None` if it has not,
/// or the request is to be executed at once.
pub(super) fn queue(name: &str, request: &[Bytes], session: &mut Session) -> Option<Reply> {
    let queue = session.queue.as_mut().filter(|_| !AT_ONCE.contains(&name))?;
    if queue.add(request) {
        return Some(Reply::Simple("QUEUED"));
    }
    Some(Reply::Error("ERR the requests of the transaction take too many bytes".to_owned()))
}

/// A request was refused that may belong to a transaction.
pub(super) fn spoil(session: &mut Session) {
    session.queue.iter_mut().for_each(|queue| queue.spoilt = true);
}

pub(super) fn multi(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    if context.session.queue.is_some() {
        return Err(Failure::new("ERR MULTI calls can not be nested"));
    }
    context.session.queue = Some(Queue::default());
    Ok(Reply::OK)
}

pub(super) fn exec(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    let Some(queue) = context.session.queue.take() else {
        return Err(Failure::new("ERR EXEC without MULTI"));
    };
    let watched = std::mem::take(&mut context.session.watched);
    if queue.spoilt {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Failure::new(text));
    }
    for request in &queue.requests {
        if let Some(command) = table::find(&request[0]) {
            tracking::before(command, request, context.session, context.shared);
        }
    }
    let room = context.room;
    let done = context.atomically(&watched, |context| {
        let call = |request: &Vec<Bytes>| match context.call(request) {
            // The room of the replies before it, and of this one.
            Err(Failure::Room(bytes)) => Err(Failure::Room(room - context.room + bytes)),
            reply => reply,
        };
        queue.requests.iter().map(call).collect::<Result<Vec<_>, _>>()
    });
    if matches!(done, Err(Failure::Room(_))) {
        // It is executed again.
        (context.session.queue, context.session.watched) = (Some(queue), watched);
    }
    Ok(done?.map_or(Reply::NullArray, Reply::Array))
}

pub(super) fn discard(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    if context.session.queue.take().is_none() {
        return Err(Failure::new("ERR DISCARD without MULTI"));
    }
    context.session.watched.clear();
    Ok(Reply::OK)
}

pub(super) fn watch(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    if context.session.queue.is_some() {
        return Err(Failure::new("ERR WATCH inside MULTI is not allowed"));
    }
    if context.session.watched.len() + args.len() > MOST_WATCHED {
        return Err(Failure::new("ERR too many keys are watched; send UNWATCH"));
    }
    for key in &args[1..] {
        let key = stored(context.session.database, key);
        // A key that is watched already is watched from then on.
        if !context.session.watched.iter().any(|watch| watch.key == *key) {
            let watch = context.shared.store.watch(&key)?;
            context.session.watched.push(watch);
        }
    }
    Ok(Reply::OK)
}

pub(super) fn unwatch(context: &mut Context<'_>, _: &[Bytes]) -> Outcome {
    context.session.watched.clear();
    Ok(Reply::OK)
}
