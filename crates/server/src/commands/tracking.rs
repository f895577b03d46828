//! `CLIENT TRACKING`, `CACHING`, `TRACKINGINFO`, and what commands read and change.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Command, Context, Failure, Outcome, excerpt, integer, is};
use crate::bus::Topic;
use crate::database::{Note, stored};
use crate::events;
use crate::reply::Reply;
use crate::session::Session;
use crate::shared::Shared;
use crate::tracking::Mode;

/// A session's knowledge of its being tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    pub(crate) broadcast: bool,
    pub(crate) no_loop: bool,
    opt_in: bool,
    opt_out: bool,
    /// `CLIENT CACHING` was said about the next command.
    caching: Option<bool>,
}

pub(super) fn tracking(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let client = context.session.client.clone();
    let on = match args[0].to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return Err(Failure::syntax()),
    };
    let before = context.shared.tracking.mode(&client);
    let mode = mode_of(context, &args[1..])?;
    if !on {
        stop(context.session, context.shared);
        return Ok(Reply::OK);
    }
    let mut mode = joined(before, mode)?;
    mode.prefixes.sort();
    // A store that cannot tell whether a key has changed says so.
    context.shared.store.watch(b"")?;
    if mode.broadcast
        && let Some(bus) = context.shared.store.bus()?
    {
        context.shared.hearing.set(bus, Topic::Changed, || true);
    }
    context.session.tracked = Some(Tracked {
        broadcast: mode.broadcast,
        no_loop: mode.no_loop,
        opt_in: mode.opt_in,
        opt_out: mode.opt_out,
        caching: None,
    });
    context.shared.tracking.start(&client, mode);
    context.shared.settle_tracking();
    Ok(Reply::OK)
}

/// A client is tracked no longer.
pub(super) fn stop(session: &mut Session, shared: &Shared) {
    if session.tracked.take().is_some() {
        shared.tracking.stop(&session.client);
        shared.settle_tracking();
    }
}

fn mode_of(context: &Context<'_>, mut options: &[Bytes]) -> Result<Mode, Failure> {
    let mut mode = Mode::default();
    while let Some((option, rest)) = options.split_first() {
        options = rest;
        match (option.to_ascii_lowercase().as_slice(), rest) {
            (b"redirect", [id, rest @ ..]) => {
                let id = integer(id).ok().and_then(|id| u64::try_from(id).ok());
                let all = context.shared.clients.all();
                let found = all.into_iter().find(|client| Some(client.id) == id);
                let text = "ERR The client ID you want redirect to does not exist";
                mode.redirect = Some(found.ok_or_else(|| Failure::new(text))?);
                options = rest;
            }
            (b"prefix", [prefix, rest @ ..]) => {
                mode.prefixes.push(prefix.clone());
                options = rest;
            }
            (b"bcast", _) => mode.broadcast = true,
            (b"optin", _) => mode.opt_in = true,
            (b"optout", _) => mode.opt_out = true,
            (b"noloop", _) => mode.no_loop = true,
            _ => return Err(Failure::syntax()),
        }
    }
    let refused = |text: &str| Err(Failure::new(format!("ERR {text}")));
    if !mode.prefixes.is_empty() && !mode.broadcast {
        return refused("PREFIX option requires BCAST mode to be enabled");
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return refused("OPTIN and OPTOUT are not compatible with BCAST");
    }
    if mode.opt_in && mode.opt_out {
        return refused("You can't specify both OPTIN mode and OPTOUT mode");
    }
    Ok(mode)
}

/// The wishes of a client that may be tracked already.
fn joined(before: Option<Mode>, mut mode: Mode) -> Result<Mode, Failure> {
    let refused = |text: String| Err(Failure::new(format!("ERR {text}")));
    let Some(before) = before else {
        return check_prefixes(&mode.prefixes, &[]).map(|()| mode);
    };
    if before.broadcast != mode.broadcast {
        return refused(
            "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.".to_owned(),
        );
    }
    let switches = (before.opt_in && mode.opt_out) || (before.opt_out && mode.opt_in);
    if switches {
        return refused(
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.".to_owned(),
        );
    }
    check_prefixes(&mode.prefixes, &before.prefixes)?;
    mode.prefixes = [before.prefixes, mode.prefixes].concat();
    Ok(mode)
}

/// No prefix of a client begins with another one, for it would be told twice.
fn check_prefixes(new: &[Bytes], before: &[Bytes]) -> Result<(), Failure> {
    let overlap = |one: &Bytes, other: &Bytes| one.starts_with(other) || other.starts_with(one);
    for (at, one) in new.iter().enumerate() {
        let of_before = before.iter().map(|other| (other, "an existing"));
        let of_new = new[at + 1..].iter().map(|other| (other, "another provided"));
        if let Some((other, which)) = of_before.chain(of_new).find(|(other, _)| overlap(one, other))
        {
            let [one, other] = [one, other].map(|prefix| excerpt(prefix));
            return Err(Failure::new(format!(
                "ERR Prefix '{one}' overlaps with {which} prefix '{other}'. Prefixes for a single client must not overlap."
            )));
        }
    }
    Ok(())
}

pub(super) fn caching(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let refused = |text: &str| Err(Failure::new(format!("ERR {text}")));
    let tracked = context.session.tracked.as_mut();
    let Some(tracked) = tracked.filter(|tracked| tracked.opt_in || tracked.opt_out) else {
        return refused(
            "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        );
    };
    if is(&args[0], "yes") {
        if !tracked.opt_in {
            let text = "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
            return refused(text);
        }
        tracked.caching = Some(true);
    } else if is(&args[0], "no") {
        if !tracked.opt_out {
            let text = "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
            return refused(text);
        }
        tracked.caching = Some(false);
    } else {
        return Err(Failure::syntax());
    }
    Ok(Reply::OK)
}

/// The number of the client that is told instead of this one; 0 for itself, -1 if it is not
/// tracked.
pub(super) fn redirect(context: &Context<'_>) -> i64 {
    match context.shared.tracking.mode(&context.session.client) {
        None => -1,
        Some(mode) => mode.redirect.map_or(0, |client| client.id as i64),
    }
}

pub(super) fn info(context: &Context<'_>) -> Reply {
    let mode = context.shared.tracking.mode(&context.session.client);
    let tracked = context.session.tracked.unwrap_or_default();
    let is_broken = |mode: &Mode| mode.redirect.as_ref().is_some_and(|client| client.is_gone());
    let flags = [
        ("off", mode.is_none()),
        ("on", mode.is_some()),
        ("bcast", tracked.broadcast),
        ("optin", tracked.opt_in),
        ("optout", tracked.opt_out),
        ("caching-yes", tracked.caching == Some(true)),
        ("caching-no", tracked.caching == Some(false)),
        ("noloop", tracked.no_loop),
        ("broken_redirect", mode.as_ref().is_some_and(is_broken)),
    ];
    let flags = flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| Reply::bulk(name));
    let prefixes = mode.map_or_else(Vec::new, |mode| mode.prefixes);
    Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags.collect())),
        (Reply::bulk("redirect"), Reply::Integer(redirect(context))),
        (Reply::bulk("prefixes"), Reply::Array(prefixes.into_iter().map(Reply::bulk).collect())),
    ])
}

/// A client is about to execute a command.
pub(super) fn before(command: &Command, request: &[Bytes], session: &Session, shared: &Shared) {
    let Some(tracked) = session.tracked else { return };
    if command.flags.contains(&"write") {
        if tracked.no_loop {
            let (store, client) = (&*shared.store, &session.client);
            let keys = command.keys_of(request).map(|key| stored(session.database, key));
            keys.into_iter().for_each(|key| shared.tracking.writes(store, client, &key));
        }
    } else if command.flags.contains(&"readonly") {
        reads(command.keys_of(request), session, shared);
    }
}

/// A client is about to read keys.
pub(super) fn reads<'a>(keys: impl Iterator<Item = &'a Bytes>, session: &Session, shared: &Shared) {
    let Some(tracked) = session.tracked else { return };
    let wants = match (tracked.opt_in, tracked.opt_out) {
        (true, _) => tracked.caching == Some(true),
        (_, true) => tracked.caching != Some(false),
        _ => !tracked.broadcast,
    };
    if wants {
        let keys = keys.map(|key| stored(session.database, key).into_owned());
        keys.for_each(|key| shared.tracking.reads(&*shared.store, &session.client, &key.into()));
    }
}

/// A client has executed a command: what it has said of the next one was about that.
pub(super) fn after(command: &Command, session: &mut Session) {
    let goes_on = command.name == "client" || session.queue.is_some();
    if let Some(tracked) = session.tracked.as_mut().filter(|_| !goes_on) {
        tracked.caching = None;
    }
}

/// Tells clients of all hosts that want to know it what a command has done.
pub(crate) fn tell(name: &str, notes: &[Note], by: u64, shared: &Shared) {
    if notes.is_empty() {
        return;
    }
    if shared.wants_changes() {
        let keys: BTreeSet<&[u8]> = notes.iter().map(|note| &note.stored[..]).collect();
        keys.into_iter().for_each(|key| shared.tell_change(key, by));
    }
    if shared.wants_events() {
        let events = notes.iter().flat_map(|note| events::of_note(name, note));
        events.for_each(|event| shared.tell_event(&event));
    }
}
