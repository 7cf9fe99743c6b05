//! A transport that reports every message, to count or record messages or to make one fail.

use super::{Transport, TransportError};
use crate::error::Failure;

/// What a rank is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Send floats to rank `to`.
    Send {
        /// The receiver.
        to: u32,
        /// Length of the message.
        floats: usize,
    },
    /// Announce that floats from rank `from` will be received.
    Await {
        /// The sender.
        from: u32,
        /// Length of the message.
        floats: usize,
    },
    /// Receive floats from rank `from`.
    Receive {
        /// The sender.
        from: u32,
        /// Length of the message, or the most that it may have.
        floats: usize,
    },
}

/// Called before every message; the transport returns its error.
pub type Watch = Box<dyn FnMut(Call) -> Result<(), TransportError> + Send>;

/// One rank's end of another transport, watched.
pub struct Watched<T> {
    inner: T,
    watch: Watch,
}

impl<T: Transport> Watched<T> {
    /// Watches one end of a transport. A message to several ranks is sent, and reported, as one
    /// message per rank.
    pub fn new(inner: T, watch: Watch) -> Self {
        Self { inner, watch }
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn ranks(&self) -> u32 {
        self.inner.ranks()
    }

    fn expect(&mut self, to: u32, messages: usize, floats: usize) -> Result<(), TransportError> {
        self.inner.expect(to, messages, floats)
    }

    fn send(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        fill: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), TransportError> {
        (self.watch)(Call::Send { to, floats })?;
        self.inner.send(to, tag, floats, fill)
    }

    fn awaits(&mut self, from: u32, tag: u32, floats: usize) -> Result<(), TransportError> {
        (self.watch)(Call::Await { from, floats })?;
        self.inner.awaits(from, tag, floats)
    }

    fn recv(
        &mut self,
        from: u32,
        tag: u32,
        floats: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        (self.watch)(Call::Receive { from, floats })?;
        self.inner.recv(from, tag, floats, take)
    }

    fn recv_up_to(
        &mut self,
        from: u32,
        tag: u32,
        most: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError> {
        let floats = most;
        (self.watch)(Call::Receive { from, floats })?;
        self.inner.recv_up_to(from, tag, most, take)
    }

    fn progress(&mut self) -> Result<(), TransportError> {
        self.inner.progress()
    }

    fn bytes_sent(&self) -> u64 {
        self.inner.bytes_sent()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    fn abort(&mut self, failure: Failure) {
        self.inner.abort(failure);
    }
}
