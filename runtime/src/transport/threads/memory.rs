//! Memory of messages.

use crate::arena::{Arena, Span};
use std::sync::Arc;

/// Memory for a message, reused by later ones.
pub(super) enum Memory {
    /// Its own allocation.
    Own(Vec<f32>),
    /// Part of a block.
    Part {
        /// Keeps the block alive.
        _block: Arc<Arena>,
        /// Does not overlap with other parts.
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
    /// Memory for `messages` messages of `floats` floats each: one block on huge pages, because on
    /// normal pages a message to memory not used a moment ago spends most of its time on page
    /// lookups. The system allocates the pages now, not while a message is packed.
    ///
    /// # Errors
    /// If the system refuses that much memory.
    pub fn block(messages: usize, floats: usize) -> std::io::Result<Vec<Self>> {
        let all = messages.checked_mul(floats);
        let all = all.ok_or(std::io::ErrorKind::OutOfMemory)?;
        let block = Arc::new(Arena::new(all)?);
        // SAFETY: the block is alive, and nothing else knows it yet.
        unsafe { block.span(0, all).write() }.fill(0.0);
        let part = |number| Self::Part {
            room: block.span(number * floats, floats),
            _block: Arc::clone(&block),
            len: 0,
        };
        Ok((0..messages).map(part).collect())
    }

    /// Whether a message of `floats` floats fits; an own allocation can grow.
    pub fn fits(&self, floats: usize) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Part { room, .. } => floats <= room.len,
        }
    }

    /// Makes room for a message that fits; its old content is arbitrary.
    pub fn hold(&mut self, floats: usize) -> &mut [f32] {
        match self {
            Self::Own(memory) => {
                // Exactly: the next message is as long as an earlier one, not ever longer.
                memory.reserve_exact(floats.saturating_sub(memory.len()));
                memory.resize(floats, 0.0);
                memory
            }
            Self::Part { room, len, .. } => {
                *len = floats;
                // SAFETY: the block is alive, and no other part overlaps.
                unsafe { room.part(0, floats).write() }
            }
        }
    }

    /// The message.
    pub fn floats(&self) -> &[f32] {
        match self {
            Self::Own(memory) => memory,
            // SAFETY: the block is alive, and no other part overlaps.
            Self::Part { room, len, .. } => unsafe { room.part(0, *len).read() },
        }
    }

    /// Floats there is room for.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Own(memory) => memory.capacity(),
            Self::Part { room, .. } => room.len,
        }
    }
}
