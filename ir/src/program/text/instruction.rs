//! Instructions, written and read.

use super::TextError;
use super::launch::{
    after, arrow, factor_and_result, launch, launch_text, matrix, matrix_at, optional, refs, words,
};
use super::parse::Reader;
use super::words::Text;
use crate::graph::op::{Loss, Redistribute, Site};
use crate::program::instr;
use crate::program::{
    BufferId, Chunk, Extent, Instr, Moved, Neighbour, Product, Program, Ref, Returned, Rule, Skip,
    StageMessage, Transfer,
};

/// The text of an instruction; of a loop, its first line.
pub(super) fn print(instr: &Instr, program: &Program) -> String {
    match instr {
        Instr::Launch(launch) => launch_text(launch, program),
        Instr::MatMul(instr::MatMul {
            product,
            a,
            b,
            out,
            rows,
            inner,
            columns,
            finish,
            chunk,
        }) => {
            let mut text = format!(
                "gemm {} {} . {} -> {}, {} x {inner} x {columns}",
                product.text(),
                matrix(a, program),
                matrix(b, program),
                matrix(out, program),
                rows.text(),
            );
            text += &after(", ", chunk.as_ref());
            if let Some(launch) = finish {
                text += &format!(", then {}", launch_text(launch, program));
            }
            text
        }
        Instr::SparseMatMul(instr::SparseMatMul {
            product,
            values,
            b,
            out,
            inner,
            columns,
        }) => format!(
            "sparse-gemm {} {} . {} -> {}, {inner} x {columns}",
            product.text(),
            values.text(),
            matrix(b, program),
            matrix(out, program)
        ),
        Instr::SparseDropout(instr::SparseDropout {
            values,
            out,
            p,
            site,
        }) => format!(
            "sparse-dropout {} -> {}, p {p:?}, site {}",
            values.text(),
            out.text(),
            site.text()
        ),
        Instr::Densify(instr::Densify { values, out }) => {
            format!("densify {} -> {}", values.text(), out.text())
        }
        Instr::HaloExchange(instr::HaloExchange { buffer, skip }) => {
            format!(
                "halo-exchange {}{}",
                buffer.text(),
                after(", ", skip.as_ref())
            )
        }
        Instr::HaloReduce(instr::HaloReduce { buffer, skip }) => {
            let mut text = format!("halo-reduce {}", buffer.text());
            if let Some(Returned { of, left }) = skip {
                text += &format!(", {}{}", of.text(), after(" left ", left.as_ref()));
            }
            text
        }
        Instr::AllReduce(instr::AllReduce { buffers }) => format!("all-reduce {}", words(buffers)),
        Instr::Redistribute(instr::Redistribute {
            how,
            from,
            to,
            heads,
            width,
            moved,
        }) => format!(
            "redistribute {} {} -> {}, {heads} x {width}, {}",
            how.text(),
            matrix(from, program),
            to.text(),
            moved.text()
        ),
        Instr::Begin(Transfer { tag, what }) => format!("begin {tag} {}", print(what, program)),
        Instr::Finish(Transfer { tag, what }) => format!("finish {tag} {}", print(what, program)),
        Instr::Loss(instr::Loss {
            loss,
            logits,
            out,
            grad,
            classes,
        }) => {
            let results = [
                after(" loss ", out.as_ref()),
                after(" grad ", grad.as_ref()),
            ];
            let (loss, logits) = (loss.text(), logits.text());
            format!(
                "loss {loss} {logits}, {classes} classes ->{}",
                results.concat()
            )
        }
        Instr::Metrics(instr::Metrics {
            loss,
            logits,
            out,
            classes,
        }) => {
            let (loss, logits) = (loss.text(), logits.text());
            format!(
                "metrics {loss} {logits}, {classes} classes -> {}",
                out.text()
            )
        }
        Instr::Repeat(instr::Repeat { count, reverse, .. }) => {
            format!("repeat {count}{}", order(*reverse))
        }
        Instr::Chunks(instr::Chunks { reverse, .. }) => format!("chunks{}", order(*reverse)),
        Instr::Send(StageMessage { with, tensors }) => {
            format!("send {} {}", with.text(), words(tensors))
        }
        Instr::Receive(StageMessage { with, tensors }) => {
            format!("receive {} {}", with.text(), words(tensors))
        }
        Instr::Move(instr::Move { from, to, chunk }) => {
            let name = instr.name(program);
            let chunk = after(", ", chunk.as_ref());
            format!("{name} {} -> {}{chunk}", from.text(), to.text())
        }
        Instr::Remember(instr::Remember { from, history }) => {
            format!("remember {} -> {}", from.text(), history.text())
        }
    }
}

fn order(reverse: bool) -> &'static str {
    if reverse { " reversed" } else { "" }
}

impl Text for Skip {
    fn print(&self, out: &mut String) {
        *out += &format!("skip {} copies {}", self.rule.text(), self.copies.text());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("skip")?;
        let rule = Rule::parse(from)?;
        from.expect("copies")?;
        let copies = Ref::parse(from)?;
        Ok(Self { rule, copies })
    }
}

impl Instr {
    /// Reads an instruction, behind its place in the list if that is written.
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        if from.at_number() {
            from.advance();
        }
        let name = from.word("an instruction")?;
        if from.at_numbered("k") {
            return launch(from, name).map(Self::Launch);
        }
        Ok(match name {
            "gemm" => gemm(from)?,
            "sparse-gemm" => {
                let product = Product::parse(from)?;
                let values = Ref::parse(from)?;
                let (b, out) = factor_and_result(from)?;
                from.expect(",")?;
                let inner = from.number()?;
                from.expect("x")?;
                Self::SparseMatMul(instr::SparseMatMul {
                    product,
                    values,
                    b,
                    out,
                    inner,
                    columns: from.number()?,
                })
            }
            "sparse-dropout" => {
                let (values, out) = (Ref::parse(from)?, arrow(from)?);
                from.expect(",")?;
                from.expect("p")?;
                let p = from.number()?;
                from.expect(",")?;
                from.expect("site")?;
                Self::SparseDropout(instr::SparseDropout {
                    values,
                    out,
                    p,
                    site: Site::parse(from)?,
                })
            }
            "densify" => Self::Densify(instr::Densify {
                values: Ref::parse(from)?,
                out: arrow(from)?,
            }),
            "halo-exchange" => Self::HaloExchange(instr::HaloExchange {
                buffer: Ref::parse(from)?,
                skip: optional(from, Skip::parse)?,
            }),
            "halo-reduce" => Self::HaloReduce(instr::HaloReduce {
                buffer: Ref::parse(from)?,
                skip: optional(from, |from| {
                    let of = Skip::parse(from)?;
                    let left = match from.skip("left") {
                        true => Some(Ref::parse(from)?),
                        false => None,
                    };
                    Ok(Returned { of, left })
                })?,
            }),
            "all-reduce" => {
                let mut buffers = Vec::new();
                while from.at_numbered("b") {
                    buffers.push(BufferId::parse(from)?);
                }
                Self::AllReduce(instr::AllReduce { buffers })
            }
            "redistribute" => {
                let how = Redistribute::parse(from)?;
                let source = matrix_at(from)?;
                let to = arrow(from)?;
                from.expect(",")?;
                let heads = from.number()?;
                from.expect("x")?;
                let width = from.number()?;
                from.expect(",")?;
                Self::Redistribute(instr::Redistribute {
                    how,
                    from: source,
                    to,
                    heads,
                    width,
                    moved: Moved::parse(from)?,
                })
            }
            "begin" => Self::Begin(transfer(from)?),
            "finish" => Self::Finish(transfer(from)?),
            "loss" => {
                let (loss, logits, classes) = scored(from)?;
                from.expect("->")?;
                let mut result = |name| match from.skip(name) {
                    true => Ref::parse(from).map(Some),
                    false => Ok(None),
                };
                Self::Loss(instr::Loss {
                    loss,
                    logits,
                    out: result("loss")?,
                    grad: result("grad")?,
                    classes,
                })
            }
            "metrics" => {
                let (loss, logits, classes) = scored(from)?;
                Self::Metrics(instr::Metrics {
                    loss,
                    logits,
                    out: arrow(from)?,
                    classes,
                })
            }
            "repeat" => Self::Repeat(instr::Repeat {
                count: from.number()?,
                reverse: from.skip("reversed"),
                body: block(from)?,
            }),
            "chunks" => Self::Chunks(instr::Chunks {
                reverse: from.skip("reversed"),
                body: block(from)?,
            }),
            "send" => Self::Send(stage_message(from)?),
            "receive" => Self::Receive(stage_message(from)?),
            "fetch" | "store" => Self::Move(instr::Move {
                from: Ref::parse(from)?,
                to: arrow(from)?,
                chunk: optional(from, Chunk::parse)?,
            }),
            "remember" => Self::Remember(instr::Remember {
                from: Ref::parse(from)?,
                history: arrow(from)?,
            }),
            _ => {
                return Err(
                    from.wrong_before("an instruction, such as gemm, halo-exchange or spmm k0")
                );
            }
        })
    }
}

fn block(from: &mut Reader<'_>) -> Result<Vec<Instr>, TextError> {
    from.expect("{")?;
    let body = from.deeper(Reader::instructions)?;
    from.expect("}")?;
    Ok(body)
}

fn transfer(from: &mut Reader<'_>) -> Result<Transfer, TextError> {
    let tag = from.number()?;
    let what = Box::new(from.deeper(Instr::parse)?);
    Ok(Transfer { tag, what })
}

fn stage_message(from: &mut Reader<'_>) -> Result<StageMessage, TextError> {
    Ok(StageMessage {
        with: Neighbour::parse(from)?,
        tensors: refs(from)?,
    })
}

/// Reads a loss, its logits and how many classes they have.
fn scored(from: &mut Reader<'_>) -> Result<(Loss, Ref, u32), TextError> {
    let loss = Loss::parse(from)?;
    let logits = Ref::parse(from)?;
    from.expect(",")?;
    let classes = from.number()?;
    from.expect("classes")?;
    Ok((loss, logits, classes))
}

fn gemm(from: &mut Reader<'_>) -> Result<Instr, TextError> {
    let product = Product::parse(from)?;
    let a = matrix_at(from)?;
    let (b, out) = factor_and_result(from)?;
    from.expect(",")?;
    let rows = Extent::parse(from)?;
    from.expect("x")?;
    let inner = from.number()?;
    from.expect("x")?;
    let columns = from.number()?;
    let (mut chunk, mut finish) = (None, None);
    while from.skip(",") {
        if from.skip("then") {
            let name = from.word("a kernel's name")?;
            finish = Some(launch(from, name)?);
            break;
        }
        chunk = Some(Chunk::parse(from)?);
    }
    Ok(Instr::MatMul(instr::MatMul {
        product,
        a,
        b,
        out,
        rows,
        inner,
        columns,
        finish,
        chunk,
    }))
}
