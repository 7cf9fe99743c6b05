//! Prints a program.

use super::words::Text;
use crate::graph::ParamSpec;
use crate::program::trace::Phase;
use crate::program::{Buffer, Halo, Instr, Program};
use crate::words::sampling::{Exclude, Sampling, Topology};
use std::fmt;

/// The first line of an instruction as a listing shows it.
pub fn instruction(instr: &Instr, program: &Program) -> String {
    instr.print(program)
}

/// A program printed with each instruction's place, by which traces and errors name it.
pub struct Listing<'a>(pub &'a Program);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0, true))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, false))
    }
}

/// Width of a line, if it can be broken.
const WIDTH: usize = 99;

/// Breaks long lines and indents the continuation. Line breaks between tokens, outside quotes,
/// mean nothing.
fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let margin = line.len() - line.trim_start().len() + 6;
        let mut rest = line.to_owned();
        while let Some(at) = break_before(&rest, WIDTH, margin) {
            out += rest[..at].trim_end();
            out.push('\n');
            rest = format!("{}{}", " ".repeat(margin), rest[at..].trim_start());
        }
        out += &rest;
        out.push('\n');
    }
    out
}

/// The last space before `column` in a line that is too long, after its margin and outside
/// quotes.
fn break_before(line: &str, column: usize, margin: usize) -> Option<usize> {
    if line.chars().count() <= column {
        return None;
    }
    let (mut found, mut inside) = (None, false);
    for (count, (at, c)) in line.char_indices().enumerate() {
        inside ^= c == '"' && !line[..at].ends_with('\\');
        if count > column {
            break;
        }
        if c == ' ' && !inside && at > margin {
            found = Some(at);
        }
    }
    found
}

fn text(program: &Program, places: bool) -> String {
    let mut out = head(program);
    let section = |out: &mut String, name: &str, lines: &mut dyn Iterator<Item = String>| {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            *out += &format!("\n{name}\n");
        }
        lines.for_each(|line| *out += &format!("  {line}\n"));
    };
    let params = program.params.iter().map(param).enumerate();
    section(
        &mut out,
        "params",
        &mut params.map(|(n, text)| format!("p{n} {text}")),
    );
    let buffers = program.buffers.iter().zip(0u32..).map(|(buffer, n)| {
        let id = crate::program::BufferId(n);
        format!("b{n} {}", buffer_text(buffer, program.is_hosted(id)))
    });
    section(&mut out, "buffers", &mut buffers.into_iter());
    let tables = program.tables.iter().enumerate().map(|(n, table)| {
        let numbers: Vec<String> = table.iter().map(|x| format!(" {x:?}")).collect();
        format!("t{n}{}", numbers.concat())
    });
    section(&mut out, "tables", &mut tables.into_iter());
    let kernels = program.kernels.iter().map(Text::text).enumerate();
    section(
        &mut out,
        "kernels",
        &mut kernels.map(|(n, text)| format!("k{n} {text}")),
    );
    for phase in Phase::ALL {
        let list = program.list(phase);
        if !list.is_empty() {
            out += &format!("\n{phase}\n");
            let mut printer = Printer {
                program,
                places,
                out: &mut out,
            };
            printer.list(list, "", 1);
        }
    }
    folded(&out)
}

fn head(program: &Program) -> String {
    let mut out = format!("program {} ranks, rank {}\n", program.ranks, program.rank);
    if let Some(mesh) = program.mesh {
        let apart = if mesh.apart { " apart" } else { "" };
        out += &format!("mesh {} slices{apart}\n", mesh.slices);
    }
    if program.halo != Halo::default() {
        out += &format!("halo {}\n", program.halo.text());
    }
    if let Some(node_ranks) = program.node_ranks {
        out += &format!("nodes of {node_ranks} ranks\n");
    }
    if program.equal_bits {
        out.push_str("equal-bits\n");
    }
    if program.sparse_features {
        out.push_str("sparse-features\n");
    }
    if let Some(pipeline) = program.pipeline {
        let shuffled = if pipeline.shuffle { " shuffled" } else { "" };
        out += &format!(
            "pipeline stage {}/{} chunks {} interval {}{shuffled}\n",
            pipeline.stage, pipeline.stages, pipeline.chunks, pipeline.interval
        );
    }
    if let Some(batches) = &program.sampling {
        out += &format!("sampling {}\n", sampling(batches));
    }
    if let Some(batches) = &program.evaluation {
        out += &format!("evaluation {}\n", sampling(batches));
    }
    if let Some(id) = program.loss {
        out += &format!("loss {}\n", id.text());
    }
    if let Some(id) = program.metrics {
        out += &format!("metrics {}\n", id.text());
    }
    if let Some(at) = program.logits {
        out += &format!("logits {}\n", at.text());
    }
    out
}

fn sampling(batches: &Sampling) -> String {
    let fanouts = batches.fanouts.iter().map(|f| format!(" \"{f}\""));
    let fanouts: String = fanouts.collect();
    let Sampling {
        batch,
        over,
        kind,
        cut,
        roots,
        merges,
        exclude,
        negatives,
        cache,
        topology,
        fanouts: _,
    } = batches;
    let sets: String = over.iter().map(|set| format!(" {}", set.text())).collect();
    let over = match over.is_empty() {
        true => String::new(),
        false => format!(" over{sets}"),
    };
    let cache = cache.map_or(String::new(), |cache| {
        let age = cache.age.map_or(String::new(), |n| format!(" age {n}"));
        format!(" cache {} {}{age}", cache.rows, cache.by)
    });
    let merges = merges.map_or(String::new(), |count| format!(" merges {count}"));
    let exclude = match exclude {
        Exclude::Seeds => String::new(),
        Exclude::Nothing => format!(" exclude {exclude}"),
    };
    let negatives = match negatives.drawn() {
        None => String::new(),
        Some(drawn) => format!(" negatives {drawn}"),
    };
    let topology = match topology {
        Topology::All => String::new(),
        Topology::Own => format!(" topology {topology}"),
    };
    let drawn = format!("{kind} {cut} {roots}{merges}{exclude}{negatives}{cache}{topology}");
    format!("batch {batch} fanouts{fanouts}{over} {drawn}")
}

fn param(spec: &ParamSpec) -> String {
    let mut text = format!(
        "{} {} {}",
        quoted(&spec.name),
        spec.ty.text(),
        spec.init.text()
    );
    if let Some(decay) = spec.decay {
        text += &format!(" decay {decay:?}");
    }
    if let Some(shard) = spec.shard {
        text += &format!(" {}", shard.text());
    }
    if let Some(element) = spec.element {
        text += &format!(" {}", element.text());
    }
    text
}

fn buffer_text(buffer: &Buffer, hosted: bool) -> String {
    let mut text = format!("{} x {}", buffer.extent.text(), buffer.columns);
    if buffer.slots != 1 {
        text += &format!(" * {}", buffer.slots);
    }
    if !buffer.storage.is_f32() {
        text += &format!(" {}", buffer.storage.text());
    }
    text += &format!(" {}", buffer.role.text());
    if hosted {
        text.push_str(" hosted");
    }
    text + &format!(" {}", quoted(&buffer.name))
}

fn quoted(text: &str) -> String {
    let plain = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", plain.replace('\n', "\\n"))
}

struct Printer<'a> {
    program: &'a Program,
    places: bool,
    out: &'a mut String,
}

impl Printer<'_> {
    fn list(&mut self, list: &[Instr], above: &str, depth: usize) {
        let margin = "  ".repeat(depth);
        for (index, instr) in list.iter().enumerate() {
            let place = format!("{above}{index}");
            let line = instruction(instr, self.program);
            let label = match self.places {
                true => format!("{place:<5} "),
                false => String::new(),
            };
            let body = instr.body();
            let brace = if body.is_some() { " {" } else { "" };
            *self.out += &format!("{margin}{label}{line}{brace}\n");
            if let Some(body) = body {
                self.list(body, &format!("{place}."), depth + 1);
                *self.out += &format!("{margin}}}\n");
            }
        }
    }
}
