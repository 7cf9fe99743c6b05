//! How large buffers are.

use super::{Buffer, RankSizes};

impl Buffer {
    /// Elements of one slot on a rank.
    pub fn slot_elements(&self, sizes: &RankSizes) -> u64 {
        sizes
            .rows(self.extent)
            .saturating_mul(u64::from(self.columns))
    }

    /// Four bytes each, of one slot on a rank.
    pub fn slot_words(&self, sizes: &RankSizes) -> u64 {
        let elements = self.slot_elements(sizes);
        elements.div_ceil(u64::from(self.storage.in_word()))
    }

    /// Four bytes each, on a rank.
    pub fn words(&self, sizes: &RankSizes) -> u64 {
        self.slot_words(sizes).saturating_mul(u64::from(self.slots))
    }

    /// Four bytes each, of a row that is moved, which is a whole number of them.
    pub fn row_words(&self) -> u32 {
        self.columns / self.storage.in_word()
    }

    /// Bytes of the elements of one slot on a rank.
    pub fn slot_bytes(&self, sizes: &RankSizes) -> u64 {
        let elements = self.slot_elements(sizes);
        elements.saturating_mul(self.storage.bytes())
    }
}
