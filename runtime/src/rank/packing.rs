//! The numbers of a buffer, and the words that hold them.

use super::Rank;
use gnnc_ir::program::BufferId;
use gnnc_ir::words::storage::Storage;
use std::borrow::Cow;

impl Rank {
    /// Converts the words of a buffer, all slots, to numbers.
    pub(crate) fn unpacked(&self, id: BufferId, words: Vec<f32>) -> Vec<f32> {
        let (storage, elements, of_slot) = self.packing(id);
        if storage.is_f32() {
            return words;
        }
        let mut numbers = vec![0.0; words.len() / of_slot.max(1) * elements];
        let slots = numbers.chunks_mut(elements.max(1));
        (slots.zip(words.chunks(of_slot.max(1))))
            .for_each(|(numbers, words)| storage.unpack(words, numbers));
        numbers
    }

    /// Converts the numbers of a buffer, all slots, to words.
    pub(crate) fn packed<'a>(&self, id: BufferId, numbers: &'a [f32]) -> Cow<'a, [f32]> {
        let (storage, elements, of_slot) = self.packing(id);
        if storage.is_f32() {
            return Cow::Borrowed(numbers);
        }
        let mut words = vec![0.0; numbers.len() / elements.max(1) * of_slot];
        let slots = words.chunks_mut(of_slot.max(1));
        (slots.zip(numbers.chunks(elements.max(1))))
            .for_each(|(words, numbers)| storage.pack(numbers, words));
        Cow::Owned(words)
    }

    /// Number of elements in a buffer, all slots.
    pub(crate) fn elements(&self, id: BufferId) -> usize {
        let (_, elements, _) = self.packing(id);
        elements * self.program.buffer(id).slots as usize
    }

    /// The storage of a buffer, and the elements and words per slot.
    fn packing(&self, id: BufferId) -> (Storage, usize, usize) {
        let (buffer, capacity) = (self.program.buffer(id), &self.capacity);
        let of_slot = [
            buffer.slot_elements(capacity.most()),
            buffer.slot_words(capacity),
        ];
        let [elements, words] = of_slot.map(|n| n as usize);
        (buffer.storage, elements, words)
    }
}
