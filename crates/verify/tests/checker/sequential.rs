//! A key-value store written apart from the crate's model, which the oracles and the generator use.

use std::collections::BTreeMap;

use tombolo_verify::history::{History, Record};
use tombolo_verify::models::{Operation, Result};

pub(crate) type Op = Operation<u64>;
pub(crate) type Ret = Result<u64>;
pub(crate) type Log = Vec<Record<u32, Op, Ret>>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store(BTreeMap<u32, u64>);

impl Store {
    pub(crate) fn apply(&mut self, key: u32, op: &Op) -> Ret {
        let old = self.0.get(&key).copied();
        match *op {
            Operation::Get => Result::Value(old),
            Operation::Put(value) => {
                self.0.insert(key, value);
                Result::Done
            }
            Operation::Update(value) => {
                self.0.insert(key, value);
                Result::Value(old)
            }
            Operation::Append(value) => {
                let sum = old.unwrap_or(0).wrapping_add(value);
                self.0.insert(key, sum);
                Result::Value(Some(sum))
            }
            Operation::Delete => Result::Flag(self.0.remove(&key).is_some()),
            Operation::Create(value) => self.store_if(old.is_none(), key, value),
            Operation::Replace(value) => self.store_if(old.is_some(), key, value),
            Operation::CompareAndSwap { expected, new } => {
                self.store_if(old == Some(expected), key, new)
            }
        }
    }

    fn store_if(&mut self, applies: bool, key: u32, value: u64) -> Ret {
        if applies {
            self.0.insert(key, value);
        }
        Result::Flag(applies)
    }
}

pub(crate) fn history(log: &Log) -> History<u32, Op, Ret> {
    History::new(log.clone()).expect("every operation ends after it begins")
}
