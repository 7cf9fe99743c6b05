//! Communication as lists of steps.
//!
//! A communication instruction becomes, for one rank, a list of steps: pack and send these rows, wait,
//! put what arrives into those rows. [`Rank::plan`](crate::rank::Rank::plan) writes the list, and the
//! executor of a device runs it. A list says which words of the rank's memory it means, not where that
//! memory is.

pub(crate) mod encoding;
mod exchange;
pub(crate) mod moves;
mod plan;
pub(crate) mod redistribute;
mod rows;
mod skip;
mod stage;
mod tiers;
mod tree;

pub(crate) use plan::{Half, Now};
pub(crate) use skip::{Compared, Hear};

use crate::part::lists::List;
use encoding::Encoding;
use gnnc_ir::program::Transfer;
use gnnc_ir::words::storage::Storage;
use moves::{Columns, Write};
use std::ops::Range;

/// A piece of a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The block of its buffers.
    Buffers,
    /// The chunk it sums in an all-reduce.
    Sum,
}

/// Consecutive words of a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) memory: Memory,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Rows of a list: consecutive entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) list: List,
    /// Position of the first entry.
    pub(crate) first: usize,
}

/// Rows of a matrix: those of a list, or the first ones. Each has runs of words. `A` is an address,
/// and `L` a list: names of both in a list of steps, places in the memory of a device where they run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<A = Words, L = Listed> {
    /// The first word of row 0.
    pub(crate) at: A,
    /// Which rows; `None` means the first `count`.
    pub(crate) list: Option<L>,
    /// Number of rows.
    pub(crate) count: usize,
    /// Words from one row to the next.
    pub(crate) stride: usize,
    /// The words of a row.
    pub(crate) columns: Columns,
    /// Storage of the elements, which matters when adding.
    pub(crate) storage: Storage,
    /// How messages carry the rows; `None`: as they are.
    pub(crate) encoding: Option<Encoding<L>>,
}

/// A step of a communication.
#[derive(Clone, Debug)]
pub(crate) enum CommStep {
    /// Packs and sends messages.
    Send(Round),
    /// The same for messages that all have the same consecutive words.
    SendAll(Round),
    /// From here on, rows that were sent may be overwritten.
    Packed,
    /// Waits for the messages that are received before anything else is sent, so that they can be
    /// taken in any order.
    Await,
    /// Receives a message and puts it into rows.
    Receive(Message, Write),
    /// Copies or adds rows to other rows of this rank.
    Put(Rows, Rows, Write),
    /// Sets rows to 0.
    Clear(Rows),
    /// Tells a rank a number.
    Tell(u32, f32),
    /// Hears a number from a rank. It says whether the block comes that the next step receives; if
    /// not, that step is left out.
    Hear(Hear),
}

/// A message to a rank or from one.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The other rank.
    pub(crate) peer: u32,
    pub(crate) floats: usize,
    /// Indices of its rows, one after the other in the message.
    rows: Range<usize>,
}

/// A message that comes from a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) from: u32,
    pub(crate) floats: usize,
}

/// Messages sent at once, and those that other ranks send at the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    sends: Range<usize>,
    expects: Range<usize>,
}

/// The steps of a communication, in order. The memory is reused from one to the next.
#[derive(Default)]
pub(crate) struct CommSteps {
    /// The tag of all its messages.
    pub(crate) tag: u32,
    /// The seed and the number of the draws that round rows, if the list runs once and in a batch.
    pub(crate) drawn: Option<(u64, u32)>,
    /// Words of [`Memory::Sum`] that the steps use.
    pub(crate) sum: usize,
    /// How the first share of a sum is put into [`Memory::Sum`]: added where an executor sets it to 0
    /// before, which makes a sum of negative zeros positive.
    pub(crate) first_share: Write,
    steps: Vec<CommStep>,
    sends: Vec<Message>,
    expects: Vec<Expected>,
    rows: Vec<Rows>,
    /// The last round.
    round: Round,
}

impl CommSteps {
    /// Step `n`, if there are so many.
    pub(crate) fn get(&self, n: usize) -> Option<&CommStep> {
        self.steps.get(n)
    }

    /// The rows of a message.
    pub(crate) fn rows(&self, message: &Message) -> &[Rows] {
        &self.rows[message.rows.clone()]
    }

    /// The messages that a round sends.
    pub(crate) fn sends(&self, round: &Round) -> &[Message] {
        &self.sends[round.sends.clone()]
    }

    /// The messages that come while a round is sent.
    pub(crate) fn expects(&self, round: &Round) -> &[Expected] {
        &self.expects[round.expects.clone()]
    }

    /// The ranks whose messages are received after step `n` and before anything else is sent.
    pub(crate) fn awaited(&self, n: usize) -> impl Iterator<Item = u32> {
        let sends = |step: &CommStep| matches!(step, CommStep::Send(_) | CommStep::SendAll(_));
        let later = self.steps.iter().skip(n + 1);
        let later = later.take_while(move |step| !sends(step));
        later.filter_map(|step| match step {
            CommStep::Receive(message, _) => Some(message.peer),
            CommStep::Hear(hear) => Some(hear.from),
            CommStep::Send(_)
            | CommStep::SendAll(_)
            | CommStep::Packed
            | CommStep::Await
            | CommStep::Put(..)
            | CommStep::Clear(_)
            | CommStep::Tell(..) => None,
        })
    }

    /// Drops all steps.
    fn clear(&mut self) {
        self.steps.clear();
        self.sends.clear();
        self.expects.clear();
        self.rows.clear();
        (self.tag, self.sum, self.round) = (Transfer::WHOLE, 0, Round::default());
        self.drawn = None;
    }

    fn add(&mut self, step: CommStep) {
        self.steps.push(step);
    }

    /// A message; `None` if it is empty and therefore never sent.
    fn message(&mut self, peer: u32, rows: impl IntoIterator<Item = Rows>) -> Option<Message> {
        let first = self.rows.len();
        self.rows.extend(rows);
        let floats = self.rows[first..].iter().map(Rows::message_floats).sum();
        let rows = first..self.rows.len();
        (floats > 0).then_some(Message { peer, floats, rows })
    }

    /// Sends rows in the next round.
    fn send(&mut self, to: u32, rows: impl IntoIterator<Item = Rows>) {
        let message = self.message(to, rows);
        self.sends.extend(message);
    }

    /// Expects a message in the next round.
    fn expect(&mut self, from: u32, floats: usize) {
        if floats > 0 {
            self.expects.push(Expected { from, floats });
        }
    }

    /// Sends the messages since the last round.
    fn round(&mut self) {
        let round = self.next_round();
        self.add(CommStep::Send(round));
    }

    /// The same for messages that all have the same consecutive words.
    fn share(&mut self) {
        let round = self.next_round();
        self.add(CommStep::SendAll(round));
    }

    fn next_round(&mut self) -> Round {
        self.round = Round {
            sends: self.round.sends.end..self.sends.len(),
            expects: self.round.expects.end..self.expects.len(),
        };
        self.round.clone()
    }

    fn receive(&mut self, from: u32, rows: impl IntoIterator<Item = Rows>, write: Write) {
        if let Some(message) = self.message(from, rows) {
            self.add(CommStep::Receive(message, write));
        }
    }
}

impl Words {
    /// Words of the rank's buffers.
    pub(crate) fn of(words: Range<usize>) -> Self {
        Self {
            memory: Memory::Buffers,
            first: words.start,
            count: words.len(),
        }
    }

    /// Some of the words.
    fn part(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.count, "words outside of their buffer");
        Self {
            first: self.first + first,
            count,
            ..self
        }
    }
}

impl<A, L> Rows<A, L> {
    /// Consecutive rows of `columns` words without gaps.
    pub(crate) fn dense(at: A, count: usize, columns: usize, storage: Storage) -> Self {
        Self {
            at,
            list: None,
            count,
            stride: columns,
            columns: Columns::one(0, columns),
            storage,
            encoding: None,
        }
    }

    /// Words of all rows.
    pub(crate) fn floats(&self) -> usize {
        self.count * self.columns.floats()
    }

    /// Whether the words are contiguous.
    pub(crate) fn contiguous(&self) -> bool {
        let dense = self.columns.floats() == self.stride || self.count == 1;
        self.list.is_none() && dense && self.columns.runs == 1
    }

    /// The same rows in a message that carries them as they are.
    pub(crate) fn packed(&self, at: A) -> Self {
        Self::dense(at, self.count, self.columns.floats(), self.storage)
    }

    /// The same rows in the memory of a device. `vertices` are those of rows that are encoded.
    pub(crate) fn placed<B, M>(&self, at: B, list: Option<M>, vertices: Option<M>) -> Rows<B, M> {
        let encoding = self.encoding.as_ref();
        Rows {
            at,
            list,
            count: self.count,
            stride: self.stride,
            columns: self.columns,
            storage: self.storage,
            encoding: encoding.map(|encoding| encoding.placed(vertices)),
        }
    }
}

impl Rows {
    /// Consecutive words.
    fn words(at: Words) -> Self {
        Self::dense(at, 1, at.count, Storage::F32)
    }

    /// Some of the rows of a whole matrix.
    fn run(&self, rows: Range<usize>) -> Self {
        let columns = self.stride;
        let at = self.at.part(rows.start * columns, rows.len() * columns);
        let mut encoding = self.encoding;
        if let Some(vertices) = encoding.as_mut().and_then(|one| one.vertices.as_mut()) {
            vertices.first += rows.start;
        }
        Self {
            encoding,
            ..Self::dense(at, rows.len(), columns, self.storage)
        }
    }

    /// The rows of a whole matrix that a list names.
    fn listed(&self, list: List, first: usize, count: usize) -> Self {
        Self {
            list: Some(Listed { list, first }),
            count,
            ..*self
        }
    }
}
