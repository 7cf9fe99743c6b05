//! Kernel launches.

use crate::graph::op::Site;
use crate::program::{Chunk, Extent, KernelId, Ref};
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
