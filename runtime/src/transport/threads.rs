//! Ranks that are threads of one process.

use super::{Transport, TransportError};
use crate::error::Failure;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A rank's end of the connections between threads.
pub struct Threads {
    hub: Arc<Hub>,
    rank: u32,
    bytes: u64,
    /// Ranks that something was sent to.
    sent_to: BTreeSet<u32>,
    /// The last message to several ranks, whose memory the next one takes.
    shared: Arc<Vec<f32>>,
}

/// What all ends share.
struct Hub {
    /// One for each rank: what was sent to it.
    inboxes: Vec<Inbox>,
    aborted: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

#[derive(Default)]
struct Inbox {
    mail: Mutex<Mail>,
    complete: Condvar,
}

#[derive(Default)]
struct Mail {
    /// By sender; of those only that have sent something.
    queues: BTreeMap<u32, Queue>,
    /// Senders without whose messages the receiver need not be woken.
    missing: BTreeSet<u32>,
    /// The tag of those messages.
    tag: u32,
}

#[derive(Default)]
struct Queue {
    /// Messages under way with their tags, oldest first.
    messages: VecDeque<(u32, Message)>,
    /// Memory of the longest message received, for the next one. Only one is kept, so that
    /// memory does not depend on how far a sender got ahead of its receiver.
    free: Vec<f32>,
}

enum Message {
    /// For one receiver.
    Own(Vec<f32>),
    /// For several.
    Shared(Arc<Vec<f32>>),
}

impl Threads {
    /// The ends of all ranks.
    pub fn connect(ranks: u32) -> Vec<Self> {
        let hub = Arc::new(Hub {
            inboxes: (0..ranks).map(|_| Inbox::default()).collect(),
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

    /// Adds a message to a rank's mail, and wakes the rank if it waited for nothing else.
    fn post(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        message: Message,
    ) -> Result<(), TransportError> {
        let inbox = self.inbox(to, to)?;
        let mut mail = lock(&inbox.mail);
        let queue = mail.queues.entry(self.rank).or_default();
        queue.messages.push_back((tag, message));
        let wake = mail.tag == tag && mail.missing.remove(&self.rank) && mail.missing.is_empty();
        drop(mail);
        if wake {
            inbox.complete.notify_one();
        }
        self.sent_to.insert(to);
        self.bytes += floats as u64 * 4;
        Ok(())
    }

    /// Waits until a message of each sender with the tag is there, and sleeps once at most.
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
        loop {
            self.check_aborted()?;
            if guard.missing.is_empty() {
                return Ok(guard);
            }
            guard = inbox
                .complete
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
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
    /// The place of the oldest message with a tag.
    fn next(&self, tag: u32) -> Option<usize> {
        self.messages.iter().position(|(found, _)| *found == tag)
    }
}

impl Message {
    fn floats(&self) -> &[f32] {
        match self {
            Self::Own(floats) => floats,
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
            Some(queue) => std::mem::take(&mut queue.free),
            None => Vec::new(),
        };
        // Exactly: the next message is as long as one before it, not longer and longer.
        message.reserve_exact(floats.saturating_sub(message.len()));
        message.resize(floats, 0.0);
        fill(&mut message);
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
            // Somebody has not read the last one yet.
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
                reason: "its message is gone".to_owned(),
            });
        };
        let found = message.floats().len();
        if found != floats {
            return Err(TransportError::Length {
                from,
                found,
                expected: floats,
            });
        }
        take(message.floats());
        if let Message::Own(memory) = message
            && let Some(queue) = lock(&inbox.mail).queues.get_mut(&from)
            && memory.capacity() > queue.free.capacity()
        {
            queue.free = memory;
        }
        Ok(())
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    fn memory_bytes(&self) -> u64 {
        let own = |(_, message): &(u32, Message)| match message {
            Message::Own(floats) => floats.capacity(),
            Message::Shared(_) => 0,
        };
        let inboxes = self
            .sent_to
            .iter()
            .map(|&to| &self.hub.inboxes[to as usize]);
        let kept = inboxes.map(|inbox| {
            let mail = lock(&inbox.mail);
            mail.queues.get(&self.rank).map_or(0, |queue| {
                queue.messages.iter().map(own).sum::<usize>() + queue.free.capacity()
            })
        });
        4 * (kept.sum::<usize>() + self.shared.capacity()) as u64
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
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_are_counted() {
        let mut ends = Threads::connect(2);
        let mut right = ends.pop().unwrap();
        let mut left = ends.pop().unwrap();
        for n in 0..3 {
            left.send(1, 0, n, &mut |message| message.fill(n as f32))
                .unwrap();
        }
        let mut seen = Vec::new();
        for n in 0..3 {
            right
                .recv(0, 0, n, &mut |message| seen.extend_from_slice(message))
                .unwrap();
        }
        assert_eq!(seen, [1.0, 2.0, 2.0]);
        assert_eq!((left.bytes_sent(), right.bytes_sent()), (12, 0));
        assert_eq!((left.memory_bytes(), right.memory_bytes()), (8, 0));
        left.send(1, 0, 1, &mut |_| {}).unwrap();
        let wrong = right.recv(0, 0, 2, &mut |_| {});
        assert_eq!(
            wrong,
            Err(TransportError::Length {
                from: 0,
                found: 1,
                expected: 2
            })
        );
        assert!(matches!(
            left.send(2, 0, 1, &mut |_| {}),
            Err(TransportError::NoSuchRank { rank: 2, ranks: 2 })
        ));
    }

    #[test]
    fn tags_keep_messages_apart() {
        let mut ends = Threads::connect(2);
        let (mut right, mut left) = (ends.pop().unwrap(), ends.pop().unwrap());
        for (tag, value) in [(7, 1.0), (0, 2.0), (7, 3.0), (5, 4.0)] {
            left.send(1, tag, 1, &mut |message| message.fill(value))
                .unwrap();
        }
        let mut read = |tag| {
            let mut seen = 0.0;
            right
                .recv(0, tag, 1, &mut |message| seen = message[0])
                .unwrap();
            seen
        };
        assert_eq!([5, 7, 0, 7].map(&mut read), [4.0, 1.0, 2.0, 3.0]);
        // A message of another tag wakes nobody.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(9));
            left.send(1, 8, 1, &mut |message| message.fill(5.0))
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            left.send(1, 9, 1, &mut |message| message.fill(6.0))
                .unwrap();
            assert_eq!(reader.join().unwrap(), 6.0);
        });
        assert_eq!(read(8), 5.0);
    }

    #[test]
    fn one_message_goes_to_several_ranks() {
        let mut ends = Threads::connect(4);
        for _ in 0..3 {
            ends[1]
                .send_all(&mut [0, 2].into_iter(), 0, &[1.0, 2.0])
                .unwrap();
            for reader in [0, 2] {
                let mut seen = Vec::new();
                ends[reader]
                    .recv(1, 0, 2, &mut |message| seen.extend_from_slice(message))
                    .unwrap();
                assert_eq!(seen, [1.0, 2.0]);
            }
        }
        assert_eq!((ends[1].bytes_sent(), ends[1].memory_bytes()), (48, 8));
        assert!(ends[1].send_all(&mut [4].into_iter(), 0, &[1.0]).is_err());
    }

    #[test]
    fn a_rank_waits_until_all_have_sent() {
        let mut ends = Threads::connect(3);
        let mut reader = ends.remove(0);
        std::thread::scope(|scope| {
            for end in &mut ends {
                scope.spawn(|| {
                    for n in 0..200 {
                        end.send(0, 0, 1, &mut |message| message.fill(n as f32))
                            .unwrap();
                    }
                });
            }
            for n in 0..200 {
                reader.wait_for(&mut [1, 2].into_iter(), 0).unwrap();
                for sender in [2, 1] {
                    let queued = lock(&reader.hub.inboxes[0].mail).queues[&sender]
                        .messages
                        .len();
                    assert!(queued > 0, "message {n} of rank {sender}");
                    reader
                        .recv(sender, 0, 1, &mut |message| assert_eq!(message, [n as f32]))
                        .unwrap();
                }
            }
        });
    }

    #[test]
    fn a_failure_wakes_everyone() {
        let mut ends = Threads::connect(3);
        let failure = Failure {
            rank: 2,
            instruction: "step 0".to_owned(),
            reason: "lost".to_owned(),
        };
        let mut last = ends.pop().unwrap();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = ends
                .iter_mut()
                .map(|end| scope.spawn(|| end.recv(2, 0, 1, &mut |_| {})))
                .collect();
            last.abort(failure.clone());
            last.abort(Failure {
                rank: 1,
                ..failure.clone()
            });
            for rank in waiting {
                assert_eq!(
                    rank.join().unwrap(),
                    Err(TransportError::Aborted(failure.clone()))
                );
            }
        });
        assert_eq!(
            ends[0].send(1, 0, 1, &mut |_| {}),
            Err(TransportError::Aborted(failure))
        );
    }
}
