//! A value in its owner's own memory.

use std::ops::Range;

/// Bytes. Zeros take no memory as long as there is nothing else: so there can be many objects
/// without content, as where only time is simulated.
#[derive(Default)]
pub(crate) struct Value {
    length: usize,
    /// None, or all of them.
    bytes: Vec<u8>,
}

impl Value {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut value = Self::default();
        value.set(bytes);
        value
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(0..self.length, &mut bytes);
        bytes
    }

    pub(crate) fn read(&self, range: Range<usize>, into: &mut [u8]) {
        match self.bytes.get(range) {
            Some(bytes) if !self.bytes.is_empty() => into.copy_from_slice(bytes),
            _ => into.fill(0),
        }
    }

    pub(crate) fn write(&mut self, range: Range<usize>, bytes: &[u8]) {
        if self.bytes.is_empty() && are_zeros(bytes) {
            return;
        }
        self.bytes.resize(self.length, 0);
        self.bytes[range].copy_from_slice(bytes);
    }

    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.length = bytes.len();
        self.bytes.clear();
        if !are_zeros(bytes) {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

fn are_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn zeros_take_no_memory_and_are_read_as_zeros() {
        let mut value = Value::new(&[0; 100]);
        value.write(20..22, &[0, 0]);
        assert_eq!((value.bytes.capacity(), value.to_vec()), (0, vec![0; 100]));
        value.write(20..22, &[1, 2]);
        let mut read = [9; 4];
        value.read(19..23, &mut read);
        assert_eq!((read, value.len()), ([0, 1, 2, 0], 100));
        value.set(&[0; 3]);
        assert_eq!(value.to_vec(), [0; 3]);
        value.read(3..3, &mut []);
    }
}
