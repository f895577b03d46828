//! Rows of the measurement: operations, each with the limit that it is held against.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tombolo::{Entry, Item};
use tombolo_memory::{Arena, LINE_BYTES};

use super::Subject;
use super::bare::timed;
use super::keys::{Key, Numbers, Spread, key};
use super::log::{Log, RING};
use crate::bench::resp::client::{Clients, Command, Load};

/// Objects that are read together.
const TOGETHER: usize = 16;
/// Keys in Redis, and requests of a round, at most: they take a hundred times as long as others.
const REDIS_MOST: u64 = 10_000;

type Run<'a> = Box<dyn FnMut(&[u64]) -> Result<Duration> + 'a>;

/// Something that is done again and again.
pub(super) struct Row<'a> {
    pub(super) name: String,
    pub(super) spread: Option<Spread>,
    /// The row of its limit.
    pub(super) against: Option<usize>,
    /// The time of one operation, in each round.
    pub(super) ns: Vec<f64>,
    operations: usize,
    /// How many more come before those that count.
    warming: usize,
    numbers: Numbers,
    run: Run<'a>,
}

impl Row<'_> {
    /// The time of one operation, in nanoseconds. The caches hold the lines that this row leaves
    /// there, and none that others have left.
    pub(super) fn measure(&mut self) -> Result<f64> {
        let warming = self.numbers.take(self.warming);
        (self.run)(&warming)?;
        let numbers = self.numbers.take(self.operations);
        let took = (self.run)(&numbers)?;
        Ok(took.as_nanos() as f64 / self.operations as f64)
    }

    pub(super) fn median(&mut self) -> f64 {
        self.ns.sort_by(f64::total_cmp);
        self.ns[self.ns.len() / 2]
    }
}

/// Rows in the making.
struct Rows<'a> {
    rows: Vec<Row<'a>>,
    operations: usize,
    /// Whether each of them can do more than what counts.
    warm: bool,
    objects: u64,
}

impl<'a> Rows<'a> {
    fn of(subject: &'a Subject) -> Self {
        let Subject { operations, objects, .. } = *subject;
        Self { rows: Vec::new(), operations, warm: true, objects }
    }

    /// Adds a row; where it is.
    fn add(
        &mut self,
        name: impl Into<String>,
        spread: Option<Spread>,
        against: Option<usize>,
        run: impl FnMut(&[u64]) -> Result<Duration> + 'a,
    ) -> usize {
        let row = self.rows.len();
        self.rows.push(Row {
            name: name.into(),
            spread,
            against,
            ns: Vec::new(),
            operations: self.operations,
            warming: if self.warm { self.operations / 4 } else { 0 },
            // Others than in the row before: what that has left in caches is not for this one.
            numbers: Numbers::new(spread.unwrap_or(Spread::InTurn), row as u64, self.objects),
            run: Box::new(run),
        });
        row
    }
}

/// The time that something takes, with keys that are there already.
fn with_keys(numbers: &[u64], act: impl FnOnce(&[Key]) -> Result<()>) -> Result<Duration> {
    let keys: Vec<Key> = numbers.iter().map(|&number| key(number)).collect();
    timed(|| act(&keys))
}

/// The time that something takes for each of these keys, one after the other.
fn each_key(numbers: &[u64], mut act: impl FnMut(&Key) -> Result<()>) -> Result<Duration> {
    with_keys(numbers, |keys| keys.iter().try_for_each(&mut act))
}

/// Numbers that begin with `first` instead of 0.
fn from(first: u64, numbers: &[u64]) -> Vec<u64> {
    numbers.iter().map(|number| first + number).collect()
}

/// The times of instructions and memory.
pub(super) fn machine_rows(subject: &Subject) -> Vec<Row<'_>> {
    let (mut rows, bare) = (Rows::of(subject), &subject.bare);
    rows.add("dependent load", None, None, |numbers| bare.chase(numbers.len()));
    rows.add("compare-and-swap, alone", None, None, |numbers| bare.swap_alone(numbers.len()));
    rows.add("compare-and-swap, two threads", None, None, |numbers| {
        Ok(Duration::from_nanos((bare.swap_contended() * numbers.len() as f64) as u64))
    });
    rows.rows
}

/// Entries of the log, which drives nothing.
pub(super) fn log_rows<'a>(subject: &'a Subject, log: &'a Log) -> Vec<Row<'a>> {
    let mut rows = Rows::of(subject);
    let limit = rows.add("line cleaned, and compare-and-swap", None, None, move |numbers| {
        timed(|| {
            numbers.iter().for_each(|&number| subject.bare.append(number));
            Ok(())
        })
    });
    let limit = Some(limit);
    rows.add("append", None, limit, move |numbers| Ok(log.in_turn(numbers)?.0));
    rows.add("apply what another host appends", None, limit, move |numbers| {
        Ok(log.in_turn(numbers)?.1)
    });
    rows.add("append while another host applies", None, limit, move |numbers| {
        log.beside(numbers, 1)
    });
    rows.add("append to a log that is full", None, limit, move |numbers| log.beside(numbers, RING));
    rows.rows
}

/// The time of requests to a Redis for values of the same size, over loopback: one connection, one
/// request at a time.
pub(super) fn redis_rows(subject: &Subject, address: SocketAddr) -> Result<Vec<Row<'_>>> {
    let mut rows = Rows::of(subject);
    rows.operations = rows.operations.min(REDIS_MOST as usize);
    let (keys, value_bytes) = (subject.objects.min(REDIS_MOST), subject.value.len());
    let load = Load { clients: 1, keys, value_bytes };
    Clients::connect(address, &load)?.load()?;
    for command in [Command::Get, Command::Set] {
        let mut client = Clients::connect(address, &load)?;
        let name = format!("Redis {}", command.name());
        rows.add(name, Some(Spread::Uniform), None, move |numbers| {
            let started = Instant::now();
            client.run(command, 1, numbers.len() as u64)?;
            Ok(started.elapsed())
        });
    }
    Ok(rows.rows)
}

/// Reads of objects as they are now.
pub(super) fn read_rows(subject: &Subject) -> Vec<Row<'_>> {
    let mut rows = Rows::of(subject);
    let objects = subject.store.objects();
    for spread in [Spread::Uniform, Spread::Zipf] {
        let mut buffer = vec![0; subject.value.len()];
        let limit = rows.add("lookup and copy", Some(spread), None, move |numbers| {
            each_key(numbers, |key| {
                subject.plain.read(key, &mut buffer);
                black_box(&buffer);
                Ok(())
            })
        });
        let mut value = Vec::new();
        rows.add("get", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| {
                objects.read(key, &mut value)?.context("the object is gone")?;
                black_box(&value);
                Ok(())
            })
        });
        let mut items = vec![Item::default(); TOGETHER];
        let name = format!("multi_get of {TOGETHER}");
        rows.add(name, Some(spread), Some(limit), move |numbers| {
            with_keys(numbers, |keys| {
                for keys in keys.chunks(TOGETHER) {
                    objects.multi_get(keys, &mut items)?;
                    ensure!(items.iter().all(|item| item.version.is_some()), "an object is gone");
                    black_box(&items);
                }
                Ok(())
            })
        });
        if let Some(copies) = &subject.copies {
            let mut value = Vec::new();
            rows.add("get of a copy", Some(spread), Some(limit), move |numbers| {
                each_key(numbers, |key| {
                    copies.objects().read(key, &mut value)?.context("the object is gone")?;
                    black_box(&value);
                    Ok(())
                })
            });
        }
        rows.add("get of the store", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| {
                black_box(subject.store.get(key)?.context("the value is gone")?);
                Ok(())
            })
        });
        let mut entry = Entry::default();
        rows.add("get of the store, into its room", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| {
                ensure!(subject.store.get_into(key, &mut entry)?, "the value is gone");
                black_box(&entry);
                Ok(())
            })
        });
    }
    rows.rows
}

/// Writes of objects that are there.
pub(super) fn write_rows(subject: &Subject) -> Vec<Row<'_>> {
    let mut rows = Rows::of(subject);
    let objects = subject.store.objects();
    for spread in [Spread::Uniform, Spread::Zipf] {
        let limit = rows.add("copy and clean", Some(spread), None, move |numbers| {
            timed(|| {
                numbers.iter().for_each(|&number| subject.bare.store(number, &subject.value));
                Ok(())
            })
        });
        rows.add("copy and clean, locked", Some(spread), Some(limit), move |numbers| {
            timed(|| {
                numbers
                    .iter()
                    .for_each(|&number| subject.bare.store_locked(number, &subject.value));
                Ok(())
            })
        });
        // The record and the slot are not known before they are found: the least that a put by
        // key can take.
        rows.add("lookup, copy and clean, locked", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| {
                subject.bare.store_locked(subject.plain.find(key), &subject.value);
                Ok(())
            })
        });
        // A put that returns has not failed: a host that was given up meanwhile must not say so.
        rows.add(
            "lookup, copy and clean, acknowledged",
            Some(spread),
            Some(limit),
            move |numbers| {
                each_key(numbers, |key| {
                    subject.bare.store_acknowledged(subject.plain.find(key), &subject.value);
                    Ok(())
                })
            },
        );
        rows.add("put", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| Ok(objects.put(key, &subject.value).map(drop)?))
        });
        let name = format!("multi_put of {TOGETHER}");
        rows.add(name, Some(spread), Some(limit), move |numbers| {
            with_keys(numbers, |keys| {
                for keys in keys.chunks(TOGETHER) {
                    let pairs: Vec<_> = keys.iter().map(|key| (key, &subject.value)).collect();
                    objects.multi_put(&pairs).into_iter().collect::<Result<Vec<_>, _>>()?;
                }
                Ok(())
            })
        });
        let entry = Entry::lasting(vec![7; subject.value.len() - 8]);
        rows.add("put of the store", Some(spread), Some(limit), move |numbers| {
            each_key(numbers, |key| Ok(subject.store.put(key, &entry)?))
        });
    }
    rows.rows
}

/// Objects that come, and go again.
pub(super) fn create_rows(subject: &Subject) -> Vec<Row<'_>> {
    let mut rows = Rows::of(subject);
    let (objects, first) = (subject.store.objects(), subject.objects);
    // Each round deletes what it has created, no more.
    (rows.objects, rows.warm) = (rows.operations as u64, false);
    let in_turn = Some(Spread::InTurn);
    let limit = rows.add("copy and clean", in_turn, None, move |numbers| {
        timed(|| {
            numbers.iter().for_each(|&number| subject.bare.store(number, &subject.value));
            Ok(())
        })
    });
    rows.add("create", in_turn, Some(limit), move |numbers| {
        each_key(&from(first, numbers), |key| Ok(objects.create(key, &subject.value).map(drop)?))
    });
    rows.add("delete", in_turn, Some(limit), move |numbers| {
        each_key(&from(first, numbers), |key| {
            ensure!(objects.delete(key)?, "the object is gone");
            Ok(())
        })
    });
    rows.rows
}

/// Objects of so many bytes, read and written whole.
pub(super) fn large_rows(subject: &Subject, bytes: usize) -> Result<Vec<Row<'_>>> {
    let mut rows = Rows::of(subject);
    let objects = subject.store.objects();
    let count = subject.large_bytes / bytes as u64;
    let first = subject.objects + 2 * subject.operations as u64;
    let value = vec![7; bytes];
    for number in first..first + count {
        objects.put(&key(number), &value)?;
    }
    let source = Arena::new(subject.large_bytes / LINE_BYTES)?;
    (0..count).for_each(|number| source.write(number * bytes as u64, &value));
    rows.objects = count;
    rows.operations = count as usize;
    let (in_turn, size) = (Some(Spread::InTurn), tombolo::format_size(bytes as u64));
    let mut buffer = vec![0; bytes];
    let copy = rows.add(format!("copy of {size}"), in_turn, None, move |numbers| {
        timed(|| {
            for &number in numbers {
                source.read(number * bytes as u64, &mut buffer);
                black_box(&buffer);
            }
            Ok(())
        })
    });
    let mut read = Vec::new();
    rows.add(format!("get of {size}"), in_turn, Some(copy), move |numbers| {
        each_key(&from(first, numbers), |key| {
            objects.read(key, &mut read)?.context("the object is gone")?;
            black_box(&read);
            Ok(())
        })
    });
    rows.add(format!("view of {size}"), in_turn, Some(copy), move |numbers| {
        each_key(&from(first, numbers), |key| {
            let view = objects.view(key)?.context("the object is gone")?;
            black_box(&view.bytes());
            Ok(view.end()?)
        })
    });
    let written = value.clone();
    let store = rows.add(format!("copy and clean of {size}"), in_turn, None, move |numbers| {
        timed(|| {
            numbers.iter().for_each(|&number| subject.bare.store(number, &written));
            Ok(())
        })
    });
    let streamed = value.clone();
    rows.add(format!("copy past the caches of {size}"), in_turn, Some(store), move |numbers| {
        timed(|| {
            numbers.iter().for_each(|&n| subject.bare.store_past_caches(n, &streamed));
            Ok(())
        })
    });
    rows.add(format!("put of {size}"), in_turn, Some(store), move |numbers| {
        each_key(&from(first, numbers), |key| Ok(objects.put(key, &value).map(drop)?))
    });
    Ok(rows.rows)
}
