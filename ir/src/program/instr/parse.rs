//! Reads instructions from listings.

use super::{
    AddRows, AllReduce, AskRows, Batches, CacheRows, Chunks, Densify, DrawEdges, FetchRows,
    HaloExchange, HaloReduce, Instr, Lag, Launch, Loss, MatMul, Metrics, Move, Numbers, PushRows,
    PutRows, Redistribute, Remember, Repeat, Sample, ServeRows, Sets, ShareLevels, Shift,
    SparseDropout, SparseMatMul, StageMessage, Transfer,
};
use crate::program::text::{Reader, TextError};

impl Instr {
    /// Reads an instruction, behind its place in the list if that is written.
    pub(in crate::program) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        if from.at_number() {
            from.advance();
        }
        let name = from.word("an instruction")?;
        if from.at_numbered("k") {
            return Launch::parse(from, name).map(Self::Launch);
        }
        Ok(match name {
            "gemm" => Self::MatMul(MatMul::parse(from)?),
            "sparse-gemm" => Self::SparseMatMul(SparseMatMul::parse(from)?),
            "sparse-dropout" => Self::SparseDropout(SparseDropout::parse(from)?),
            "densify" => Self::Densify(Densify::parse(from)?),
            "halo-exchange" => Self::HaloExchange(HaloExchange::parse(from)?),
            "halo-reduce" => Self::HaloReduce(HaloReduce::parse(from)?),
            "all-reduce" => Self::AllReduce(AllReduce::parse(from)?),
            "redistribute" => Self::Redistribute(Redistribute::parse(from)?),
            "begin" => Self::Begin(Transfer::parse(from)?),
            "finish" => Self::Finish(Transfer::parse(from)?),
            "loss" => Self::Loss(Loss::parse(from)?),
            "metrics" => Self::Metrics(Metrics::parse(from)?),
            "repeat" => Self::Repeat(Repeat::parse(from)?),
            "chunks" => Self::Chunks(Chunks::parse(from)?),
            "batches" => Self::Batches(Batches::parse(from)?),
            "lag" => Self::Lag(Lag::parse(from)?),
            "sets" => Self::Sets(Sets::parse(from)?),
            "shift" => Self::Shift(Shift::parse(from)?),
            "sample" => Self::Sample(Sample {}),
            "numbers" => Self::Numbers(Numbers::parse(from)?),
            "fetch-rows" => Self::FetchRows(FetchRows::parse(from)?),
            "add-rows" => Self::AddRows(AddRows::parse(from)?),
            "draw-edges" => Self::DrawEdges(DrawEdges::parse(from)?),
            "ask-rows" => Self::AskRows(AskRows::parse(from)?),
            "push-rows" => Self::PushRows(PushRows::parse(from)?),
            "put-rows" => Self::PutRows(PutRows::parse(from)?),
            "serve-rows" => Self::ServeRows(ServeRows::parse(from)?),
            "cache-rows" => Self::CacheRows(CacheRows::parse(from)?),
            "share-levels" => Self::ShareLevels(ShareLevels::parse(from)?),
            "send" => Self::Send(StageMessage::parse(from)?),
            "receive" => Self::Receive(StageMessage::parse(from)?),
            "fetch" | "store" => Self::Move(Move::parse(from)?),
            "remember" => Self::Remember(Remember::parse(from)?),
            _ => {
                return Err(
                    from.wrong_before("an instruction, such as gemm, halo-exchange or spmm k0")
                );
            }
        })
    }
}
