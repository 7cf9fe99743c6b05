//! The instructions of a program.

mod collective;
mod copies;
mod launch;
mod loops;
mod loss;
mod product;
mod sparse;

pub use collective::{AllReduce, HaloExchange, HaloReduce, Redistribute};
pub use copies::{Move, Remember};
pub use launch::{Launch, ScalarRef};
pub use loops::{Chunks, Repeat};
pub use loss::{Loss, Metrics};
pub use product::{MatMul, Product};
pub use sparse::{Densify, SparseDropout, SparseMatMul};

use super::{StageMessage, Transfer};
use serde::{Deserialize, Serialize};

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instr {
    /// Runs a generated kernel.
    Launch(Launch),
    /// Dense product: `out = a . b` (or a transposed form). `rows` is the extent of `a`'s
    /// rows; `inner` the summed size of `Nn` and `Nt`; for `Tn`, `a` is `rows x inner`
    /// and `out` is `inner x columns`.
    MatMul(MatMul),
    /// Product with the sparse input features `x`: `out = x . b` (`Nn`) or `x^T . b` (`Tn`).
    /// Whether `x` is own rows or own columns is said by the extent of its values, here and below.
    SparseMatMul(SparseMatMul),
    /// Dropout of the sparse input features' values.
    SparseDropout(SparseDropout),
    /// Writes sparse feature values as a dense matrix.
    Densify(Densify),
    /// Sends own rows to the ranks that read them; fills the halo rows.
    HaloExchange(HaloExchange),
    /// Sends halo rows to their owners, which add them to their own in rank order.
    HaloReduce(HaloReduce),
    /// Sums buffers over all ranks, in rank order, as one message.
    AllReduce(AllReduce),
    /// Moves a tensor from one layout over the ranks to another.
    Redistribute(Redistribute),
    /// The first half of a communication: packs and sends, and waits for nobody.
    Begin(Transfer),
    /// The second half: waits for what the others sent, and unpacks it.
    Finish(Transfer),
    /// The rank's share of the loss, and the derivative by the logits.
    Loss(Loss),
    /// What an evaluation finds, [`METRICS`] floats: correct and all vertices of the training,
    /// validation and test set, then the sum of the validation losses and how many they are.
    Metrics(Metrics),
    /// A loop.
    Repeat(Repeat),
    /// Runs the body for every chunk of the epoch's order: whatever runs over own rows, local rows or
    /// the edges into own rows, and whatever is exchanged of them, is restricted to the vertices of the
    /// chunk, halo vertices included. Neither nested nor around or inside of a [`Instr::Repeat`]; the
    /// body has no [`Product::Tn`], no reduction over rows, no [`Instr::AllReduce`] and no
    /// [`Instr::Begin`].
    Chunks(Chunks),
    /// Sends rows to another stage, and waits for nobody.
    Send(StageMessage),
    /// Waits for rows of another stage.
    Receive(StageMessage),
    /// Copies a slot between the memory of the rank and that of its host, of which one buffer lies in
    /// each: the rows that both have, own vertices first, or those of a chunk.
    Move(Move),
    /// Keeps rows for later epochs, in every epoch that is a multiple of [`Pipeline::interval`]: copies
    /// those of the chunk at hand (all outside of [`Instr::Chunks`]), halo rows included where both have them.
    Remember(Remember),
}
