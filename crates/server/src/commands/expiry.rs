//! When keys expire.

use bytes::Bytes;
use tombolo_kv::DeadlineChange;

use super::{Context, Failure, Outcome, excerpt, integer, is};
use crate::reply::Reply;
use crate::store::Store;

/// How a time is given.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    ms: i64,
    absolute: bool,
}

const SECONDS: Unit = Unit { ms: 1000, absolute: false };
const MILLISECONDS: Unit = Unit { ms: 1, absolute: false };
const UNIX_SECONDS: Unit = Unit { ms: 1000, absolute: true };
const UNIX_MILLISECONDS: Unit = Unit { ms: 1, absolute: true };

/// A time at which a key is to expire, in milliseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(super) struct Expire(i64);

impl Expire {
    /// The unit that an option such as `EX` stands for.
    pub(super) fn unit(option: &[u8]) -> Option<Unit> {
        let units = [
            ("ex", SECONDS),
            ("px", MILLISECONDS),
            ("exat", UNIX_SECONDS),
            ("pxat", UNIX_MILLISECONDS),
        ];
        units.into_iter().find(|(name, _)| is(option, name)).map(|(_, unit)| unit)
    }

    /// The time that is `amount` of `unit`, which has to be positive.
    pub(super) fn positive(
        context: &Context<'_>,
        unit: Unit,
        amount: &[u8],
        command: &str,
    ) -> Result<Self, Failure> {
        let amount = integer(amount)?;
        if amount <= 0 {
            return Err(invalid(command));
        }
        Self::of(context, unit, amount, command)
    }

    fn of(context: &Context<'_>, unit: Unit, amount: i64, command: &str) -> Result<Self, Failure> {
        let start = if unit.absolute { 0 } else { context.store().now_ms() as i64 };
        let ms = amount.checked_mul(unit.ms).and_then(|ms| ms.checked_add(start));
        ms.map(Self).ok_or_else(|| invalid(command))
    }
}

fn invalid(command: &str) -> Failure {
    Failure::new(format!("ERR invalid expire time in '{command}' command"))
}

/// The deadline of an entry that is to expire then.
pub(super) fn deadline(expire: Option<Expire>) -> Option<u64> {
    expire.map(|Expire(ms)| u64::try_from(ms).unwrap_or(0))
}

pub(super) fn expire(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_deadline(context, args, SECONDS, "expire")
}

pub(super) fn pexpire(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_deadline(context, args, MILLISECONDS, "pexpire")
}

pub(super) fn expireat(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_deadline(context, args, UNIX_SECONDS, "expireat")
}

pub(super) fn pexpireat(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    set_deadline(context, args, UNIX_MILLISECONDS, "pexpireat")
}

#[derive(Clone, Copy, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: &[Bytes]) -> Result<Self, Failure> {
        let mut found = Self::default();
        for arg in args {
            let condition = match arg.to_ascii_lowercase().as_slice() {
                b"nx" => &mut found.nx,
                b"xx" => &mut found.xx,
                b"gt" => &mut found.gt,
                b"lt" => &mut found.lt,
                _ => {
                    let option = excerpt(arg);
                    return Err(Failure::new(format!("ERR Unsupported option {option}")));
                }
            };
            *condition = true;
        }
        if found.nx && (found.xx || found.gt || found.lt) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Failure::new(text));
        }
        if found.gt && found.lt {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(Failure::new(text));
        }
        Ok(found)
    }

    /// No deadline counts as one that never comes.
    fn allow(self, old: Option<u64>, new: u64) -> bool {
        let end = old.unwrap_or(u64::MAX);
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && new <= end
            || self.lt && new >= end)
    }
}

fn set_deadline(context: &Context<'_>, args: &[Bytes], unit: Unit, command: &str) -> Outcome {
    let conditions = Conditions::parse(&args[3..])?;
    let at = Expire::of(context, unit, integer(&args[2])?, command)?;
    let new = deadline(Some(at)).unwrap_or(0);
    change_deadline(context, &args[1], |old| {
        if !conditions.allow(old, new) {
            DeadlineChange::Keep
        } else if new <= context.store().now_ms() {
            DeadlineChange::Delete
        } else {
            DeadlineChange::Set(Some(new))
        }
    })
}

/// Changes the deadline of a key, and answers whether there was something to be changed.
fn change_deadline(
    context: &Context<'_>,
    key: &[u8],
    mut decide: impl FnMut(Option<u64>) -> DeadlineChange,
) -> Outcome {
    let mut changed = false;
    let found = context.store().update_deadline(key, &mut |old| {
        let change = decide(old);
        changed = change != DeadlineChange::Keep;
        change
    })?;
    Ok(Reply::flag(found && changed))
}

pub(super) fn persist(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    change_deadline(context, &args[1], |old| match old {
        None => DeadlineChange::Keep,
        Some(_) => DeadlineChange::Set(None),
    })
}

pub(super) fn ttl(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    left(context, args, |deadline, now| (deadline.saturating_sub(now) + 500) / 1000)
}

pub(super) fn pttl(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    left(context, args, |deadline, now| deadline.saturating_sub(now))
}

pub(super) fn expiretime(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    left(context, args, |deadline, _| (deadline + 500) / 1000)
}

pub(super) fn pexpiretime(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    left(context, args, |deadline, _| deadline)
}

/// The result of `measure` for a key's deadline and the time; -1 if it has no deadline, -2 if there
/// is no such key.
fn left(context: &Context<'_>, args: &[Bytes], measure: fn(u64, u64) -> u64) -> Outcome {
    let now = context.store().now_ms();
    Ok(Reply::Integer(match context.store().deadline(&args[1])? {
        None => -2,
        Some(deadline) => deadline.map_or(-1, |deadline| measure(deadline, now) as i64),
    }))
}
