//! Keys, one after the other.

use std::vec::IntoIter;

/// A step of a walk: adds keys, and returns the next cursor, 0 at the end.
type Step<'a, E> = Box<dyn FnMut(u64, &mut Vec<Vec<u8>>) -> Result<u64, E> + Send + 'a>;

/// A walk through the keys of a pod, some at a time, in no order. It meets each key that is there
/// all the while, and others perhaps; no key is met twice. After an error it is over.
pub struct Keys<'a, E> {
    step: Step<'a, E>,
    prefix: Vec<u8>,
    /// Where it goes on; `None` at the end.
    cursor: Option<u64>,
    found: IntoIter<Vec<u8>>,
}

impl<'a, E> Keys<'a, E> {
    pub(crate) fn new(
        prefix: &[u8],
        step: impl FnMut(u64, &mut Vec<Vec<u8>>) -> Result<u64, E> + Send + 'a,
    ) -> Self {
        let found = Vec::new().into_iter();
        Self { step: Box::new(step), prefix: prefix.to_vec(), cursor: Some(0), found }
    }
}

impl<E> Iterator for Keys<'_, E> {
    type Item = Result<Vec<u8>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.found.next() {
                return Some(Ok(key));
            }
            let mut keys = Vec::new();
            match (self.step)(self.cursor.take()?, &mut keys) {
                Ok(next) => self.cursor = (next != 0).then_some(next),
                Err(error) => return Some(Err(error)),
            }
            keys.retain(|key| key.starts_with(&self.prefix));
            self.found = keys.into_iter();
        }
    }
}
