//! Rows that messages carry in fewer bits than memory.

use super::{Listed, Rows};
use gnnc_ir::graph::op::Site;
use gnnc_ir::program::instr::Encoded;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::wire::{Wire, key_of_part};

/// How rows are encoded when they are packed, and decoded when they are unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding<L = Listed> {
    pub(crate) wire: Wire,
    /// The site of the draws that round numbers, and the iteration.
    pub(crate) site: Site,
    pub(crate) iteration: u32,
    /// What a rank sends of a vertex, such as its share of a sum, if other ranks send something else of the same vertex: the
    /// number of its part plus 1; else 0.
    pub(crate) part: u32,
    /// The vertex of each row of the matrix; `None` if rows are numbered by vertex.
    pub(crate) vertices: Option<L>,
}

impl<L> Encoding<L> {
    pub(crate) fn of(encoded: &Encoded, iteration: u32, part: u32, vertices: Option<L>) -> Self {
        Self {
            wire: encoded.wire,
            site: encoded.site,
            iteration,
            part,
            vertices,
        }
    }

    /// The key of the draws for the rows.
    pub(crate) fn key(&self, seed: u64, draw: u32) -> u64 {
        key_of_part(self.site.key(seed, draw, self.iteration), self.part)
    }

    /// The same for lists elsewhere.
    pub(crate) fn placed<M>(&self, vertices: Option<M>) -> Encoding<M> {
        Encoding {
            wire: self.wire,
            site: self.site,
            iteration: self.iteration,
            part: self.part,
            vertices,
        }
    }
}

impl<A, L> Rows<A, L> {
    /// Numbers of a row.
    pub(crate) fn numbers(&self) -> usize {
        self.columns.floats() * self.storage.in_word() as usize
    }

    /// Words of a row in a message.
    pub(crate) fn message_row(&self) -> usize {
        match &self.encoding {
            None => self.columns.floats(),
            Some(encoding) => encoding.wire.words(self.numbers() as u32, self.storage) as usize,
        }
    }

    /// Words of all rows in a message.
    pub(crate) fn message_floats(&self) -> usize {
        self.count * self.message_row()
    }

    /// How the rows are encoded, unless rows as short as these travel as they are.
    pub(crate) fn encoded(&self) -> Option<&Encoding<L>> {
        let encodes =
            |encoding: &&Encoding<L>| encoding.wire.encodes(self.numbers() as u32, self.storage);
        self.encoding.as_ref().filter(encodes)
    }
}

/// A row on its way into a message or out of one: its numbers, and the words that hold them.
pub(crate) struct Row {
    numbers: Vec<f32>,
    words: Vec<f32>,
    storage: Storage,
    wire: Wire,
}

impl Row {
    /// Room for a row of these.
    pub(crate) fn of<A, L>(rows: &Rows<A, L>, encoding: &Encoding<L>) -> Self {
        Self {
            numbers: vec![0.0; rows.numbers()],
            words: vec![0.0; rows.columns.floats()],
            storage: rows.storage,
            wire: encoding.wire,
        }
    }

    /// The words of the row as in memory.
    pub(crate) fn words(&mut self) -> &mut [f32] {
        &mut self.words
    }

    /// Encodes the words into a message; `hash` is that of the vertex.
    pub(crate) fn encode(&mut self, hash: u32, message: &mut [f32]) {
        self.storage.unpack(&self.words, &mut self.numbers);
        self.wire.encode(&self.numbers, hash, message);
    }

    /// Fills the words from a message.
    pub(crate) fn decode(&mut self, message: &[f32]) {
        self.wire.decode(message, &mut self.numbers);
        self.storage.pack(&self.numbers, &mut self.words);
    }
}
