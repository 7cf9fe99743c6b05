//! Messages between ranks.

pub mod mpi;
pub mod threads;
pub mod watched;

use crate::error::Failure;
use gnnc_ir::words::spelling::counted;

/// One rank's end of the connections to all other ranks.
///
/// Messages are floats with a tag. Between two ranks, messages with the same tag arrive in the
/// order sent, and do not wait for messages with other tags. Sends never wait for the receiver.
pub trait Transport: Send {
    /// The rank at this end.
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn ranks(&self) -> u32;

    /// Announces that up to `messages` messages of up to `floats` floats each may be in flight to
    /// rank `to` at once. Transports that buffer messages allocate memory for all of them now.
    ///
    /// # Errors
    /// No such rank, or no memory.
    fn expect(&mut self, _to: u32, _messages: usize, _floats: usize) -> Result<(), TransportError> {
        Ok(())
    }

    /// Sends `floats` floats to rank `to`; `fill` writes all of them.
    ///
    /// # Errors
    /// No such rank, or another rank has failed.
    fn send(
        &mut self,
        to: u32,
        tag: u32,
        floats: usize,
        fill: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), TransportError>;

    /// Sends the same floats to several ranks.
    ///
    /// # Errors
    /// As [`Transport::send`].
    fn send_all(
        &mut self,
        to: &mut dyn Iterator<Item = u32>,
        tag: u32,
        floats: &[f32],
    ) -> Result<(), TransportError> {
        for rank in to {
            self.send(rank, tag, floats.len(), &mut |message| {
                message.copy_from_slice(floats)
            })?;
        }
        Ok(())
    }

    /// Announces that the next message from rank `from` with this tag has so many floats and will be received. Several
    /// may be announced; they arrive in the same order. Transports that gain nothing from it return at once.
    ///
    /// # Errors
    /// As [`Transport::recv`].
    fn awaits(&mut self, _from: u32, _tag: u32, _floats: usize) -> Result<(), TransportError> {
        Ok(())
    }

    /// Waits until a message with this tag from each of the ranks can be received immediately.
    /// Transports that gain nothing from this return at once.
    ///
    /// # Errors
    /// As [`Transport::recv`].
    fn wait_for(
        &mut self,
        _from: &mut dyn Iterator<Item = u32>,
        _tag: u32,
    ) -> Result<(), TransportError> {
        Ok(())
    }

    /// Receives the next message from rank `from` with this tag, which must have `floats` floats;
    /// `take` reads them.
    ///
    /// # Errors
    /// No such rank, a message of a different length, or another rank has failed.
    fn recv(
        &mut self,
        from: u32,
        tag: u32,
        floats: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError>;

    /// Receives the next message from rank `from` with this tag, which has at most `most` floats;
    /// `take` reads them.
    ///
    /// # Errors
    /// As [`Transport::recv`].
    fn recv_up_to(
        &mut self,
        from: u32,
        tag: u32,
        most: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<(), TransportError>;

    /// Lets messages that are under way move on, between two instructions. Transports whose messages need no help return
    /// at once.
    ///
    /// # Errors
    /// As [`Transport::recv`].
    fn progress(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Payload bytes sent from this end so far.
    fn bytes_sent(&self) -> u64;

    /// Bytes of memory held for messages sent from this end.
    fn memory_bytes(&self) -> u64;

    /// Tells all ranks that this one has failed: from now on their sends and receives return an
    /// error. All ranks report the first failure.
    fn abort(&mut self, failure: Failure);
}

/// Why a message could not be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// There is no such rank.
    #[error("there is no rank {rank} among {}", counted(ranks, "rank"))]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// A message has the wrong length: the ranks run different programs.
    #[error("a message from rank {from} has {found} floats, expected {expected}")]
    Length {
        /// The sender.
        from: u32,
        /// Its length.
        found: usize,
        /// The length expected.
        expected: usize,
    },
    /// A rank failed.
    #[error(transparent)]
    Aborted(Failure),
    /// A process is gone.
    #[error("the process of rank {rank} on {host} {how}")]
    Gone {
        /// The first rank of the process.
        rank: u32,
        /// Its host.
        host: String,
        /// What is known of it.
        how: String,
    },
    /// A call of the system's library for messages failed.
    #[error("{0}")]
    Failed(String),
    /// The system refused memory for messages.
    #[error(
        "no memory for {} of {} each to rank {rank}: {reason}; use more workers or fewer hidden columns",
        counted(messages, "message"),
        counted(floats, "number")
    )]
    NoMemory {
        /// The receiver.
        rank: u32,
        /// Most messages in flight.
        messages: usize,
        /// Floats of the longest.
        floats: usize,
        /// The system's answer.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection to rank {rank} broke: {reason}")]
    Broken {
        /// The other rank.
        rank: u32,
        /// The system's answer.
        reason: String,
    },
}
