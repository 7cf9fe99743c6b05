//! A rank's end of connections by MPI.

use super::posted::Posted;
use super::{Sending, World, WorldError};
use crate::error::Failure;
use crate::transport::threads::Threads;
use crate::transport::{Transport, TransportError};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Most messages whose memory is kept for later ones.
const KEPT: usize = 16;

/// One rank's end.
pub struct Mpi {
    world: Arc<World>,
    /// Connections to the ranks of this process, which are counted from 0 there.
    local: Threads,
    /// The first rank of this process, and how many it has.
    first: u32,
    each: u32,
    rank: u32,
    ranks: u32,
    sending: Vec<Sending>,
    /// Memory of messages that were sent.
    free: Vec<Vec<f32>>,
    /// Messages that are awaited, by their rank and tag, in order.
    posted: BTreeMap<(u32, u32), VecDeque<Posted>>,
    /// Memory of the latest message received.
    received: Vec<f32>,
    bytes: u64,
}

impl Mpi {
    /// The ends of this process's ranks, each of which computes on `threads` threads.
    ///
    /// # Errors
    /// As [`World::divide`].
    pub fn connect(
        world: &Arc<World>,
        ranks: u32,
        threads: usize,
    ) -> Result<Vec<Self>, WorldError> {
        let here = world.divide(ranks)?;
        let each = here.end - here.start;
        let local = Threads::connect_teams(each, threads);
        let ends = here.clone().zip(local).map(|(rank, local)| Self {
            world: Arc::clone(world),
            local,
            first: here.start,
            each,
            rank,
            ranks,
            sending: Vec::new(),
            free: Vec::new(),
            posted: BTreeMap::new(),
            received: Vec::new(),
            bytes: 0,
        });
        Ok(ends.collect())
    }

    /// The number of a rank of this process, counted from 0 here; `None` if it is in another one.
    fn here(&self, rank: u32) -> Option<u32> {
        let place = rank.checked_sub(self.first);
        place.filter(|place| *place < self.each)
    }

    fn check(&self, rank: u32) -> Result<(), TransportError> {
        match rank < self.ranks {
            true => Ok(()),
            false => Err(TransportError::NoSuchRank {
                rank,
                ranks: self.ranks,
            }),
        }
    }

    /// The tag of MPI for messages between two ranks with a tag of the program.
    fn tag(&self, from: u32, to: u32, tag: u32) -> Result<u32, TransportError> {
        let each = u64::from(self.each);
        let (from, to) = (u64::from(from) % each, u64::from(to) % each);
        let tag = 1 + (u64::from(tag) * each + from) * each + to;
        self.world.fits(tag)
    }

    /// Keeps the memory of messages that are sent by now.
    fn reuse_sent(&mut self) -> Result<(), TransportError> {
        let mut n = 0;
        while n < self.sending.len() {
            match self.world.is_sent(&mut self.sending[n])? {
                true => {
                    let sent = self.sending.swap_remove(n);
                    self.keep(sent.message);
                }
                false => n += 1,
            }
        }
        Ok(())
    }

    /// Memory for a message.
    fn message(&mut self, floats: usize) -> Result<Vec<f32>, TransportError> {
        self.reuse_sent()?;
        let fitting = self.free.iter().position(|kept| kept.capacity() >= floats);
        let mut message = match fitting {
            Some(place) => self.free.swap_remove(place),
            None => self.free.pop().unwrap_or_default(),
        };
        // All of it is written over.
        message.resize(floats, 0.0);
        Ok(message)
    }

    /// Keeps the memory of a message for a later one.
    fn keep(&mut self, message: Vec<f32>) {
        if self.free.len() < KEPT {
            self.free.push(message);
        }
    }

    /// The next message from a rank with this tag whose receipt has begun.
    fn next_posted(&mut self, from: u32, tag: u32) -> Option<Posted> {
        let queue = self.posted.get_mut(&(from, tag))?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.posted.remove(&(from, tag));
        }
        next
    }

    fn take(
        &mut self,
        from: u32,
        tag: u32,
        lengths: RangeInclusive<usize>,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        let posted = self.next_posted(from, tag);
        let tag = self.tag(from, self.rank, tag)?;
        let process = self.world.process_of(from);
        let began = Instant::now();
        let floats = match posted {
            None => {
                let received = &mut self.received;
                self.world.receive(process, tag, lengths, received)?
            }
            Some(posted) => {
                let message = self.world.wait_posted(process, posted, lengths)?;
                let before = std::mem::replace(&mut self.received, message);
                self.keep(before);
                self.received.len()
            }
        };
        let waited = began.elapsed().as_nanos() as u64;
        self.world.waited.fetch_add(waited, Ordering::Relaxed);
        take(&self.received[..floats]);
        Ok(())
    }
}

impl Transport for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn expect(&mut self, to: u32, messages: usize, floats: usize) -> Result<(), TransportError> {
        match self.here(to) {
            Some(to) => self.local.expect(to, messages, floats),
            None => self.check(to),
        }
    }

    fn send(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        fill: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), TransportError> {
        if let Some(to) = self.here(to) {
            return self.local.send(to, tag, floats, fill);
        }
        self.check(to)?;
        let tag = self.tag(self.rank, to, tag)?;
        let mut message = self.message(floats)?;
        fill(&mut message);
        let process = self.world.process_of(to);
        let sending = self.world.begin(std::iter::once(process), tag, message)?;
        self.sending.push(sending);
        self.bytes += 4 * floats as u64;
        Ok(())
    }

    fn awaits(&mut self, from: u32, tag: u32, floats: usize) -> Result<(), TransportError> {
        if self.here(from).is_some() {
            return Ok(());
        }
        self.check(from)?;
        let of_mpi = self.tag(from, self.rank, tag)?;
        let process = self.world.process_of(from);
        let memory = self.free.pop().unwrap_or_default();
        let posted = self.world.post(process, of_mpi, floats, memory)?;
        self.posted
            .entry((from, tag))
            .or_default()
            .push_back(posted);
        Ok(())
    }

    fn wait_for(
        &mut self,
        from: &mut dyn Iterator<Item = u32>,
        tag: u32,
    ) -> Result<(), TransportError> {
        let (first, each) = (self.first, self.each);
        let mut here = from.filter_map(|rank| {
            let place = rank.checked_sub(first);
            place.filter(|place| *place < each)
        });
        self.local.wait_for(&mut here, tag)
    }

    fn recv(
        &mut self,
        from: u32,
        tag: u32,
        floats: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        match self.here(from) {
            Some(from) => self.local.recv(from, tag, floats, take),
            None => {
                self.check(from)?;
                self.take(from, tag, floats..=floats, take)
            }
        }
    }

    fn recv_up_to(
        &mut self,
        from: u32,
        tag: u32,
        most: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        match self.here(from) {
            Some(from) => self.local.recv_up_to(from, tag, most, take),
            None => {
                self.check(from)?;
                self.take(from, tag, 0..=most, take)
            }
        }
    }

    /// MPI moves long messages only during calls into it.
    fn progress(&mut self) -> Result<(), TransportError> {
        if !self.sending.is_empty() {
            self.reuse_sent()
        } else if !self.posted.is_empty() {
            self.world.poke()
        } else {
            Ok(())
        }
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes + self.local.bytes_sent()
    }

    fn memory_bytes(&self) -> u64 {
        let sending = self
            .sending
            .iter()
            .map(|sending| sending.message.capacity());
        let kept = self.free.iter().map(Vec::capacity);
        let posted = self.posted.values().flatten().map(Posted::capacity);
        let floats = sending.chain(kept).chain(posted).sum::<usize>() + self.received.capacity();
        4 * floats as u64 + self.local.memory_bytes()
    }

    fn abort(&mut self, failure: Failure) {
        self.world.abort(&failure);
        self.local.abort(failure);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let posted = std::mem::take(&mut self.posted).into_values();
        posted.flatten().for_each(Posted::leak);
        for sending in self.sending.drain(..) {
            // A run that failed may leave messages behind, which MPI may still read.
            let _ = self.world.wait_sent(sending);
        }
    }
}
