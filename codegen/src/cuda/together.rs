//! One launch of a kernel over several sets of operands, such as the parameters of a model.
//!
//! A table on the device lists where the operands of each set are and which blocks it has; a block
//! finds its set there. The kernel's text is unchanged, so results are the same bits.

use super::emit::Emit;
use super::schedule::{BLOCK, Parameter, RESIDENT, Schedule, Size};
use crate::verify::{SpecError, verify};
use gnnc_ir::kernel::{Body, Kernel};

/// Number of arguments of the entry point: the table, the number of sets, the run-time scalars.
pub const ARGUMENTS: usize = 3;

/// An entry point that runs one kernel over several sets.
#[derive(Clone, Debug)]
pub struct Together {
    /// Its name.
    pub name: String,
    /// Its text, without what [`super::module`] puts before it.
    pub text: String,
    schedule: Schedule,
}

/// The operands of one run of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Rows.
    pub rows: u64,
    /// Addresses of the inputs.
    pub inputs: Vec<u64>,
    /// Addresses of the outputs.
    pub outputs: Vec<u64>,
}

/// The table an entry point reads, and the number of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// For each set: its first block, its rows, its inputs, its outputs. Then the number of blocks.
    pub numbers: Vec<u64>,
    /// Blocks of all sets together.
    pub blocks: u64,
}

/// Generates the entry point of a kernel; `None` if its sets need more than a table holds.
///
/// # Errors
/// As [`super::generate`].
pub fn together(kernel: &Kernel, name: &str) -> Result<Option<Together>, SpecError> {
    verify(kernel)?;
    let Body::Map { values, .. } = &kernel.body else {
        return Ok(None);
    };
    if !kernel.is_flat() {
        return Ok(None);
    }
    let schedule = Schedule::of(kernel, name);
    let mut emit = Emit::new(kernel, &schedule);
    emit.block = ["block", "blocks"];
    let head =
        format!("extern \"C\" __global__ void __launch_bounds__({BLOCK}, {RESIDENT}) {name}(");
    emit.text.line(head);
    let arguments = ["const u64 *__restrict__ table", "u64 sets"]
        .map(str::to_owned)
        .into_iter()
        .chain([Parameter::Scalars.declaration(kernel, false)]);
    let arguments: Vec<String> = arguments.collect();
    emit.text
        .line(format!("    {})", arguments.join(",\n    ")));
    emit.text.open("");
    let step = entry(kernel.inputs.len(), kernel.outputs.len());
    emit.text.line("u64 set = 0, high = sets;");
    emit.text.open("while (high - set > 1u)");
    emit.text.line("const u64 middle = (set + high) / 2u;");
    emit.text
        .open(format!("if (table[middle * {step}u] <= blockIdx.x)"));
    emit.text.line("set = middle;");
    emit.text.close();
    emit.text.open("else");
    emit.text.line("high = middle;");
    emit.text.close();
    emit.text.close();
    emit.text
        .line(format!("const u64 *entry = table + set * {step}u;"));
    emit.text
        .line("const u32 block = blockIdx.x - (u32)entry[0];");
    emit.text.line(format!(
        "const u32 blocks = (u32)(entry[{step}] - entry[0]);"
    ));
    emit.text.line("const u64 begin = 0, end = entry[1];");
    let inputs = (0..kernel.inputs.len() as u16).map(Parameter::Input);
    let outputs = (0..kernel.outputs.len() as u16).map(Parameter::Output);
    for (place, operand) in (2..).zip(inputs.chain(outputs)) {
        let declared = operand.declaration(kernel, false);
        let pointer = declared.rsplit_once('*').map_or("", |(element, _)| element);
        emit.text
            .line(format!("{declared} = ({pointer}*)entry[{place}];"));
    }
    emit.map_rows(values);
    emit.text.close();
    Ok(Some(Together {
        name: name.to_owned(),
        text: emit.finish(),
        schedule,
    }))
}

/// Numbers per set in the table.
fn entry(inputs: usize, outputs: usize) -> usize {
    2 + inputs + outputs
}

impl Together {
    /// The table of some sets.
    pub fn table(&self, sets: &[Set]) -> Table {
        let (mut numbers, mut blocks) = (Vec::new(), 0);
        for set in sets {
            numbers.extend([blocks, set.rows]);
            numbers.extend(set.inputs.iter().chain(&set.outputs));
            let rows = set.rows;
            let launches = self.schedule.launches(&Size {
                rows,
                ..Size::default()
            });
            blocks += launches.iter().map(|l| u64::from(l.grid[0])).sum::<u64>();
        }
        numbers.push(blocks);
        Table { numbers, blocks }
    }
}
