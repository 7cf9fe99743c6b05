//! Connections between ranks that are threads of one process.

mod clock;
mod memory;

use self::clock::Clock;
use self::memory::Memory;
use super::{Transport, TransportError};
use crate::error::Failure;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a waiting rank spins before it sleeps, if every thread has a core. A wakeup takes 20 to
/// 100 us, more after a longer sleep, and costs the sender a system call. Longer than most pipeline
/// bubbles.
const SPIN: Duration = Duration::from_millis(50);

/// How often a spinning rank checks whether the ranks it waits for are running. It yields its core
/// when they are starved.
const LOOK: Duration = Duration::from_micros(200);

/// A rank's end of the connections between threads.
pub struct Threads {
    hub: Arc<Hub>,
    rank: u32,
    bytes: u64,
    /// Ranks that messages have been sent to.
    sent_to: BTreeSet<u32>,
    /// The last message sent to several ranks; the next one reuses its memory.
    shared: Arc<Vec<f32>>,
    under_way: UnderWay,
}

/// State shared by all ends.
struct Hub {
    /// For each rank, the messages sent to it.
    inboxes: Vec<Inbox>,
    /// For each rank, the CPU time of its thread.
    clocks: Vec<Clock>,
    /// How long a waiting rank spins before it sleeps.
    spin: Duration,
    aborted: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

#[derive(Default)]
struct Inbox {
    mail: Mutex<Mail>,
    /// Whether the receiver waits for a missing message. Written with the mail locked.
    waits: AtomicBool,
    complete: Condvar,
}

#[derive(Default)]
struct Mail {
    /// By sender; only senders that have sent something.
    queues: BTreeMap<u32, Queue>,
    /// Senders the receiver is waiting for; it need not be woken before all have sent.
    missing: BTreeSet<u32>,
    /// The tag it is waiting for.
    tag: u32,
    /// Whether the receiver has to be woken.
    asleep: bool,
}

#[derive(Default)]
struct Queue {
    /// Messages in flight with their tags, oldest first.
    messages: VecDeque<(u32, Message)>,
    /// Memory of received messages for reuse, most recent last. Holds as many as may be in flight
    /// at once, so that it does not depend on how far a sender gets ahead of its receiver.
    free: Vec<Memory>,
    /// Whether memory for all messages was allocated in advance.
    expects: bool,
}

/// What a rank has sent in communications that it has not finished itself. How far it is ahead of the
/// receivers does not enter.
#[derive(Default)]
struct UnderWay {
    /// Floats by tag.
    floats: BTreeMap<u32, usize>,
    /// Most floats at once.
    most: usize,
}

impl UnderWay {
    fn sent(&mut self, tag: u32, floats: usize) {
        if floats > 0 {
            *self.floats.entry(tag).or_default() += floats;
            self.most = self.most.max(self.floats.values().sum());
        }
    }

    /// A rank receives with a tag once it has sent everything that it sends with it.
    fn finished(&mut self, tag: u32) {
        self.floats.remove(&tag);
    }
}

enum Message {
    /// For one receiver.
    Own(Memory),
    /// For several receivers.
    Shared(Arc<Vec<f32>>),
}

impl Threads {
    /// The ends of all ranks.
    pub fn connect(ranks: u32) -> Vec<Self> {
        Self::connect_teams(ranks, 1)
    }

    /// The ends of all ranks, each of which computes on `threads` threads.
    pub fn connect_teams(ranks: u32, threads: usize) -> Vec<Self> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let hub = Arc::new(Hub {
            inboxes: (0..ranks).map(|_| Inbox::default()).collect(),
            clocks: (0..ranks).map(|_| Clock::default()).collect(),
            spin: match (ranks as usize).saturating_mul(threads) <= cores {
                true => SPIN,
                false => Duration::ZERO,
            },
            aborted: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        (0..ranks)
            .map(|rank| Self {
                hub: Arc::clone(&hub),
                rank,
                bytes: 0,
                sent_to: BTreeSet::new(),
                shared: Arc::default(),
                under_way: UnderWay::default(),
            })
            .collect()
    }

    fn inbox(&self, of: u32, other: u32) -> Result<&Inbox, TransportError> {
        let ranks = self.ranks();
        let inbox = self.hub.inboxes.get(of as usize);
        inbox
            .filter(|_| other < ranks)
            .ok_or(TransportError::NoSuchRank { rank: other, ranks })
    }

    /// Adds a message to a rank's mail, and wakes the rank if it was the last one missing.
    fn post(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        message: Message,
    ) -> Result<(), TransportError> {
        let inbox = self.inbox(to, to)?;
        self.hub.clocks[self.rank as usize].is_mine();
        let mut mail = lock(&inbox.mail);
        let queue = mail.queues.entry(self.rank).or_default();
        let held = match &message {
            Message::Own(_) if !queue.expects => floats,
            Message::Own(_) | Message::Shared(_) => 0,
        };
        queue.messages.push_back((tag, message));
        let last = mail.tag == tag && mail.missing.remove(&self.rank) && mail.missing.is_empty();
        if last {
            inbox.waits.store(false, Ordering::Release);
        }
        let wake = last && mail.asleep;
        drop(mail);
        if wake {
            inbox.complete.notify_one();
        }
        self.sent_to.insert(to);
        self.bytes += floats as u64 * 4;
        self.under_way.sent(tag, held);
        Ok(())
    }

    /// Waits until a message with this tag has arrived from each sender; sleeps at most once.
    fn wait<'a>(
        &'a self,
        inbox: &'a Inbox,
        from: &mut dyn Iterator<Item = u32>,
        tag: u32,
    ) -> Result<MutexGuard<'a, Mail>, TransportError> {
        let mut guard = lock(&inbox.mail);
        let mail = &mut *guard;
        mail.missing.clear();
        mail.tag = tag;
        for sender in from {
            let queue = mail.queues.get(&sender);
            if queue.is_none_or(|queue| queue.next(tag).is_none()) {
                mail.missing.insert(sender);
            }
        }
        if !guard.missing.is_empty() && !self.hub.spin.is_zero() {
            inbox.waits.store(true, Ordering::Relaxed);
            self.hub.clocks[self.rank as usize].is_mine();
            drop(guard);
            self.spin(inbox);
            guard = lock(&inbox.mail);
        }
        loop {
            self.check_aborted()?;
            guard.asleep = !guard.missing.is_empty();
            if !guard.asleep {
                return Ok(guard);
            }
            guard = inbox
                .complete
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Spins for a while until nothing is missing in an inbox, yielding the core to other threads.
    /// Gives up if a rank whose message is missing is not running.
    fn spin(&self, inbox: &Inbox) {
        let begin = Instant::now();
        let (mut now, mut looked, mut ran) = (begin, begin, BTreeMap::new());
        while now - begin < self.hub.spin {
            for _ in 0..32 {
                if !inbox.waits.load(Ordering::Acquire) || self.hub.aborted.load(Ordering::Relaxed)
                {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
            now = Instant::now();
            if now - looked >= LOOK {
                if self.stands_still(inbox, now - looked, &mut ran) {
                    return;
                }
                looked = now;
            }
        }
    }

    /// Whether a rank whose message is missing ran for less than half of the time since the last
    /// check.
    fn stands_still(
        &self,
        inbox: &Inbox,
        time: Duration,
        ran: &mut BTreeMap<u32, Duration>,
    ) -> bool {
        let mut still = false;
        for &sender in &lock(&inbox.mail).missing {
            if let Some(now) = self.hub.clocks[sender as usize].ran()
                && let Some(before) = ran.insert(sender, now)
            {
                still |= now.saturating_sub(before) < time / 2;
            }
        }
        still
    }

    /// Receives a message whose length is in a range.
    fn take(
        &mut self,
        from: u32,
        tag: u32,
        lengths: RangeInclusive<usize>,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        self.under_way.finished(tag);
        let inbox = self.inbox(self.rank, from)?;
        let mut mail = self.wait(inbox, &mut std::iter::once(from), tag)?;
        let queue = mail.queues.get_mut(&from);
        let next = queue.and_then(|queue| {
            let place = queue.next(tag)?;
            queue.messages.remove(place)
        });
        drop(mail);
        let Some((_, message)) = next else {
            return Err(TransportError::Broken {
                rank: from,
                reason: "its message was lost".to_owned(),
            });
        };
        let found = message.floats().len();
        if !lengths.contains(&found) {
            return Err(TransportError::Length {
                from,
                found,
                expected: *lengths.end(),
            });
        }
        take(message.floats());
        if let Message::Own(memory) = message
            && let Some(queue) = lock(&inbox.mail).queues.get_mut(&from)
        {
            queue.keep(memory);
        }
        Ok(())
    }

    fn check_aborted(&self) -> Result<(), TransportError> {
        if !self.hub.aborted.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = lock(&self.hub.failure).clone();
        Err(TransportError::Aborted(failure.unwrap_or_else(|| {
            Failure {
                rank: self.rank,
                instruction: "an unknown instruction".to_owned(),
                reason: "another rank stopped".to_owned(),
            }
        })))
    }
}

impl Queue {
    /// Memory for a message.
    fn take(&mut self, floats: usize) -> Memory {
        let kept = self.free.pop_if(|memory| memory.fits(floats));
        kept.unwrap_or_default()
    }

    /// Keeps memory for later messages: that of expected messages, otherwise the single largest.
    fn keep(&mut self, memory: Memory) {
        let last = self.free.last().map_or(0, Memory::capacity);
        match memory {
            Memory::Part { .. } => self.free.push(memory),
            Memory::Own(_) if self.expects => {}
            Memory::Own(_) if last < memory.capacity() => self.free = vec![memory],
            Memory::Own(_) => {}
        }
    }

    /// Position of the oldest message with a tag.
    fn next(&self, tag: u32) -> Option<usize> {
        self.messages.iter().position(|(found, _)| *found == tag)
    }
}

impl Message {
    fn floats(&self) -> &[f32] {
        match self {
            Self::Own(memory) => memory.floats(),
            Self::Shared(floats) => floats,
        }
    }
}

impl Transport for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.hub.inboxes.len() as u32
    }

    fn expect(&mut self, to: u32, messages: usize, floats: usize) -> Result<(), TransportError> {
        let inbox = self.inbox(to, to)?;
        let memory = Memory::block(messages, floats).map_err(|error| TransportError::NoMemory {
            rank: to,
            messages,
            floats,
            reason: error.to_string(),
        })?;
        let mut mail = lock(&inbox.mail);
        let queue = mail.queues.entry(self.rank).or_default();
        queue.expects = messages > 0;
        queue.free = memory;
        drop(mail);
        self.sent_to.insert(to);
        Ok(())
    }

    fn send(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        fill: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), TransportError> {
        self.check_aborted()?;
        let inbox = self.inbox(to, to)?;
        let mut message = match lock(&inbox.mail).queues.get_mut(&self.rank) {
            Some(queue) => queue.take(floats),
            None => Memory::default(),
        };
        fill(message.hold(floats));
        self.post(to, tag, floats, Message::Own(message))
    }

    fn send_all(
        &mut self,
        to: &mut dyn Iterator<Item = u32>,
        tag: u32,
        floats: &[f32],
    ) -> Result<(), TransportError> {
        self.check_aborted()?;
        let mut message = std::mem::take(&mut self.shared);
        match Arc::get_mut(&mut message) {
            Some(memory) => {
                memory.clear();
                memory.reserve_exact(floats.len());
                memory.extend_from_slice(floats);
            }
            // Some receiver has not read the last message yet.
            None => message = Arc::new(floats.to_vec()),
        }
        self.shared = Arc::clone(&message);
        for rank in to {
            let message = Message::Shared(Arc::clone(&message));
            self.post(rank, tag, floats.len(), message)?;
        }
        Ok(())
    }

    fn wait_for(
        &mut self,
        from: &mut dyn Iterator<Item = u32>,
        tag: u32,
    ) -> Result<(), TransportError> {
        self.under_way.finished(tag);
        let inbox = self.inbox(self.rank, self.rank)?;
        self.wait(inbox, from, tag).map(drop)
    }

    fn recv(
        &mut self,
        from: u32,
        tag: u32,
        floats: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        self.take(from, tag, floats..=floats, take)
    }

    fn recv_up_to(
        &mut self,
        from: u32,
        tag: u32,
        most: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        self.take(from, tag, 0..=most, take)
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    fn memory_bytes(&self) -> u64 {
        let own = |(_, message): &(u32, Message)| match message {
            Message::Own(memory) => memory.capacity(),
            Message::Shared(_) => 0,
        };
        let (mut expected, mut others) = (0, 0);
        for &to in &self.sent_to {
            let mail = lock(&self.hub.inboxes[to as usize].mail);
            if let Some(queue) = mail.queues.get(&self.rank) {
                let free = queue.free.iter().map(Memory::capacity);
                let kept: usize = queue.messages.iter().map(own).chain(free).sum();
                let of_queue = if queue.expects {
                    &mut expected
                } else {
                    &mut others
                };
                *of_queue += kept;
            }
        }
        let floats = expected + others.max(self.under_way.most) + self.shared.capacity();
        4 * floats as u64
    }

    fn abort(&mut self, failure: Failure) {
        lock(&self.hub.failure).get_or_insert(failure);
        self.hub.aborted.store(true, Ordering::Release);
        for inbox in &self.hub.inboxes {
            // Whoever checked the flag before it was set is waiting once the lock is free.
            drop(lock(&inbox.mail));
            inbox.complete.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
