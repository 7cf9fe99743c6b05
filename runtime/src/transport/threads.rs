//! Ranks that are threads of one process.

use super::{Transport, TransportError};
use crate::error::Failure;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A rank's end of the connections between threads.
pub struct Threads {
    hub: Arc<Hub>,
    rank: u32,
    bytes: u64,
}

/// What all ends share.
struct Hub {
    ranks: u32,
    /// One for each sender and receiver, by `sender * ranks + receiver`.
    links: Vec<Link>,
    aborted: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

#[derive(Default)]
struct Link {
    queues: Mutex<Queues>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queues {
    /// Messages under way, oldest first.
    messages: VecDeque<Vec<f32>>,
    /// Memory of the longest message received, for the next one. Only one is kept, so that
    /// memory does not depend on how far a sender got ahead of its receiver.
    free: Vec<f32>,
}

impl Threads {
    /// The ends of all ranks.
    pub fn connect(ranks: u32) -> Vec<Self> {
        let links = (0..u64::from(ranks) * u64::from(ranks))
            .map(|_| Link::default())
            .collect();
        let hub = Arc::new(Hub {
            ranks,
            links,
            aborted: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        (0..ranks)
            .map(|rank| Self {
                hub: Arc::clone(&hub),
                rank,
                bytes: 0,
            })
            .collect()
    }

    fn link(&self, other: u32, from: u32, to: u32) -> Result<&Link, TransportError> {
        let ranks = self.hub.ranks;
        let link = self
            .hub
            .links
            .get(from as usize * ranks as usize + to as usize);
        link.filter(|_| other < ranks)
            .ok_or(TransportError::NoSuchRank { rank: other, ranks })
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

impl Transport for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.hub.ranks
    }

    fn send(
        &mut self,
        to: u32,
        floats: usize,
        fill: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), TransportError> {
        self.check_aborted()?;
        let link = self.link(to, self.rank, to)?;
        let mut message = std::mem::take(&mut lock(&link.queues).free);
        // Exactly: the next message is as long as one before it, not longer and longer.
        message.reserve_exact(floats.saturating_sub(message.len()));
        message.resize(floats, 0.0);
        fill(&mut message);
        lock(&link.queues).messages.push_back(message);
        link.arrived.notify_one();
        self.bytes += floats as u64 * 4;
        Ok(())
    }

    fn recv(
        &mut self,
        from: u32,
        floats: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        let link = self.link(from, from, self.rank)?;
        let mut queues = lock(&link.queues);
        let message = loop {
            self.check_aborted()?;
            match queues.messages.pop_front() {
                Some(message) => break message,
                None => {
                    queues = link
                        .arrived
                        .wait(queues)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        };
        drop(queues);
        if message.len() != floats {
            return Err(TransportError::Length {
                from,
                found: message.len(),
                expected: floats,
            });
        }
        take(&message);
        let mut queues = lock(&link.queues);
        if message.capacity() > queues.free.capacity() {
            queues.free = message;
        }
        Ok(())
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    fn memory_bytes(&self) -> u64 {
        let first = self.rank as usize * self.hub.ranks as usize;
        let links = &self.hub.links[first..first + self.hub.ranks as usize];
        let kept = |link: &Link| {
            let queues = lock(&link.queues);
            let floats = |m: &Vec<f32>| 4 * m.capacity() as u64;
            queues
                .messages
                .iter()
                .chain([&queues.free])
                .map(floats)
                .sum::<u64>()
        };
        links.iter().map(kept).sum()
    }

    fn abort(&mut self, failure: Failure) {
        lock(&self.hub.failure).get_or_insert(failure);
        self.hub.aborted.store(true, Ordering::Release);
        for link in &self.hub.links {
            // Whoever checked the flag before it was set is waiting once the lock is free.
            drop(lock(&link.queues));
            link.arrived.notify_all();
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
            left.send(1, n, &mut |message| message.fill(n as f32))
                .unwrap();
        }
        let mut seen = Vec::new();
        for n in 0..3 {
            right
                .recv(0, n, &mut |message| seen.extend_from_slice(message))
                .unwrap();
        }
        assert_eq!(seen, [1.0, 2.0, 2.0]);
        assert_eq!((left.bytes_sent(), right.bytes_sent()), (12, 0));
        assert_eq!((left.memory_bytes(), right.memory_bytes()), (8, 0));
        left.send(1, 1, &mut |_| {}).unwrap();
        let wrong = right.recv(0, 2, &mut |_| {});
        assert_eq!(
            wrong,
            Err(TransportError::Length {
                from: 0,
                found: 1,
                expected: 2
            })
        );
        assert!(matches!(
            left.send(2, 1, &mut |_| {}),
            Err(TransportError::NoSuchRank { rank: 2, ranks: 2 })
        ));
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
                .map(|end| scope.spawn(|| end.recv(2, 1, &mut |_| {})))
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
            ends[0].send(1, 1, &mut |_| {}),
            Err(TransportError::Aborted(failure))
        );
    }
}
