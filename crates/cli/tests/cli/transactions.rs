//! `MULTI` and `EXEC` through hosts that are killed in the middle: all is done, or nothing.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use redis::{Commands, Connection, RedisResult, cmd, pipe};

use crate::tombolo::{Servers, connect};

const ACCOUNTS: u64 = 8;
const SUM: i64 = ACCOUNTS as i64 * 1000;

/// Hosts that are killed.
const KILLS: usize = 12;

fn account(number: u64) -> String {
    format!("account:{number}")
}

/// Moves some money; whether nobody was in the way.
fn transfer(with: &mut Connection, dice: &mut SmallRng) -> RedisResult<bool> {
    let from = dice.random_range(0..ACCOUNTS);
    let to = (from + dice.random_range(1..ACCOUNTS)) % ACCOUNTS;
    let (from, to) = (account(from), account(to));
    let () = cmd("WATCH").arg(&from).arg(&to).query(with)?;
    let [left, right]: [Option<i64>; 2] = with.mget(&[&from, &to])?;
    let amount = left.unwrap_or(0).min(dice.random_range(1..100));
    let (left, right) = (left.unwrap_or(0) - amount, right.unwrap_or(0) + amount);
    let mut changes = pipe();
    changes.atomic();
    // An account without money is no key.
    if left > 0 {
        changes.set(&from, left)
    } else {
        changes.del(&from)
    };
    changes.set(&to, right).incr("transfers", 1);
    let done: Option<Vec<redis::Value>> = changes.query(with)?;
    Ok(done.is_some())
}

fn sum(with: &mut Connection) -> RedisResult<i64> {
    let mut all = pipe();
    all.atomic();
    (0..ACCOUNTS).for_each(|number| _ = all.get(account(number)));
    let found: Vec<Option<i64>> = all.query(with)?;
    Ok(found.into_iter().flatten().sum())
}

/// Three hosts move money between the same accounts, and again and again one of them is killed.
#[test]
fn no_money_is_lost_with_hosts_that_are_killed() {
    let mut servers = Servers::start(3, &["--size", "64MiB", "--scr", "1MiB", "--hosts", "8"], &[]);
    for number in 0..ACCOUNTS {
        let () = servers.connect(0).set(account(number), 1000).unwrap();
    }
    let addresses = Mutex::new([0, 1, 2].map(|host| servers.hosts[host].1));
    let (over, transfers, sums) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let address = |host: usize| -> SocketAddr { addresses.lock().unwrap()[host] };
    thread::scope(|scope| {
        for number in 0..6 {
            let (over, transfers, sums, address) = (&over, &transfers, &sums, &address);
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(number as u64);
                while !over.load(Ordering::Relaxed) {
                    let client = redis::Client::open(format!("redis://{}", address(number % 3)));
                    let Ok(mut with) = client.unwrap().get_connection() else {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    };
                    // Up to the death of the host.
                    while !over.load(Ordering::Relaxed) {
                        match transfer(&mut with, &mut dice) {
                            Err(_) => break,
                            Ok(done) => transfers.fetch_add(done.into(), Ordering::Relaxed),
                        };
                        if dice.random_range(0..4) == 0 {
                            let Ok(found) = sum(&mut with) else { break };
                            assert_eq!(found, SUM);
                            sums.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        for kill in 0..KILLS {
            thread::sleep(Duration::from_millis(50 + 7 * kill as u64));
            let host = kill % 3;
            servers.hosts[host].0.signal("-KILL");
            servers.hosts[host].0.end();
            servers.replace(host);
            addresses.lock().unwrap()[host] = servers.hosts[host].1;
            assert_eq!(sum(&mut connect(address((host + 1) % 3))).unwrap(), SUM);
        }
        over.store(true, Ordering::Relaxed);
    });
    let (done, looked) = (transfers.into_inner(), sums.into_inner());
    assert!(done > 0 && looked > 0, "{done} transfers, {looked} sums");
    let counted: u64 = servers.connect(0).get("transfers").unwrap();
    // A client whose host was killed does not know of its last one.
    assert!((done..=done + 6 * KILLS as u64).contains(&counted), "{counted}, and {done} known");
}

/// All hosts are killed in the middle of transactions; the host that opens the pod ends them.
#[test]
fn transactions_are_whole_after_all_hosts_are_killed() {
    let mut servers = Servers::start(2, &["--size", "64MiB", "--scr", "1MiB"], &[]);
    for round in 0..5u64 {
        let addresses = [0, 1].map(|host| servers.hosts[host].1);
        let clients = addresses.map(|address| {
            let mut with = connect(address);
            thread::spawn(move || {
                for number in round * 1_000_000.. {
                    let mut changes = pipe();
                    changes.atomic();
                    (0..4).for_each(|key| _ = changes.set(format!("key:{key}"), number));
                    if changes.query::<()>(&mut with).is_err() {
                        break;
                    }
                }
            })
        });
        thread::sleep(Duration::from_millis(60 + 13 * round));
        servers.hosts.iter_mut().for_each(|(host, _)| host.signal("-KILL"));
        servers.hosts.iter_mut().for_each(|(host, _)| _ = host.end());
        clients.into_iter().for_each(|client| client.join().unwrap());
        servers.restart(2);
        let keys: Vec<String> = (0..4).map(|key| format!("key:{key}")).collect();
        let found: Vec<Option<u64>> = servers.connect(1).mget(&keys).unwrap();
        assert!(found.iter().all(|value| *value == found[0] && value.is_some()), "{found:?}");
        let count: u64 = cmd("DBSIZE").query(&mut servers.connect(0)).unwrap();
        assert_eq!(count, 4);
    }
}
