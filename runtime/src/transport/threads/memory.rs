//! Memory of messages.

use crate::arena::{Arena, Span};
use std::sync::Arc;

/// Memory that a message is in, and the next one after it.
pub(super) enum Memory {
    /// Of its own.
    Own(Vec<f32>),
    /// A part of a block.
    Part {
        /// What keeps it alive.
        _block: Arc<Arena>,
        /// No other part has any of it.
        room: Span,
        /// Floats of the message.
        len: usize,
    },
}

impl Default for Memory {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Memory {
    /// Memory for so many messages of so many floats each: one block on huge pages, since on others most of the time of a
    /// message that was not used a moment ago goes into finding its pages. The system hands out the pages now and not
    /// while a message is packed.
    ///
    /// # Errors
    /// The system refuses that much memory.
    pub fn block(messages: usize, floats: usize) -> std::io::Result<Vec<Self>> {
        let all = messages.checked_mul(floats);
        let all = all.ok_or(std::io::ErrorKind::OutOfMemory)?;
        let block = Arc::new(Arena::new(all)?);
        // SAFETY: the block is alive, and nothing else knows of it yet.
        unsafe { block.span(0, all).write() }.fill(0.0);
        let part = |number| Self::Part {
            room: block.span(number * floats, floats),
            _block: Arc::clone(&block),
            len: 0,
        };
        Ok((0..messages).map(part).collect())
    }

    /// Whether a message of so many floats fits: memory of its own grows.
    pub fn fits(&self, floats: usize) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Part { room, .. } => floats <= room.len,
        }
    }

    /// Makes room for a message that fits; what is in there is left over.
    pub fn hold(&mut self, floats: usize) -> &mut [f32] {
        match self {
            Self::Own(memory) => {
                // Exactly: the next message is as long as one before it, not longer and longer.
                memory.reserve_exact(floats.saturating_sub(memory.len()));
                memory.resize(floats, 0.0);
                memory
            }
            Self::Part { room, len, .. } => {
                *len = floats;
                // SAFETY: the block is alive, and only this part has the room.
                unsafe { room.part(0, floats).write() }
            }
        }
    }

    /// The message.
    pub fn floats(&self) -> &[f32] {
        match self {
            Self::Own(memory) => memory,
            // SAFETY: the block is alive, and only this part has the room.
            Self::Part { room, len, .. } => unsafe { room.part(0, *len).read() },
        }
    }

    /// Floats that there is room for.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Own(memory) => memory.capacity(),
            Self::Part { room, .. } => room.len,
        }
    }
}
