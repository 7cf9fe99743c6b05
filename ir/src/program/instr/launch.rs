//! Kernel launches.

use super::{Instruction, Operand, Use};
use crate::graph::op::Site;
use crate::kernel::{At, Body, COLUMN_BLOCK, Kernel};
use crate::program::leaves::leaves;
use crate::program::memory::at_once;
use crate::program::text::line::{after, optional, refs, words};
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work, launch_work};
use crate::program::{Capacity, Chunk, Extent, KernelId, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// A number that is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScalarRef {
    /// Learning rate.
    LearningRate,
    /// `1 / (1 - beta^t)` at optimizer step `t`.
    BiasCorrection(f64),
}

/// A kernel launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelId,
    /// Rows to run over; destination (source) vertices for kernels over edges.
    pub rows: Extent,
    /// Operands, as the kernel lists them.
    pub inputs: Vec<Ref>,
    /// Results, as the kernel lists them.
    pub outputs: Vec<Ref>,
    /// Run-time numbers, as the kernel lists them.
    pub scalars: Vec<ScalarRef>,
    /// Dropout sites of the kernel's masks.
    pub sites: Vec<Site>,
    /// Where the other ends of the edges that it walks lie and, if they are grouped by source, their places; with
    /// the graph, on the device, if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<Ref>,
    /// The chunk whose rows, or the edges at which, it runs over; all if none. What sums over rows adds to the
    /// sums of the chunks before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

impl Launch {
    /// Whether it walks edges of a batch and reads the rows of their sources in tensors of all
    /// vertices, so that edges have to name vertices.
    pub fn reads_vertices(&self, program: &Program) -> bool {
        let kernel = program.kernels.get(self.kernel.0 as usize);
        let inputs = kernel.map_or(&[][..], |kernel| &kernel.inputs).iter();
        self.rows.level().is_some()
            && inputs.zip(&self.inputs).any(|(operand, at)| {
                let buffer = program.buffers.get(at.buffer.0 as usize);
                operand.at == At::Src && buffer.is_some_and(|buffer| !buffer.extent.of_batch())
            })
    }
}

impl Instruction for Launch {
    fn name(&self, program: &Program) -> &'static str {
        program.kernel(self.kernel).body.name()
    }

    #[inline]
    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        for (n, at) in self.inputs.iter().enumerate() {
            visit(Operand::read(*at, Use::Input(self, n)));
        }
        for at in &self.lists {
            visit(Operand::read(*at, Use::Ends(self)));
        }
        for (n, at) in self.outputs.iter().enumerate() {
            visit(Operand::write(*at, Use::Output(self, n)));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        self.inputs.iter_mut().for_each(&mut *visit);
        self.lists.iter_mut().for_each(&mut *visit);
        self.outputs.iter_mut().for_each(visit);
    }

    fn check(&self, check: &Check) -> Checked {
        check.launch(self)
    }

    fn fits_chunks(&self, program: &Program) -> bool {
        let kernel = program.kernels.get(self.kernel.0 as usize);
        self.chunk.is_none() && !kernel.is_some_and(|kernel| kernel.body.sums_rows())
    }

    fn over_whole_graph(&self) -> bool {
        self.rows.of_whole_graph()
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        Some(launch_work(counts.kernel.as_ref()?, self, sizes))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.launch(program, self, sizes))
    }

    fn print(&self, program: &Program) -> String {
        let Self {
            kernel,
            rows,
            inputs,
            outputs,
            scalars,
            sites,
            lists,
            chunk,
        } = self;
        let name = program.kernels.get(kernel.0 as usize);
        let name = name.map_or("launch", |kernel: &Kernel| kernel.body.name());
        let mut text = format!("{name} {} over {}", kernel.text(), rows.text());
        text += &after(", ", chunk.as_ref());
        let inputs: Vec<String> = inputs.iter().map(|at| format!(" {}", at.text())).collect();
        text += &format!(":{} -> {}", inputs.concat(), words(outputs));
        if !scalars.is_empty() {
            text += &format!(", scalars {}", words(scalars));
        }
        if !sites.is_empty() {
            text += &format!(", sites {}", words(sites));
        }
        if !lists.is_empty() {
            text += &format!(", lists {}", words(lists));
        }
        text
    }

    fn launch(&self) -> Option<&Launch> {
        Some(self)
    }

    fn launch_mut(&mut self) -> Option<&mut Launch> {
        Some(self)
    }

    fn set_chunk(&mut self, to: Chunk) {
        self.chunk = Some(to);
    }

    fn scratch_floats(&self, program: &Program, capacity: &Capacity) -> u64 {
        let kernel = program.kernels.get(self.kernel.0 as usize);
        let Some(kernel) = kernel.filter(|kernel| matches!(kernel.body, Body::ColReduce { .. }))
        else {
            return 0;
        };
        let rows = at_once(self.chunk, self.rows, capacity);
        let mut blocks = rows.div_ceil(COLUMN_BLOCK as u64).max(1);
        if program.sums_leaves(self.rows) {
            // The last block of each leaf may be a short one.
            blocks += u64::from(leaves(capacity.most().vertices));
        }
        blocks
            .saturating_mul(u64::from(kernel.heads))
            .saturating_mul(u64::from(kernel.width))
    }

    fn chunk(&self) -> Option<Chunk> {
        self.chunk
    }
}

impl Launch {
    /// Reads a launch behind the name of its kernel.
    pub(super) fn parse(from: &mut Reader<'_>, name: &str) -> Result<Self, TextError> {
        let kernel = KernelId::parse(from)?;
        let known = from.program.kernels.get(kernel.0 as usize);
        let expected = known.map_or("launch", |kernel| kernel.body.name());
        if name != expected {
            return Err(from.wrong_before(&format!(
                "a kernel that is a {name}, this one is a {expected}"
            )));
        }
        from.expect("over")?;
        let rows = Extent::parse(from)?;
        let chunk = optional(from, Chunk::parse)?;
        from.expect(":")?;
        let inputs = refs(from)?;
        from.expect("->")?;
        let outputs = refs(from)?;
        let mut launch = Launch {
            kernel,
            rows,
            inputs,
            outputs,
            scalars: Vec::new(),
            sites: Vec::new(),
            lists: Vec::new(),
            chunk,
        };
        while from.skip(",") {
            match from.word("scalars, sites or lists")? {
                "scalars" => {
                    while matches!(from.next_word(), Some("learning-rate" | "bias-correction")) {
                        launch.scalars.push(ScalarRef::parse(from)?);
                    }
                }
                "sites" => {
                    while from.at_numbered("s") {
                        launch.sites.push(Site::parse(from)?);
                    }
                }
                "lists" => launch.lists = refs(from)?,
                _ => return Err(from.wrong_before("scalars, sites or lists")),
            }
        }
        Ok(launch)
    }
}
