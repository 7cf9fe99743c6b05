//! A program as text.

use super::text::{Table, cut};
use gnnc::ir::program::{
    Buffer, Chunk, Extent, Instr, Launch, Matrix, Moved, Neighbour, Product, Program, Ref,
    Returned, ScalarRef, Skip, Vertices,
};
use gnnc::ir::types::EdgeSet;

/// Buffers, then the three instruction lists. An instruction stands behind its place, as
/// traces name it; a buffer in brackets is followed by its slot.
pub fn listing(program: &Program) -> String {
    let ranks = program.ranks;
    let mut text = format!(
        "program for {ranks} rank{}: {} buffers, {} kernels, {} parameters\n\nbuffers\n",
        if ranks == 1 { "" } else { "s" },
        program.buffers.len(),
        program.kernels.len(),
        program.params.len()
    );
    let mut table = Table::new(4, 2);
    for (n, buffer) in program.buffers.iter().enumerate() {
        table.row([
            format!("b{n}"),
            shape(buffer),
            format!("{:?}", buffer.role),
            buffer.name.clone(),
        ]);
    }
    text.push_str(&table.lines());
    for (name, list) in [
        ("setup", &program.setup),
        ("step", &program.step),
        ("eval", &program.eval),
    ] {
        text.push_str(&format!("\n{name}\n"));
        instructions(&mut text, program, list, "", 1);
    }
    text
}

fn instructions(text: &mut String, program: &Program, list: &[Instr], at: &str, depth: usize) {
    for (index, instr) in list.iter().enumerate() {
        let place = format!("{at}{index}");
        let margin = "  ".repeat(depth);
        let line = format!("{margin}{place:<5} {}", instruction(program, instr));
        text.push_str(&cut(line.trim_end()));
        text.push('\n');
        if let Instr::Repeat { body, .. } | Instr::Chunks { body, .. } = instr {
            instructions(text, program, body, &format!("{place}."), depth + 1);
        }
    }
}

fn instruction(program: &Program, instr: &Instr) -> String {
    let name = instr.name(program);
    match instr {
        Instr::Launch(launch) => format!("{name} {}", launch_text(launch)),
        Instr::MatMul {
            product,
            a,
            b,
            out,
            rows,
            inner,
            columns,
            finish,
            chunk,
        } => {
            let finish = match finish {
                Some(launch) => format!(", then k{} {}", launch.kernel.0, operands(launch)),
                None => String::new(),
            };
            format!(
                "{name}{} {} {} . {} -> {}  ({} x {inner} x {columns}){finish}",
                of_chunk(*chunk),
                product_text(*product),
                matrix(a),
                matrix(b),
                matrix(out),
                extent(*rows)
            )
        }
        Instr::SparseMatMul {
            product,
            values,
            b,
            out,
            inner,
            columns,
        } => format!(
            "{name} {} x({}) . {} -> {}  ({inner} x {columns})",
            product_text(*product),
            at(*values),
            matrix(b),
            matrix(out)
        ),
        Instr::SparseDropout {
            values,
            out,
            p,
            site,
        } => format!(
            "{name} {} -> {}  (p = {p}, site {site})",
            at(*values),
            at(*out)
        ),
        Instr::Densify { values, out } => format!("{name} {} -> {}", at(*values), at(*out)),
        Instr::HaloExchange { buffer, skip } => match skip {
            None => format!("{name} {}", at(*buffer)),
            Some(Skip { rule, copies }) => {
                format!("{name} {} or {}  ({rule})", at(*buffer), at(*copies))
            }
        },
        Instr::HaloReduce { buffer, skip } => match skip {
            None => format!("{name} {}", at(*buffer)),
            Some(Returned { of, left }) => {
                let left = left.map_or(String::new(), |left| format!(" or {}", at(left)));
                format!("{name} {}{left}  ({})", at(*buffer), of.rule)
            }
        },
        Instr::Redistribute {
            from, to, moved, ..
        } => {
            let rows = match moved {
                Moved::All => String::new(),
                Moved::Rows(chunk) => format!("  (rows of {})", chunk_text(*chunk)),
                Moved::New(_, chunk) => format!("  (new to {})", chunk_text(*chunk)),
            };
            format!("{name} {} -> {}{rows}", at(from.at), at(*to))
        }
        Instr::Begin(transfer) => format!("begin {}", instruction(program, &transfer.what)),
        Instr::Finish(transfer) => format!("finish {}", instruction(program, &transfer.what)),
        Instr::AllReduce { buffers } => {
            let names: Vec<String> = buffers.iter().map(|b| format!("b{}", b.0)).collect();
            format!("{name} {}", names.join(" "))
        }
        Instr::Loss {
            logits, out, grad, ..
        } => {
            let written: Vec<String> = out.iter().chain(grad).map(|r| at(*r)).collect();
            format!("{name} {} -> {}", at(*logits), written.join(" "))
        }
        Instr::Metrics { logits, out, .. } => format!("{name} {} -> {}", at(*logits), at(*out)),
        Instr::Send(passage) | Instr::Receive(passage) => {
            let tensors: Vec<String> = passage.tensors.iter().map(|r| at(*r)).collect();
            let stage = match passage.with {
                Neighbour::Next => "next stage",
                Neighbour::Previous => "previous stage",
            };
            format!("{name} {}  ({stage})", tensors.join(" "))
        }
        Instr::Remember { from, history } => format!("{name} {} -> {}", at(*from), at(*history)),
        Instr::Move { from, to, chunk } => {
            let chunk = of_chunk(*chunk);
            format!("{name}{chunk} {} -> {}", at(*from), at(*to))
        }
        Instr::Chunks { reverse, .. } => match reverse {
            true => format!("{name}, last first"),
            false => name.to_owned(),
        },
        Instr::Repeat { count, reverse, .. } => {
            let order = if *reverse { ", last first" } else { "" };
            format!("{name} {count} times{order}")
        }
    }
}

fn launch_text(launch: &Launch) -> String {
    format!(
        "k{} over {}{}: {}",
        launch.kernel.0,
        extent(launch.rows),
        of_chunk(launch.chunk),
        operands(launch)
    )
}

fn of_chunk(chunk: Option<Chunk>) -> String {
    let text = chunk.map(|chunk| format!(" {}", chunk_text(chunk)));
    text.unwrap_or_default()
}

fn chunk_text(chunk: Chunk) -> String {
    match (chunk.reach(), chunk.index) {
        (None, _) => format!("chunk {} of {}", chunk.index, chunk.of),
        (Some(Vertices::Local), 0) => "own rows".to_owned(),
        (Some(Vertices::Local), _) => "halo rows".to_owned(),
        (Some(_), 0) => "interior rows".to_owned(),
        (Some(_), _) => "boundary rows".to_owned(),
    }
}

fn operands(launch: &Launch) -> String {
    let refs = |list: &[Ref]| -> Vec<String> { list.iter().map(|r| at(*r)).collect() };
    let mut inputs = refs(&launch.inputs);
    inputs.extend(launch.scalars.iter().map(|scalar| match scalar {
        ScalarRef::LearningRate => "learning-rate".to_owned(),
        ScalarRef::BiasCorrection(beta) => format!("bias-correction({beta})"),
    }));
    inputs.extend(launch.sites.iter().map(|site| format!("mask-{site}")));
    format!(
        "{} -> {}",
        inputs.join(" "),
        refs(&launch.outputs).join(" ")
    )
}

/// `b3`, `b3[2]`, `b3[i]` or `b3[i+1]`.
fn at(place: Ref) -> String {
    let id = place.buffer.0;
    match (place.in_loop, place.base) {
        (false, 0) => format!("b{id}"),
        (false, base) => format!("b{id}[{base}]"),
        (true, 0) => format!("b{id}[i]"),
        (true, base) => format!("b{id}[i+{base}]"),
    }
}

fn matrix(matrix: &Matrix) -> String {
    match matrix.offset {
        0 => at(matrix.at),
        offset => format!("{}@{offset}", at(matrix.at)),
    }
}

fn shape(buffer: &Buffer) -> String {
    let mut rows = format!("{} x {}", extent(buffer.extent), buffer.columns);
    if !buffer.storage.is_f32() {
        rows = format!("{rows} {}", buffer.storage);
    }
    match buffer.slots {
        1 => rows,
        slots => format!("{rows}, {slots} slots"),
    }
}

fn extent(rows: Extent) -> String {
    match rows {
        Extent::Fixed(count) => count.to_string(),
        Extent::Inner => "inner".to_owned(),
        Extent::Local => "local".to_owned(),
        Extent::Halo => "halo".to_owned(),
        Extent::Edges(EdgeSet::Plain) => "edges".to_owned(),
        Extent::Edges(EdgeSet::Looped) => "edges+loops".to_owned(),
        Extent::All => "all".to_owned(),
        Extent::AllEdges(EdgeSet::Plain) => "all edges".to_owned(),
        Extent::AllEdges(EdgeSet::Looped) => "all edges+loops".to_owned(),
        Extent::FeatureNonzeros => "nonzeros".to_owned(),
        Extent::SliceNonzeros => "nonzeros of a slice".to_owned(),
        Extent::ArcRun(even, of) => {
            let arcs = even.arcs.map(|arcs| even.rows.extent().arcs(arcs.set));
            format!(
                "{} in {of} chunks",
                arcs.map_or("no arcs".to_owned(), extent)
            )
        }
        Extent::Run(even, of) => format!("{} in {of} chunks", extent(even.rows.extent())),
    }
}

fn product_text(product: Product) -> &'static str {
    match product {
        Product::Nn => "nn",
        Product::Nt => "nt",
        Product::Tn => "tn",
    }
}
