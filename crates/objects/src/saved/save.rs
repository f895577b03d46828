//! Into a file.

use std::io::Write;

use tombolo_memory::Memory;

use super::writer::FileWriter;
use super::{Amount, Contents, SavedError, check_pod};
use crate::Objects;

impl<M: Memory> Objects<M> {
    /// Writes all objects to `out`, each as it was at some moment since this began; those that are
    /// there all the while are all among them. Other hosts go on meanwhile. Objects in their own
    /// memory come back to where all can reach them; of those whose value is lost only the number
    /// is noted. `go_on` is told from time to time how much was saved, and says whether to go on.
    ///
    /// # Errors
    /// [`SavedError::PageCache`], [`SavedError::Stopped`], [`SavedError::Write`];
    /// [`SavedError::Object`] and [`SavedError::Pod`] with those of [`read`](Self::read) and
    /// [`scan`](Self::scan). The file is not whole then, and refused by
    /// [`SavedFile`](super::SavedFile).
    pub fn save(
        &self,
        out: impl Write,
        mut go_on: impl FnMut(Amount) -> bool,
    ) -> Result<Contents, SavedError> {
        check_pod(self.area())?;
        let writer = FileWriter::new(out, self.pod().identity().uuid);
        let mut writer = writer.map_err(SavedError::Write)?;
        let (mut keys, mut value, mut lost, mut cursor) = (Vec::new(), Vec::new(), 0, 0);
        loop {
            // Meets each key once: so none is in the file twice.
            cursor = self.scan(cursor, |key| keys.push(key.to_vec()))?;
            for key in keys.drain(..) {
                match self.read(&key, &mut value) {
                    Ok(Some(_)) => writer.add(&key, &value).map_err(SavedError::Write)?,
                    Ok(None) => {}
                    Err(error) if error.is_loss() => lost += 1,
                    Err(error) => return Err(SavedError::of(&key, error)),
                }
            }
            if !go_on(writer.saved) {
                return Err(SavedError::Stopped);
            }
            if cursor == 0 {
                return writer.finish(lost).map_err(SavedError::Write);
            }
        }
    }
}
