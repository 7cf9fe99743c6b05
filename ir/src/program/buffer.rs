//! Sizes of buffers.

use super::{Buffer, RankSizes};

impl Buffer {
    /// Elements per slot on a rank.
    pub fn slot_elements(&self, sizes: &RankSizes) -> u64 {
        sizes
            .rows(self.extent)
            .saturating_mul(u64::from(self.columns))
    }

    /// Four-byte words per slot on a rank.
    pub fn slot_words(&self, sizes: &RankSizes) -> u64 {
        let elements = self.slot_elements(sizes);
        elements.div_ceil(u64::from(self.storage.in_word()))
    }

    /// Four-byte words of all slots on a rank.
    pub fn words(&self, sizes: &RankSizes) -> u64 {
        self.slot_words(sizes).saturating_mul(u64::from(self.slots))
    }

    /// Four-byte words per row of a buffer whose rows are moved (a whole number).
    pub fn row_words(&self) -> u32 {
        self.columns / self.storage.in_word()
    }

    /// Bytes per slot on a rank.
    pub fn slot_bytes(&self, sizes: &RankSizes) -> u64 {
        let elements = self.slot_elements(sizes);
        elements.saturating_mul(self.storage.bytes())
    }
}
