//! Sizes of buffers: what they hold, in elements and bytes, and the room they take, in words.

use super::{Buffer, Capacity, RankSizes};

impl Buffer {
    /// Elements per slot on a rank.
    pub fn slot_elements(&self, sizes: &RankSizes) -> u64 {
        sizes
            .rows(self.extent)
            .saturating_mul(u64::from(self.columns))
    }

    /// Bytes per slot on a rank.
    pub fn slot_bytes(&self, sizes: &RankSizes) -> u64 {
        let elements = self.slot_elements(sizes);
        elements.saturating_mul(self.storage.bytes())
    }

    /// Four-byte words of memory per slot.
    pub fn slot_words(&self, capacity: &Capacity) -> u64 {
        let elements = self.slot_elements(capacity.most());
        elements.div_ceil(u64::from(self.storage.in_word()))
    }

    /// Four-byte words of memory of all slots.
    pub fn words(&self, capacity: &Capacity) -> u64 {
        self.slot_words(capacity)
            .saturating_mul(u64::from(self.slots))
    }

    /// Four-byte words per row of a buffer whose rows are moved (a whole number).
    pub fn row_words(&self) -> u32 {
        self.columns / self.storage.in_word()
    }
}
