//! A store in which a walk over the keys waits until somebody has written.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tombolo_kv::{Change, Entry};
use tombolo_server::{Config, InfoSection, Server, Store, StoreError};

use crate::client::{Client, request};
use crate::map::Map;

#[derive(Default)]
struct Patient {
    map: Map,
    written: Mutex<bool>,
    changed: Condvar,
}

impl Store for Patient {
    fn now_ms(&self) -> u64 {
        self.map.now_ms()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.map.get(key)
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        self.map.put(key, entry)?;
        *self.written.lock().unwrap() = true;
        self.changed.notify_all();
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.map.delete(key)
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> Change,
    ) -> Result<(), StoreError> {
        self.map.update(key, change)
    }

    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let written = self.written.lock().unwrap();
        let patience = Duration::from_secs(10);
        let waiting = self.changed.wait_timeout_while(written, patience, |written| !*written);
        assert!(!waiting.unwrap().1.timed_out(), "others wait for this");
        self.map.scan(cursor, count)
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        self.map.key_count()
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.map.clear()
    }

    fn info(&self) -> Vec<InfoSection> {
        self.map.info()
    }
}

#[test]
fn what_takes_long_keeps_nobody_waiting() {
    let listen = "127.0.0.1:0".to_owned();
    let config = Config { listen, workers: 1, ..Config::default() };
    let server = Server::start(config, Arc::new(Patient::default())).unwrap();
    let [mut walker, mut writer] = [(); 2].map(|()| Client::of(&server));
    walker.send(&[request(&[b"KEYS", b"*"]), request(&[b"GET", b"k"])].concat());
    assert_eq!(writer.ask("PING"), "+PONG\r\n");
    assert_eq!(writer.ask("SET k v"), "+OK\r\n");
    assert_eq!(walker.reply(), "*1\r\n$1\r\nk\r\n");
    assert_eq!(walker.reply(), "$1\r\nv\r\n");
}
