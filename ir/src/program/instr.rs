//! The instructions of a program.
//!
//! Each instruction is a struct in one of the files below, which answers beside its fields whatever passes, checks,
//! costs and listings ask of any instruction (`Instruction`). To add one: its struct there, a variant of [`Instr`], an arm
//! of `each!`, and the places that emit and run it.

#[macro_use]
mod answers;
mod collective;
mod copies;
mod draw;
mod encoded;
mod fetch;
mod halo;
mod instruction;
mod launch;
mod lazy;
mod loops;
mod loss;
mod operand;
mod parse;
mod product;
mod sample;
mod sets;
mod share;
mod sparse;
mod stage;
mod together;
mod transfer;

pub use collective::{AllReduce, Redistribute};
pub use copies::{Move, Remember};
pub use draw::DrawEdges;
pub use encoded::Encoded;
pub use fetch::{AskRows, CacheRows, ServeRows};
pub use halo::{HaloExchange, HaloReduce};
pub(in crate::program) use instruction::Instruction;
pub use launch::{Launch, ScalarRef};
pub use lazy::{PushRows, PutRows};
pub use loops::{Batches, Chunks, Lag, MOST_LAG, Repeat};
pub use loss::{Labels, Loss, Metrics};
pub use operand::{Operand, Use};
pub use product::{MatMul, Product};
pub use sample::{AddRows, DrawnBuffer, FetchRows, Numbers, Sample};
pub use sets::{Sets, Shift};
pub use share::ShareLevels;
pub use sparse::{Densify, SparseDropout, SparseMatMul};
pub use stage::{StageEnd, StageMessage};
pub use together::Collective;
pub use transfer::Transfer;

use super::traffic::{Reads, Traffic};
use super::verify::{Check, Checked};
use super::work::{Counts, Terms, Work};
use super::{Capacity, Chunk, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instr {
    /// Runs a generated kernel.
    Launch(Launch),
    /// Dense product.
    MatMul(MatMul),
    /// Product with the sparse input features.
    SparseMatMul(SparseMatMul),
    /// Dropout of the sparse input features.
    SparseDropout(SparseDropout),
    /// Writes sparse features as a dense matrix.
    Densify(Densify),
    /// Fills halo rows from their owners.
    HaloExchange(HaloExchange),
    /// Adds halo rows to those of their owners.
    HaloReduce(HaloReduce),
    /// Sums buffers over all ranks.
    AllReduce(AllReduce),
    /// Moves a tensor from one layout over the ranks to another.
    Redistribute(Redistribute),
    /// The first half of a transfer: packs and sends, and waits for nobody.
    Begin(Transfer),
    /// The second half: waits for what the others sent, and unpacks it.
    Finish(Transfer),
    /// The loss and its derivative.
    Loss(Loss),
    /// The counts of an evaluation.
    Metrics(Metrics),
    /// A loop over iterations.
    Repeat(Repeat),
    /// A loop over chunks of vertices.
    Chunks(Chunks),
    /// A loop over the sampled batches of an epoch.
    Batches(Batches),
    /// Goes on with an earlier batch.
    Lag(Lag),
    /// A loop over the sets of a batch's seeds.
    Sets(Sets),
    /// Moves on with the model of a set.
    Shift(Shift),
    /// Draws the batch at hand.
    Sample(Sample),
    /// Writes numbers of the batch at hand.
    Numbers(Numbers),
    /// Copies rows of a level's vertices.
    FetchRows(FetchRows),
    /// Adds rows of a level to those of its vertices.
    AddRows(AddRows),
    /// Draws the edges into a level, those into other ranks' vertices by asking them.
    DrawEdges(DrawEdges),
    /// Tells other ranks which of their rows a batch needs.
    AskRows(AskRows),
    /// Fills rows of a level from their owners.
    ServeRows(ServeRows),
    /// Adds rows of a level to those of their owners.
    PushRows(PushRows),
    /// Copies rows of a level to those of its vertices.
    PutRows(PutRows),
    /// Fills the rows of others that a rank keeps.
    CacheRows(CacheRows),
    /// Gives all ranks the lower levels of each other's batch.
    ShareLevels(ShareLevels),
    /// Sends rows to another stage, and waits for nobody.
    Send(StageMessage),
    /// Waits for rows of another stage.
    Receive(StageMessage),
    /// Copies rows between a rank and its host.
    Move(Move),
    /// Keeps rows for later epochs.
    Remember(Remember),
}

/// Calls a method of [`Instruction`] on whatever instruction it is; halves of transfers and ends of stage messages are told
/// apart by a flag.
macro_rules! each {
    (
        $instr:expr, $one:ident => $call:expr;
        ($begins:ident, $transfer:ident) => $half:expr;
        ($sends:ident, $message:ident) => $end:expr
    ) => {
        match $instr {
            Instr::Launch($one) => $call,
            Instr::MatMul($one) => $call,
            Instr::SparseMatMul($one) => $call,
            Instr::SparseDropout($one) => $call,
            Instr::Densify($one) => $call,
            Instr::HaloExchange($one) => $call,
            Instr::HaloReduce($one) => $call,
            Instr::AllReduce($one) => $call,
            Instr::Redistribute($one) => $call,
            Instr::Loss($one) => $call,
            Instr::Metrics($one) => $call,
            Instr::Repeat($one) => $call,
            Instr::Chunks($one) => $call,
            Instr::Batches($one) => $call,
            Instr::Lag($one) => $call,
            Instr::Sets($one) => $call,
            Instr::Shift($one) => $call,
            Instr::Sample($one) => $call,
            Instr::Numbers($one) => $call,
            Instr::FetchRows($one) => $call,
            Instr::AddRows($one) => $call,
            Instr::DrawEdges($one) => $call,
            Instr::AskRows($one) => $call,
            Instr::ServeRows($one) => $call,
            Instr::PushRows($one) => $call,
            Instr::PutRows($one) => $call,
            Instr::CacheRows($one) => $call,
            Instr::ShareLevels($one) => $call,
            Instr::Move($one) => $call,
            Instr::Remember($one) => $call,
            Instr::Begin($transfer) => {
                let $begins = true;
                $half
            }
            Instr::Finish($transfer) => {
                let $begins = false;
                $half
            }
            Instr::Send($message) => {
                let $sends = true;
                $end
            }
            Instr::Receive($message) => {
                let $sends = false;
                $end
            }
        }
    };
}

impl Instr {
    /// The name that traces, reports and listings use; the halves of a transfer have that of the whole.
    pub fn name(&self, program: &Program) -> &'static str {
        each!(self, one => one.name(program);
            (_begins, transfer) => transfer.what.name(program);
            (sends, _message) => if sends { "send" } else { "receive" })
    }

    /// Visits what the instruction reads and writes, in the order in which it does; a loop has no operands of its own.
    #[inline]
    pub fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        each!(self, one => one.operands(visit);
            (_begins, transfer) => transfer.what.operands(visit);
            (sends, message) => message.operands(sends, visit));
    }

    /// Visits the buffers that the instruction reads, then those that it writes (`true`).
    pub fn each_access(&self, visit: &mut dyn FnMut(&Ref, bool)) {
        each!(self, one => one.each_access(visit);
            (_begins, transfer) => transfer.what.each_access(visit);
            (sends, message) => message.tensors.iter().for_each(|at| visit(at, !sends)));
    }

    /// The buffers that the instruction reads, then those that it writes.
    pub fn accesses(&self) -> (Vec<Ref>, Vec<Ref>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        self.operands(&mut |operand| {
            if operand.writes {
                writes.push(operand.at);
            } else {
                reads.push(operand.at);
            }
        });
        (reads, writes)
    }

    /// Visits every reference to a buffer, those inside of loops too, to change it.
    pub fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        each!(self, one => one.each_ref(visit);
            (_begins, transfer) => transfer.what.each_ref(visit);
            (_sends, message) => message.each_ref(visit));
    }

    /// What a loop runs; none if it is no loop.
    pub fn body(&self) -> Option<&[Instr]> {
        each!(self, one => one.body();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// What a loop runs, to change it; none if it is no loop.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Instr>> {
        each!(self, one => one.body_mut();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// The instruction that this is, or that it is one half of.
    pub fn whole(&self) -> &Instr {
        each!(self, _one => self;
            (_begins, transfer) => &transfer.what;
            (_sends, _message) => self)
    }

    /// The kernel that it launches, by itself or to finish a product.
    pub fn launch(&self) -> Option<&Launch> {
        each!(self, one => one.launch();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// The kernel that it launches, to change it.
    pub fn launch_mut(&mut self) -> Option<&mut Launch> {
        each!(self, one => one.launch_mut();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// The message between stages that it sends or receives.
    pub fn stage_end(&self) -> Option<StageEnd<'_>> {
        each!(self, _one => None;
            (_begins, _transfer) => None;
            (sends, message) => Some(StageEnd { message, sends }))
    }

    /// The labels that it compares logits with, if it does.
    pub fn labels(&self) -> Option<Labels> {
        each!(self, one => one.labels();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// The chunk of rows that it, or what it is half of, is restricted to.
    pub fn chunk(&self) -> Option<Chunk> {
        each!(self, one => one.chunk();
            (_begins, transfer) => transfer.what.chunk();
            (_sends, _message) => None)
    }

    /// Restricts an instruction that supports it, or what it is half of, to a chunk of rows.
    pub fn set_chunk(&mut self, to: Chunk) {
        each!(self, one => one.set_chunk(to);
            (_begins, transfer) => transfer.what.set_chunk(to);
            (_sends, _message) => ());
    }

    /// Whether the instruction sends and receives, and is not one half of such a one.
    pub fn communicates(&self) -> bool {
        each!(self, one => one.communicates();
            (_begins, _transfer) => false;
            (_sends, _message) => false)
    }

    /// What all ranks of a stage do together for it; none if it is one half of that.
    pub fn collective(&self) -> Option<Collective<'_>> {
        each!(self, one => one.collective();
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// How the rows of the instruction, or of what it is half of, travel, if they are encoded.
    pub fn encoded(&self) -> Option<Encoded> {
        each!(self, one => one.encoded();
            (_begins, transfer) => transfer.what.encoded();
            (_sends, message) => message.encoded)
    }

    /// Lets the rows of an instruction travel so, if it sends rows that may.
    pub fn encode(&mut self, so: Encoded) {
        each!(self, one => one.encode(so);
            (_begins, transfer) => transfer.what.encode(so);
            (_sends, message) => message.encoded = Some(so));
    }

    /// Whether the instruction may be cut into halves: what communicates, and what moves rows between a
    /// rank and its host. Rows of a cache are named and sent in one.
    pub fn has_halves(&self) -> bool {
        let one = matches!(self, Self::CacheRows(_));
        matches!(self, Self::Move(_)) || self.communicates() && !one
    }

    pub(in crate::program) fn check(&self, check: &Check) -> Checked {
        each!(self, one => one.check(check);
            (_begins, transfer) => transfer.what.check(check);
            (_sends, message) => message.check(check))
    }

    pub(in crate::program) fn scratch_floats(&self, program: &Program, capacity: &Capacity) -> u64 {
        each!(self, one => one.scratch_floats(program, capacity);
            (_begins, _transfer) => 0;
            (_sends, _message) => 0)
    }

    pub(in crate::program) fn fits_chunks(&self, program: &Program) -> bool {
        each!(self, one => one.fits_chunks(program);
            (_begins, _transfer) => false;
            (_sends, message) => message.fits_chunks(program))
    }

    pub(in crate::program) fn over_whole_graph(&self) -> bool {
        each!(self, one => one.over_whole_graph();
            (_begins, transfer) => transfer.what.over_whole_graph();
            (_sends, _message) => false)
    }

    pub(in crate::program) fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        each!(self, one => one.work(counts, sizes);
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    pub(in crate::program) fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        each!(self, one => one.demand(terms, program, sizes);
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// Adds the bytes that all ranks send for it; those of a transfer count where it begins.
    pub(in crate::program) fn traffic(
        &self,
        program: &Program,
        reads: &Reads,
        sizes: &[RankSizes],
        sum: &mut Traffic,
    ) {
        each!(self, one => one.traffic(program, reads, sizes, sum);
            (begins, transfer) => if begins { transfer.what.traffic(program, reads, sizes, sum) };
            (sends, message) => if sends { message.traffic(program, sizes, sum) });
    }

    pub(in crate::program) fn strip_bytes(&self, program: &Program) -> Option<u64> {
        each!(self, one => one.strip_bytes(program);
            (_begins, _transfer) => None;
            (_sends, _message) => None)
    }

    /// The line of the instruction in a listing; of a loop, the first one.
    pub(in crate::program) fn print(&self, program: &Program) -> String {
        each!(self, one => one.print(program);
            (begins, transfer) => transfer.print(begins, program);
            (sends, message) => message.print(sends))
    }
}
