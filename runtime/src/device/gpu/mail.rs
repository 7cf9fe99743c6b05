//! Messages between the ranks of a device and to other processes. The sender's message stream fills
//! the memory of a message, and the receiver's compute stream empties it.

use super::device_rank::DeviceRank;
use super::driver::{Address, Driver, DriverError, Event, Message, Stream};
use super::launch::Stop;
use super::moves::Key;
use super::state::{Gpu, bytes as bytes_of};
use super::step_contexts::Moments;
use crate::communication::moves::Write;
use crate::communication::{self, CommSteps, Round};
use gnnc_ir::words::wire::salt;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Memory of a message.
struct Stage {
    at: Address,
    bytes: u64,
    /// Reached when the message is complete.
    filled: Event,
    /// Reached when the message has been taken.
    emptied: Event,
    /// Whether it has already held another message in this run.
    used: bool,
}

/// All messages in flight, and the memory of earlier ones.
pub(super) struct Mail {
    /// The ranks of this process.
    here: Range<u32>,
    stages: Vec<Stage>,
    /// Whether a program samples, so that the sizes of messages vary.
    of_batches: bool,
    /// Free stages by size in bytes. A stage is reused only for messages of its size, so that a
    /// second identical run needs no more memory. If a program samples, sizes are rounded up to powers of two.
    free: BTreeMap<u64, VecDeque<usize>>,
    /// Messages by sender, receiver and tag, in order.
    letters: BTreeMap<(u32, u32, u32), VecDeque<usize>>,
    /// Numbers known to the CPU, by the same key: ranks of one process need no device memory for
    /// them.
    told: BTreeMap<(u32, u32, u32), VecDeque<f32>>,
    /// Lists about batches, likewise.
    lists: BTreeMap<(u32, u32, u32), VecDeque<Vec<u32>>>,
}

/// The streams of a rank.
#[derive(Clone, Copy)]
pub(super) struct Streams {
    /// For kernels.
    pub(super) compute: Stream,
    /// For packing and sending.
    pub(super) messages: Stream,
}

impl Mail {
    pub(super) fn new(here: Range<u32>, of_batches: bool) -> Self {
        Self {
            here,
            of_batches,
            stages: Vec::new(),
            free: BTreeMap::new(),
            letters: BTreeMap::new(),
            told: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }

    /// Begins a run. All work of earlier runs is done.
    pub(super) fn begin(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.used = false);
    }

    /// Whether all messages have been taken.
    pub(super) fn is_empty(&self) -> bool {
        let lists = self.lists.values().all(VecDeque::is_empty);
        lists && self.letters.values().all(VecDeque::is_empty)
    }

    /// Bytes of message memory.
    pub(super) fn bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes).sum()
    }

    /// Packs and sends the messages of a round; returns their bytes. The rows were computed earlier on
    /// the rank's compute stream, on which this records `computed`.
    pub(super) fn send(
        &mut self,
        gpu: &mut Gpu,
        from: &DeviceRank,
        step_contexts: &Moments,
        steps: &CommSteps,
        round: &Round,
    ) -> Result<u64, Stop> {
        let (rank, Streams { compute, messages }) = (from.own.number, from.streams);
        // Lists of a batch are copied on the compute stream, which the message stream waits for.
        for rows in steps
            .sends(round)
            .iter()
            .flat_map(|message| steps.rows(message))
        {
            from.placed(gpu, rows)?;
        }
        gpu.driver.record(from.computed, compute)?;
        gpu.driver.wait(messages, from.computed)?;
        let (mut bytes_sent, mut sent, mut received) = (0, Vec::new(), Vec::new());
        for message in steps.sends(round) {
            let (peer, bytes) = (message.peer, 4 * message.floats as u64);
            bytes_sent += bytes;
            let stage = self.take(&mut *gpu.driver, messages, bytes)?;
            let mut at = self.stages[stage].at;
            for rows in steps.rows(message) {
                let rows = from.placed(gpu, rows)?;
                match rows.encoded() {
                    None => gpu.put(messages, &rows, &rows.packed(at), Write::Replace)?,
                    Some(encoding) => {
                        let key = match steps.drawn {
                            Some((seed, draw)) => Key::Known(encoding.key(seed, draw)),
                            None => Key::At(
                                step_contexts.keys(&[encoding.site], encoding.iteration),
                                salt(encoding.part),
                            ),
                        };
                        gpu.encode(messages, &rows, encoding, key, at)?;
                    }
                }
                at = at.plus(4 * rows.message_floats() as u64);
            }
            if self.here.contains(&peer) {
                let filled = self.stages[stage].filled;
                gpu.driver.record(filled, messages)?;
                self.post((rank, peer, steps.tag), stage);
            } else {
                sent.push((stage, self.message(peer, stage, bytes)));
            }
        }
        for expected in steps.expects(round) {
            if !self.here.contains(&expected.from) {
                let bytes = 4 * expected.floats as u64;
                let stage = self.take(&mut *gpu.driver, messages, bytes)?;
                received.push((stage, self.message(expected.from, stage, bytes)));
            }
        }
        if sent.is_empty() && received.is_empty() {
            return Ok(bytes_sent);
        }
        let only = |all: &[(usize, Message)]| -> Vec<Message> {
            all.iter().map(|(_, message)| *message).collect()
        };
        gpu.driver
            .exchange(messages, &only(&sent), &only(&received))?;
        for (stage, _) in sent {
            gpu.driver.record(self.stages[stage].emptied, messages)?;
            self.give_back(stage);
        }
        for (stage, message) in received {
            gpu.driver.record(self.stages[stage].filled, messages)?;
            self.post((message.peer, rank, steps.tag), stage);
        }
        Ok(bytes_sent)
    }

    /// Broadcasts floats from the process of rank `from` to all others.
    pub(super) fn spread(
        &self,
        gpu: &mut Gpu,
        from: u32,
        ranks: u32,
        floats: &mut [f32],
    ) -> Result<(), DriverError> {
        let (on, bytes) = (gpu.main, size_of_val(floats) as u64);
        let at = gpu.driver.allocate(bytes)?;
        let message = |peer| Message { peer, at, bytes };
        let mut plain = bytes_of(floats).to_vec();
        if self.here.contains(&from) {
            gpu.driver.upload(on, &plain, at)?;
            let others = (0..ranks).filter(|rank| !self.here.contains(rank));
            let sent: Vec<Message> = others.map(message).collect();
            gpu.driver.exchange(on, &sent, &[])?;
            gpu.driver.synchronize(on)?;
        } else {
            gpu.driver.exchange(on, &[], &[message(from)])?;
            gpu.driver.download(on, at, &mut plain)?;
            let words = plain.as_chunks::<4>().0.iter();
            let words = words.map(|word| f32::from_ne_bytes(*word));
            floats
                .iter_mut()
                .zip(words)
                .for_each(|(float, word)| *float = word);
        }
        gpu.driver.release(at)
    }

    /// Takes a message if it has been sent; returns whether it was.
    pub(super) fn land(
        &mut self,
        gpu: &mut Gpu,
        to: &DeviceRank,
        steps: &CommSteps,
        (message, write): (&communication::Message, Write),
    ) -> Result<bool, Stop> {
        let (key, on) = ((message.peer, to.own.number, steps.tag), to.streams.compute);
        let Some(stage) = self.letters.get_mut(&key).and_then(VecDeque::pop_front) else {
            return Ok(false);
        };
        let Stage {
            mut at,
            filled,
            emptied,
            ..
        } = self.stages[stage];
        gpu.driver.wait(on, filled)?;
        for rows in steps.rows(message) {
            let rows = to.placed(gpu, rows)?;
            match rows.encoded() {
                None => gpu.put(on, &rows.packed(at), &rows, write)?,
                Some(encoding) => gpu.decode(on, at, &rows, encoding, write)?,
            }
            at = at.plus(4 * rows.message_floats() as u64);
        }
        gpu.driver.record(emptied, on)?;
        self.give_back(stage);
        Ok(true)
    }

    /// Sends a number to a rank of this process.
    pub(super) fn tell(&mut self, from: u32, to: u32, tag: u32, number: f32) {
        let queue = self.told.entry((from, to, tag)).or_default();
        queue.push_back(number);
    }

    /// The next number sent to a rank; `None` if there is none yet.
    pub(super) fn hear(&mut self, from: u32, to: u32, tag: u32) -> Option<f32> {
        self.told.get_mut(&(from, to, tag))?.pop_front()
    }

    /// Tells a list: from a rank, to a rank, with a tag.
    pub(super) fn tell_list(&mut self, key: (u32, u32, u32), list: Vec<u32>) {
        self.lists.entry(key).or_default().push_back(list);
    }

    /// The next list from each of the ranks; `None` if one of them has told none yet.
    pub(super) fn lists(&mut self, to: u32, from: &[u32], tag: u32) -> Option<Vec<Vec<u32>>> {
        let waits = |from: &u32| {
            self.lists
                .get(&(*from, to, tag))
                .is_none_or(VecDeque::is_empty)
        };
        if from.iter().any(waits) {
            return None;
        }
        let mut next = |from: &u32| self.lists.get_mut(&(*from, to, tag))?.pop_front();
        from.iter().map(&mut next).collect()
    }

    fn message(&self, peer: u32, stage: usize, bytes: u64) -> Message {
        let at = self.stages[stage].at;
        Message { peer, at, bytes }
    }

    fn post(&mut self, key: (u32, u32, u32), stage: usize) {
        self.letters.entry(key).or_default().push_back(stage);
    }

    /// Memory for a message that a stream will write.
    fn take(
        &mut self,
        driver: &mut dyn Driver,
        on: Stream,
        bytes: u64,
    ) -> Result<usize, DriverError> {
        let bytes = match self.of_batches {
            true => bytes.next_power_of_two(),
            false => bytes,
        };
        if let Some(stage) = self.free.get_mut(&bytes).and_then(VecDeque::pop_front) {
            if self.stages[stage].used {
                driver.wait(on, self.stages[stage].emptied)?;
            }
            return Ok(stage);
        }
        self.stages.push(Stage {
            at: driver.allocate(bytes)?,
            bytes,
            filled: driver.event(false)?,
            emptied: driver.event(false)?,
            used: false,
        });
        Ok(self.stages.len() - 1)
    }

    fn give_back(&mut self, stage: usize) {
        self.stages[stage].used = true;
        let bytes = self.stages[stage].bytes;
        self.free.entry(bytes).or_default().push_back(stage);
    }
}
