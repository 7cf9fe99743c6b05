//! Communications that others run in between.

use super::Instr;
use crate::graph::op::Redistribute;
use crate::program::instr;
use serde::{Deserialize, Serialize};

/// A communication in two halves, [`Instr::Begin`] and [`Instr::Finish`]. Both stand in the same
/// list, in this order, and between them nothing writes what the communication reads, and nothing
/// touches what it writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Which messages are its own: every transfer of a program has another tag, the same on all
    /// ranks and never [`Transfer::WHOLE`].
    pub tag: u32,
    /// What has halves: a communication, or a move between a rank and its host.
    pub what: Box<Instr>,
}

impl Transfer {
    /// The tag of the messages of communications that are one instruction.
    pub const WHOLE: u32 = 0;
}

impl Instr {
    /// Whether the instruction may be cut into halves: what communicates, and what moves rows between a
    /// rank and its host.
    pub fn has_halves(&self) -> bool {
        matches!(self, Self::Move(_)) || self.communicates()
    }

    /// Whether the instruction sends and receives, and is not one half of such a one.
    pub fn communicates(&self) -> bool {
        match self {
            Self::HaloExchange(_) | Self::HaloReduce(_) | Self::AllReduce(_) => true,
            Self::Redistribute(instr::Redistribute { how, .. }) => *how != Redistribute::Own,
            _ => false,
        }
    }
}
