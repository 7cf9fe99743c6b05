//! Calibration of this machine: trains layers of the standard library on generated graphs and
//! fits costs that explain the time of each instruction by its demands.

mod data;
mod doubt;
mod fit;
mod runs;
mod settled;

use crate::{Device, Error, Loaded, Source};
use doubt::spreads;
use fit::{Sample, error, fit, merged, seconds};
use gnnc_files::Cache;
use gnnc_graph::{GraphData, summary};
use gnnc_ir::cluster::{Basis, Cluster, Costs, DeviceKind, GroupCosts, Measured, SharedBy};
use gnnc_ir::plan::Placement;
use gnnc_ir::program::work::{TERM_COUNT, TERMS};
use gnnc_ir::words::units::{Bytes, Seconds};
use gnnc_ir::workload::GraphFacts;
use runs::{Concluded, Heap, Rounds, Times};
use serde::Serialize;
use settled::{differences, refused, unsettled, why_again};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// Name of the machine, for the file.
    pub machine: String,
    /// The date, for the file.
    pub date: String,
    /// Ranks that run at once; 1 measures a rank alone, without messages.
    pub ranks: u32,
    /// Whether to leave out the large graphs.
    pub quick: bool,
    /// Whether to accept measurements whose noise exceeds the error of the fitted costs.
    pub noisy: bool,
    /// Memory of the machine, shared by the ranks.
    pub memory: Bytes,
    /// The device to measure; a GPU is measured with one rank.
    pub device: Device,
    /// Cache of compiled kernels and partitions.
    pub cache: Option<Cache>,
}

/// How well the fitted costs explain the measurements of a group of instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Ranks that ran at once.
    pub ranks: u32,
    /// Name of the group, whose instructions share costs.
    pub group: String,
    /// Number of measured instructions.
    pub samples: usize,
    /// Mean absolute relative error of the fitted costs.
    pub error: f64,
    /// Mean relative difference between repeated measurements: the noise.
    pub repeated: f64,
    /// Factor by which costs of other graphs may be off, besides that of the machine; `None` if there was one graph.
    pub spread: Option<f64>,
}

/// A calibrated machine.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The machine as a cluster of one node.
    pub cluster: Cluster,
    /// How well its costs explain the measurements.
    pub quality: Vec<Quality>,
    /// How often all graphs were measured.
    pub rounds: usize,
    /// All measurements.
    pub measurements: Vec<Measurement>,
}

/// The time of one instruction on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measurement {
    /// Ranks that ran at once.
    pub ranks: u32,
    /// Name of the case: the model, its width and the graph.
    pub what: String,
    /// Edges of the graph, by which it is told from others.
    pub edges: u64,
    /// Place of the instruction in the step.
    pub at: String,
    /// Name of its group, or of the instruction if it communicates.
    pub group: String,
    /// Counts, in the order of [`TERMS`].
    pub terms: [f64; TERM_COUNT],
    /// Bytes sent, or received from another stage.
    pub bytes: u64,
    /// The median of its times in undisturbed epochs, without waiting.
    pub seconds: f64,
    /// The time predicted by the fitted costs.
    pub predicted: f64,
}

/// How soon edges pick the same row again.
#[derive(Clone, Copy)]
enum Kind {
    /// Hubs, which caches keep.
    Rmat,
    /// Equal degrees: any row, at any time.
    Planted,
    /// Rows near those picked before.
    Mesh,
}

/// One graph to train on.
#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    vertices: u32,
    edges: u64,
    features: u32,
    /// One of how many features is nonzero; 1 for dense features.
    sparsity: u32,
    classes: u32,
    /// Fraction of training vertices.
    train: f64,
    widths: &'static [u32],
    epochs: usize,
}

const ALL: &[u32] = &[8, 16, 32, 64, 128, 256];
/// Numbers of attention heads, used in rotation.
const HEADS: &[u32] = &[8, 4, 2, 1];
const FEW: &[u32] = &[16, 48, 128, 256];

/// The cases, from a few kilobytes to hundreds of megabytes.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { kind: Kind::Rmat, vertices: 2_000, edges: 8_000, features: 64, sparsity: 1, classes: 5, train: 0.6, widths: ALL, epochs: 12 },
    Case { kind: Kind::Rmat, vertices: 3_000, edges: 20_000, features: 1_000, sparsity: 60, classes: 6, train: 0.03, widths: ALL, epochs: 8 },
    Case { kind: Kind::Rmat, vertices: 10_000, edges: 120_000, features: 500, sparsity: 12, classes: 12, train: 0.6, widths: FEW, epochs: 4 },
    Case { kind: Kind::Rmat, vertices: 16_000, edges: 400_000, features: 500, sparsity: 1, classes: 9, train: 0.1, widths: ALL, epochs: 2 },
    Case { kind: Kind::Planted, vertices: 60_000, edges: 900_000, features: 200, sparsity: 1, classes: 14, train: 0.6, widths: FEW, epochs: 1 },
    Case { kind: Kind::Mesh, vertices: 30_000, edges: 240_000, features: 100, sparsity: 1, classes: 7, train: 0.6, widths: FEW, epochs: 2 },
    Case { kind: Kind::Rmat, vertices: 150_000, edges: 2_500_000, features: 250, sparsity: 1, classes: 20, train: 0.1, widths: FEW, epochs: 1 },
];
/// Rounds of all cases. A shared machine is slow for seconds at a time, so a single measurement
/// could fall into such a time.
const ROUNDS: usize = 6;
/// Rounds with `--quick`.
const QUICK_ROUNDS: usize = 2;
/// How many times to double the rounds before giving up on noisy measurements.
const REPEATS: usize = 2;
/// Cases with fewer edges are quick.
const QUICK: u64 = 30_000;
/// Edges of the cases on which deep models also train as pipelines; with `--quick`, the quick cases do too. Smaller
/// cases fit into caches, and larger ones take long to cut into chunks.
const STAGED: RangeInclusive<u64> = 100_000..=500_000;
/// Numbers of chunks of a pipeline. With both, messages of equal length come from a small model and from a large one, one
/// in caches and one in memory.
const CHUNKS: [u32; 2] = [4, 16];

/// Models with their placements. One model is enough to measure redistributions. A deep model measures messages between
/// stages, whose rows were written some layers before; it is left out on graphs larger than [`STAGED`].
const MODELS: &[(&str, &str, &[Placement])] = &[
    (
        "gcn",
        "let h = x |> gcn_conv(width) |> relu\n  let z = h |> gcn_conv(classes)",
        &[Placement::Graph, Placement::Tensor],
    ),
    (
        "sage",
        "let h = x |> sage_conv(width) |> relu\n  let z = h |> sage_conv(classes)",
        &[Placement::Graph],
    ),
    (
        "sage on batches",
        "let h = x |> sage_conv(width) |> relu\n  let z = h |> sage_conv(classes)",
        &[Placement::Minibatch],
    ),
    (
        "gat",
        "let h = x |> gat_conv(width / heads, heads = heads) |> elu\n  let z = h |> gat_conv(classes, concat = false)",
        &[Placement::Graph],
    ),
    // Numbers of edges that lie in memory: they are no attention.
    (
        "weighed",
        "let h = x |> linear(width)\n  let near = relu(sum_cols(h)@src + sum_cols(h)@dst)\n  \
         let z = gather(near * h@src, sum) |> relu |> linear(classes)",
        &[Placement::Graph],
    ),
    (
        "gcnii",
        "let h0 = x |> linear(width) |> relu\n  let h = h0\n  repeat i in 1..=6 {\n    \
         h = h |> layer_norm |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5) |> relu\n  }\n  \
         let z = h |> linear(classes)",
        &[Placement::Graph, Placement::Pipeline],
    ),
];

/// Measures the machine. `watch` gets the name of each measurement and the completed fraction; its error ends
/// the calibration.
///
/// If the noise of repeated measurements exceeds the error of the fitted costs, the number of rounds is doubled, up
/// to `REPEATS` times.
///
/// # Errors
/// A machine that refuses memory or threads, measurements that stay noisy, or an error of `watch`.
pub fn calibrate<E: From<Error>>(
    options: &CalibrateOptions,
    watch: &mut dyn FnMut(&str, f64) -> Result<(), E>,
) -> Result<Calibrated, E> {
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| !options.quick || case.edges <= QUICK)
        .collect();
    let mut heaps = vec![Heap::new(1)];
    if options.ranks > 1 {
        heaps.push(Heap::new(options.ranks));
    }
    let work: f64 = cases.iter().map(|case| case.work()).sum();
    let (mut again, mut repeats) = (String::new(), 0);
    let mut rounds = 0..if options.quick { QUICK_ROUNDS } else { ROUNDS };
    loop {
        let (total, mut done) = (rounds.len() as f64 * work, 0.0);
        for round in rounds.clone() {
            for (number, case) in cases.iter().enumerate() {
                let mut watch = |what: &str, share: f64| {
                    let share = (done + share * case.work()) / total;
                    watch(&format!("{again}{what}"), share)
                };
                case.measure((number, round), &mut heaps, options, &mut watch)?;
                done += case.work();
            }
        }
        let found = conclude(options, &heaps, rounds.end)?;
        let Some(worst) = unsettled(&found.quality).filter(|_| !options.noisy) else {
            return Ok(found);
        };
        if repeats == REPEATS {
            return Err(refused(worst).into());
        }
        (again, repeats) = (why_again(worst), repeats + 1);
        rounds = rounds.end..2 * rounds.end;
    }
}

impl Case {
    /// Approximate time to measure the case, in units of one edge in one epoch.
    fn work(&self) -> f64 {
        self.edges as f64 * self.epochs as f64 + 1e5
    }

    /// Measures all models on the graph of case `number`, in one round.
    fn measure<E: From<Error>>(
        &self,
        (number, round): (usize, usize),
        heaps: &mut [Heap],
        options: &CalibrateOptions,
        watch: &mut dyn FnMut(&str, f64) -> Result<(), E>,
    ) -> Result<(), E> {
        let data = self.graph()?;
        let times = Times {
            epochs: self.epochs,
            round,
        };
        let all = (self.models().count() * self.widths.len() * heaps.len()) as f64;
        let mut done = 0.0;
        for (name, body, placements) in self.models() {
            for (place, &width) in self.widths.iter().enumerate() {
                let heads = HEADS[(number + place) % HEADS.len()];
                let what = format!("{name} of width {width} on {} edges", self.edges);
                let loaded = self.model(body, (width, heads), &data)?;
                let compiled = crate::compile(&loaded.model, &loaded.workload)?;
                for heap in heaps.iter_mut() {
                    watch(&what, done / all)?;
                    for &placement in *placements {
                        // Drawing and fetching do not depend on the width.
                        if placement == Placement::Minibatch && place % 3 > 0 {
                            continue;
                        }
                        for &chunks in self.chunks(placement, options.quick) {
                            let measured = (&loaded, &compiled);
                            heap.measure((placement, chunks), &what, measured, times, options)?;
                        }
                    }
                    done += 1.0;
                }
            }
        }
        Ok(())
    }

    /// The numbers of chunks to measure a placement with.
    fn chunks(&self, placement: Placement, quick: bool) -> &'static [u32] {
        match placement {
            Placement::Pipeline if self.is_staged(quick) => &CHUNKS,
            Placement::Pipeline => &[],
            _ => &[1],
        }
    }

    fn models(
        &self,
    ) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static [Placement])> {
        let deep = |placements: &[Placement]| placements.contains(&Placement::Pipeline);
        let models = MODELS.iter();
        models.filter(move |(_, _, placements)| !deep(placements) || self.edges <= *STAGED.end())
    }

    /// Whether the graph is cut into chunks for stages.
    fn is_staged(&self, quick: bool) -> bool {
        STAGED.contains(&self.edges) || self.edges <= QUICK && quick
    }

    fn model(
        &self,
        body: &str,
        (width, heads): (u32, u32),
        data: &GraphData,
    ) -> Result<Loaded, Error> {
        let text = format!(
            "graph g {{ vertices = 2  edges = 1  features = 1  classes = 2 }}\n\
             model m(width = {width}, heads = {heads}) on g {{\n  {body}\n  \
             loss cross_entropy(z, labels, on = train)\n}}\n\
             train {{ optimizer = adam(lr = 0.01)  epochs = 1 }}\n"
        );
        let source = Source::new("calibration.gir", text);
        let facts = GraphFacts {
            features: self.features,
            classes: self.classes,
            relations: 0,
            ..GraphFacts::PLACEHOLDER
        };
        let (model, diagnostics) = source.check(&facts, &[]);
        let Some(model) = model else {
            return Err(Error::Model {
                file: source.name(),
                text: source.text,
                diagnostics,
            });
        };
        Ok(Loaded {
            model,
            workload: summary::summarise(data, &[])?,
            data: Some(data.clone()),
            by_part: None,
            diagnostics: Vec::new(),
            not_used: Vec::new(),
        })
    }
}

fn conclude(
    options: &CalibrateOptions,
    heaps: &[Heap],
    rounds: usize,
) -> Result<Calibrated, Error> {
    let mut cluster = machine(options)?;
    let (mut quality, mut costs, mut measurements) = (Vec::new(), Vec::new(), Vec::new());
    let mut machine_spread = 1.0f64;
    for heap in heaps {
        let (ranks, repeated) = (heap.ranks, differences(heap));
        let Concluded {
            around,
            waiting,
            found,
        } = heap.conclude(Rounds::All);
        let spreads = spreads(&found);
        machine_spread = machine_spread.max(spreads.machine);
        let mut by_group: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
        for found in found {
            by_group.entry(found.group.clone()).or_default().push(found);
        }
        let mut groups: BTreeMap<String, GroupCosts> = BTreeMap::new();
        for (group, mut found) in by_group {
            let samples: Vec<Sample> = found.iter().map(Sample::from).collect();
            let spread = spreads.groups.get(&group).copied();
            let fitted = fit(&merged(&samples));
            quality.push(Quality {
                ranks,
                group: group.clone(),
                samples: samples.len(),
                error: error(&samples, &fitted),
                repeated: repeated.get(&group).copied().unwrap_or(0.0),
                spread,
            });
            for (found, sample) in found.iter_mut().zip(&samples) {
                found.predicted = seconds(&sample.terms, &fitted);
            }
            measurements.extend(found);
            let named = TERMS.iter().zip(fitted).filter(|(_, cost)| *cost > 0.0);
            let named = named.map(|(term, cost)| ((*term).to_owned(), rounded(cost)));
            let terms = named.collect();
            groups.insert(group, GroupCosts { spread, terms });
        }
        if let Some(link) = groups.get("halo-exchange") {
            let of = |term| link.terms.get(term).copied().unwrap_or(0.0);
            // The latency of a message of one row in one cache line.
            let least = of("launch") + of("row") + 64.0 * of("stream_32k");
            cluster.inside.latency = Seconds(rounded(least));
            cluster.inside.bandwidth = rounded(1.0 / of("stream_4m").max(1e-15));
        }
        costs.push(Costs {
            ranks,
            around: Seconds(rounded(around)),
            waiting: rounded(waiting),
            groups,
        });
    }
    let calibration = &mut cluster.calibration;
    (calibration.basis, calibration.spread) = (Basis::Measured, machine_spread);
    (calibration.link_efficiency, calibration.message_gap) = (1.0, Seconds(0.0));
    calibration.measured = Some(Measured {
        machine: options.machine.clone(),
        date: options.date.clone(),
        costs,
    });
    Ok(Calibrated {
        cluster,
        quality,
        rounds,
        measurements,
    })
}

impl From<&Measurement> for Sample {
    fn from(found: &Measurement) -> Self {
        Self {
            terms: found.terms,
            seconds: found.seconds,
        }
    }
}

/// The machine as a cluster of one node, without costs.
fn machine(options: &CalibrateOptions) -> Result<Cluster, Error> {
    let mut cluster = Cluster::named("cpu")?.resized(Some(options.ranks.max(1)), Some(1))?;
    cluster.name = "this-machine".to_owned();
    if let Device::Cuda(_) = options.device {
        cluster.device.kind = DeviceKind::Gpu;
        cluster.device.name = options.machine.clone();
        cluster.device.memory = options.memory;
        return Ok(cluster);
    }
    cluster.device.name = "core".to_owned();
    cluster.device.memory = Bytes(options.memory.0 / u64::from(options.ranks.max(1)));
    cluster.inside.name = "threads".to_owned();
    // Contention is part of the measured costs, since all ranks exchanged at once.
    cluster.inside.shared_by = SharedBy::Rank;
    Ok(cluster)
}

/// Rounds to four significant digits, more than a measurement has.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
