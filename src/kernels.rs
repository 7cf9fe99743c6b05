//! Times and checks single aggregation kernels on a GPU.
//!
//! The kernels are the ones that models lower to: a weighted sum over in-edges (`spmm`), a dot product of the
//! two ends of each edge (`sddmm`), and attention with heads (`softmax` over the in-edges of a vertex,
//! then `attend`, a sum weighted per head).

use crate::Error;
use gnnc_codegen::cuda::schedule::HUB_EDGES;
use gnnc_graph::Topology;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Axis, Body, EdgeNumber, EdgePass, EdgeResult, End, Kernel};
use gnnc_ir::kernel::{Operand, Over, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::EdgeSet;
use gnnc_runtime::device::gpu::driver::Driver;
use gnnc_runtime::device::gpu::single::{Arrays, Loaded, SingleError};
use serde::{Deserialize, Serialize};

/// Number of rows (or edges) whose results are checked in double precision.
const CHECKED: usize = 300;
/// The slope of the leaky ReLU on attention scores below 0.
const SLOPE: f32 = 0.2;
/// Size of the copy that measures bandwidth, in bytes.
const COPIED: u64 = 1 << 30;

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Weighted sums over in-edges.
    Spmm,
    /// Dot products of the rows at both ends of each edge.
    Sddmm,
    /// Sums over in-edges, weighted per head by a softmax of edge scores.
    Attend,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Which aggregation.
    pub kernel: Aggregation,
    /// Columns of a row, over all heads.
    pub width: u32,
    /// Heads; 1 for `spmm` and `sddmm`.
    pub heads: u32,
    /// Runs per measurement.
    pub times: u32,
    /// Number of measurements.
    pub rounds: u32,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Seconds per run, for each measurement.
    pub seconds: Vec<f64>,
    /// Bytes that a run moves if the rows of sources are read once per edge.
    pub bytes: u64,
    /// Bytes allocated on the device.
    pub memory_bytes: u64,
    /// The largest difference from the results in double precision, relative to the largest result.
    pub error: f64,
}

/// The kernel of a request.
///
/// # Errors
/// Heads that do not divide the width, or several heads where the aggregation has one.
pub fn kernel(request: &Request) -> Result<Kernel, Error> {
    let Request {
        kernel,
        width,
        heads,
        ..
    } = *request;
    let single = matches!(kernel, Aggregation::Spmm | Aggregation::Sddmm);
    if width == 0 || heads == 0 || !width.is_multiple_of(heads) || (single && heads > 1) {
        return Err(Error::Input(format!(
            "found width {width} and {heads} heads for {kernel:?}, expected heads that divide the \
             width, and 1 for spmm and sddmm"
        )));
    }
    let product = || {
        let mut value = Expr::leaf(Value::Load(0));
        let other = value.push(Value::Load(1));
        value.push(Value::Binary(Binary::Mul, 0, other));
        value
    };
    let finish = || Expr::leaf(Value::Acc);
    let set = EdgeSet::Plain;
    let of = |body, heads, width, inputs: &[Operand], output| Kernel {
        body,
        heads,
        width,
        inputs: inputs.to_vec(),
        outputs: vec![output],
        masks: vec![],
        scalars: 0,
    };
    let per_head = width / heads;
    let sum = Body::Gather {
        set,
        to: End::Dst,
        reduce: Reduce::Sum,
        value: product(),
        finish: finish(),
    };
    // One number for all columns of a head.
    let number = |at, heads| Operand {
        at,
        stride: heads,
        offset: 0,
        head_step: u32::from(heads > 1),
        column_step: 0,
        storage: Default::default(),
        picked: None,
    };
    let dense = |at, heads, width| Operand::dense(at, heads, width);
    Ok(match kernel {
        Aggregation::Spmm => {
            let inputs = [dense(At::Src, 1, width), number(At::Edge, 1)];
            of(sum, 1, width, &inputs, dense(At::Row, 1, width))
        }
        Aggregation::Sddmm => {
            let body = Body::RowReduce {
                over: Over::Edges(set),
                axis: Axis::Width,
                reduce: Reduce::Sum,
                value: product(),
                finish: finish(),
            };
            let inputs = [dense(At::Src, 1, width), dense(At::Dst, 1, width)];
            of(body, 1, width, &inputs, dense(At::Row, 1, 1))
        }
        Aggregation::Attend => {
            let mut value = Expr::leaf(Value::Load(0));
            let other = value.push(Value::Load(1));
            let score = value.push(Value::Binary(Binary::Add, 0, other));
            value.push(Value::Unary(Unary::LeakyRelu(SLOPE), score));
            let sum = EdgeResult::Sum {
                value: Expr::leaf(Value::Load(2)),
                finish: finish(),
            };
            let body = Body::EdgePass(EdgePass {
                set,
                to: End::Dst,
                numbers: vec![EdgeNumber { value, dot: false }],
                softmax: Some(0),
                results: vec![sum],
            });
            let scores = [At::Src, At::Dst].map(|at| number(at, heads));
            let inputs = [scores[0], scores[1], dense(At::Src, heads, per_head)];
            of(
                body,
                heads,
                per_head,
                &inputs,
                dense(At::Row, heads, per_head),
            )
        }
    })
}

/// Runs an aggregation over a graph.
///
/// # Errors
/// An invalid request, or an error of the device.
pub fn measure(
    driver: &mut dyn Driver,
    topology: &Topology,
    request: &Request,
) -> Result<Answer, Error> {
    let kernel = kernel(request)?;
    let ids: Vec<u32> = (0..topology.vertices()).collect();
    let rows = topology.vertices() as usize;
    let edges = topology.indices().len();
    let length = |operand: &Operand| match operand.at {
        At::Edge => edges * operand.stride as usize,
        _ => rows * operand.stride as usize,
    };
    let inputs: Vec<Vec<f32>> = kernel
        .inputs
        .iter()
        .zip(0..)
        .map(|(operand, seed)| floats(length(operand), seed))
        .collect();
    let by_edges = request.kernel == Aggregation::Sddmm;
    let count = if by_edges { edges } else { rows };
    let output = vec![0.0; count * kernel.outputs[0].stride as usize];
    let arrays = Arrays {
        indptr: topology.indptr(),
        indices: topology.indices(),
        ids: &ids,
        inputs: inputs.iter().map(Vec::as_slice).collect(),
        outputs: vec![&output],
        rows: rows as u64,
        hub_edges: HUB_EDGES,
        ..Arrays::default()
    };
    let loaded = Loaded::new(driver, std::slice::from_ref(&kernel)).map_err(single)?;
    let free = driver.free_bytes()?;
    let on_device = loaded.single(driver, 0, &arrays).map_err(single)?;
    let memory_bytes = free.saturating_sub(driver.free_bytes()?);
    on_device.enqueue(driver)?;
    let found = on_device.outputs(driver)?;
    let found = found.first().map_or(&[][..], Vec::as_slice);
    let mut seconds = Vec::new();
    for _ in 0..request.rounds {
        seconds.push(on_device.seconds(driver, request.times.max(1))?);
    }
    on_device.release(driver)?;
    let check = Check {
        request,
        topology,
        inputs: &inputs,
    };
    Ok(Answer {
        seconds,
        bytes: bytes(request, rows as u64, edges as u64),
        memory_bytes,
        error: check.error(found),
    })
}

/// Bandwidth of a copy within the device's memory in bytes per second, read plus written, for each measurement.
///
/// # Errors
/// An error of the device.
pub fn copy_bandwidth(driver: &mut dyn Driver, rounds: u32) -> Result<Vec<f64>, Error> {
    let bytes = COPIED.min(driver.free_bytes()? / 4);
    let (from, to) = (driver.allocate(bytes)?, driver.allocate(bytes)?);
    let stream = driver.stream(false)?;
    let (begin, end) = (driver.event(true)?, driver.event(true)?);
    driver.clear(stream, from, bytes)?;
    driver.copy(stream, from, to, bytes)?;
    let mut found = Vec::new();
    for _ in 0..rounds {
        driver.record(begin, stream)?;
        driver.copy(stream, from, to, bytes)?;
        driver.record(end, stream)?;
        driver.synchronize(stream)?;
        found.push(2.0 * bytes as f64 / driver.seconds(begin, end)?);
    }
    driver.release(from)?;
    driver.release(to)?;
    Ok(found)
}

fn single(error: SingleError) -> Error {
    match error {
        SingleError::Driver(error) => Error::Device(error),
        error => Error::Input(error.to_string()),
    }
}

/// Reproducible floats between -1 and 1.
fn floats(count: usize, seed: u64) -> Vec<f32> {
    let float = |n: usize| {
        let mixed = (n as u64 + (seed << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(float).collect()
}

fn bytes(request: &Request, rows: u64, edges: u64) -> u64 {
    let (width, heads) = (u64::from(request.width), u64::from(request.heads));
    let index = edges * 4 + rows * 8;
    index
        + 4 * match request.kernel {
            Aggregation::Spmm => edges * (width + 1) + rows * width,
            Aggregation::Attend => edges * (width + heads) + rows * (width + heads),
            Aggregation::Sddmm => edges * (width + 1) + rows * width,
        }
}

/// Reference results in double precision, for some rows or edges.
struct Check<'a> {
    request: &'a Request,
    topology: &'a Topology,
    inputs: &'a [Vec<f32>],
}

impl Check<'_> {
    /// The largest difference, relative to the largest result.
    fn error(&self, found: &[f32]) -> f64 {
        let (mut largest, mut worst) = (f64::MIN_POSITIVE, 0.0f64);
        for (place, expected) in self.expected() {
            let found = found.get(place).copied().map_or(f64::NAN, f64::from);
            largest = largest.max(expected.abs());
            // NaN counts as an infinite error.
            let difference = (found - expected).abs();
            worst = if difference.is_nan() {
                f64::INFINITY
            } else {
                worst.max(difference)
            };
        }
        worst / largest
    }

    /// Places in the output with the expected values: rows spread over the graph, and the row with most edges.
    fn expected(&self) -> Vec<(usize, f64)> {
        let indptr = self.topology.indptr();
        let rows = indptr.len() - 1;
        let longest = (0..rows).max_by_key(|&v| indptr[v + 1] - indptr[v]);
        let step = rows.div_ceil(CHECKED).max(1);
        let some = (0..rows).step_by(step).chain(longest);
        some.flat_map(|v| self.row(v)).collect()
    }

    fn row(&self, v: usize) -> Vec<(usize, f64)> {
        let indptr = self.topology.indptr();
        let edges = indptr[v] as usize..indptr[v + 1] as usize;
        let (width, heads) = (self.request.width as usize, self.request.heads as usize);
        let source = |edge: usize| self.topology.indices()[edge] as usize;
        let load = |input: usize, place: usize| f64::from(self.inputs[input][place]);
        match self.request.kernel {
            Aggregation::Spmm => {
                let column = |c: usize| {
                    let term = |edge: usize| load(0, source(edge) * width + c) * load(1, edge);
                    (v * width + c, edges.clone().map(term).sum())
                };
                (0..width).map(column).collect()
            }
            Aggregation::Sddmm => {
                let product = |edge: usize| {
                    let term =
                        |c: usize| load(0, source(edge) * width + c) * load(1, v * width + c);
                    (edge, (0..width).map(term).sum())
                };
                edges.map(product).collect()
            }
            Aggregation::Attend => {
                let per_head = width / heads;
                let mut found = Vec::new();
                for head in 0..heads {
                    let score = |edge: usize| {
                        let sum = load(0, source(edge) * heads + head) + load(1, v * heads + head);
                        (if sum > 0.0 {
                            sum
                        } else {
                            f64::from(SLOPE) * sum
                        })
                        .exp()
                    };
                    let total: f64 = edges.clone().map(score).sum();
                    for c in head * per_head..(head + 1) * per_head {
                        let term =
                            |edge: usize| load(2, source(edge) * width + c) * score(edge) / total;
                        found.push((v * width + c, edges.clone().map(term).sum()));
                    }
                }
                found
            }
        }
    }
}
