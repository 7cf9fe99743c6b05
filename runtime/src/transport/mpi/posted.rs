//! Messages whose receipt begins before they are waited for.
//!
//! MPI sends a long message only after its receiver has said where to put it. A receiver that says so early answers before
//! it sends long messages of its own. Otherwise its answer queues behind these, and two processes that send each other a
//! megabyte over one TCP connection take turns.

use super::World;
use super::library::Handle;
use crate::transport::TransportError;
use std::ops::RangeInclusive;

/// A message that MPI may be writing.
pub(super) struct Posted {
    request: Handle,
    message: Vec<f32>,
}

impl World {
    /// Begins to receive the next message from a process with a tag, of so many floats.
    ///
    /// # Errors
    /// A process that failed.
    pub(super) fn post(
        &self,
        from: u32,
        tag: u32,
        floats: usize,
        mut memory: Vec<f32>,
    ) -> Result<Posted, TransportError> {
        self.alive.check()?;
        // What an earlier message left is written over.
        memory.resize(floats, 0.0);
        // SAFETY: `Posted` keeps the memory, which does not move, until the request is done, or it is leaked.
        let request = unsafe { self.library().receive(from, tag, &mut memory) }?;
        Ok(Posted {
            request,
            message: memory,
        })
    }

    /// Waits for a message, which has to have one of these lengths.
    ///
    /// # Errors
    /// A message of another length, or a process that failed.
    pub(super) fn wait_posted(
        &self,
        from: u32,
        mut posted: Posted,
        lengths: RangeInclusive<usize>,
    ) -> Result<Vec<f32>, TransportError> {
        let received = self.until(|| Ok(self.library().is_received(&mut posted.request)?));
        let found = match received {
            Ok(found) => found,
            Err(error) => {
                posted.leak();
                return Err(error);
            }
        };
        self.fits_length(from, found, lengths)?;
        posted.message.truncate(found);
        Ok(posted.message)
    }
}

impl Posted {
    /// Floats of its memory.
    pub(super) fn capacity(&self) -> usize {
        self.message.capacity()
    }

    /// Leaves the memory to MPI, which may still write to it.
    pub(super) fn leak(self) {
        std::mem::forget(self.message);
    }
}
