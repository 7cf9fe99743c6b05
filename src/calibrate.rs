//! Measuring the machine at hand: layers of the standard library are trained on generated
//! graphs, and every instruction's time is explained by what the instruction asks for.

mod fit;

use crate::{Compiled, Error, Loaded, Source, TrainOptions, Trainer};
use fit::{Sample, error, fit, seconds};
use gnnc_graph::generate::{Attributes, Rmat};
use gnnc_graph::{Features, GraphData, summary};
use gnnc_ir::cluster::{Basis, Cluster, Costs, Measured, SharedBy};
use gnnc_ir::model::GraphFacts;
use gnnc_ir::plan::Placement;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::trace::{Event, Phase, Resource, Trace};
use gnnc_ir::units::{Bytes, Seconds};
use gnnc_ir::work::{TERM_COUNT, TERMS, demand};
use gnnc_planner::placement::{self, Flow};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How to measure.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// Name of the machine, for the file.
    pub machine: String,
    /// The day, for the file.
    pub date: String,
    /// Ranks that are measured side by side; 1 measures a rank alone and no messages.
    pub ranks: u32,
    /// Leave out the large graphs.
    pub quick: bool,
    /// Memory of the machine, shared by the ranks.
    pub memory: Bytes,
    /// Where compiled kernels are kept.
    pub cache_dir: Option<PathBuf>,
}

/// How well the costs explain what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Ranks that ran at once.
    pub ranks: u32,
    /// Instructions that share costs.
    pub group: String,
    /// Instructions that were measured.
    pub samples: usize,
    /// The mean of the absolute relative errors.
    pub error: f64,
}

/// A calibrated machine.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The machine as a cluster of one node, to be written to a file.
    pub cluster: Cluster,
    /// How well its costs explain what was measured.
    pub quality: Vec<Quality>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
}

/// The time of one instruction on one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Ranks that ran at once.
    pub ranks: u32,
    /// What was trained on what.
    pub what: String,
    /// Place of the instruction in the step.
    pub at: String,
    /// Instructions that share costs, or the name of one that communicates.
    pub group: String,
    /// Counts beside [`TERMS`]; none of one that communicates.
    pub terms: Vec<f64>,
    /// Bytes sent.
    pub bytes: u64,
    /// The lower eighth of its times, waiting not counted.
    pub seconds: f64,
    /// What the costs make of it.
    pub predicted: f64,
}

/// One graph to train on.
#[derive(Clone, Copy)]
struct Case {
    vertices: u32,
    arcs: u64,
    features: u32,
    /// Of how many features one is not 0; 1 for dense features.
    sparsity: u32,
    classes: u32,
    widths: &'static [u32],
    epochs: usize,
}

const ALL: &[u32] = &[8, 16, 32, 64, 128, 256];
const FEW: &[u32] = &[16, 48, 128, 256];

/// Sizes between those of a few kilobytes and those of hundreds of megabytes.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { vertices: 600, arcs: 3_000, features: 64, sparsity: 1, classes: 5, widths: ALL, epochs: 12 },
    Case { vertices: 3_000, arcs: 20_000, features: 1_000, sparsity: 60, classes: 6, widths: ALL, epochs: 8 },
    Case { vertices: 10_000, arcs: 120_000, features: 500, sparsity: 12, classes: 12, widths: FEW, epochs: 4 },
    Case { vertices: 16_000, arcs: 400_000, features: 500, sparsity: 1, classes: 9, widths: ALL, epochs: 3 },
    Case { vertices: 60_000, arcs: 900_000, features: 200, sparsity: 1, classes: 14, widths: FEW, epochs: 2 },
    Case { vertices: 150_000, arcs: 2_500_000, features: 100, sparsity: 1, classes: 20, widths: FEW, epochs: 1 },
];
/// Rounds of all cases: a machine that others share is slow for seconds at a time, and what is
/// measured once may be measured then.
const ROUNDS: usize = 4;
/// Cases with fewer arcs are quick.
const QUICK: u64 = 30_000;

const MODELS: &[(&str, &str)] = &[
    (
        "gcn",
        "let h = x |> gcn_conv(width) |> relu\n  let z = h |> gcn_conv(classes)",
    ),
    (
        "sage",
        "let h = x |> sage_conv(width) |> relu\n  let z = h |> sage_conv(classes)",
    ),
    (
        "gat",
        "let h = x |> gat_conv(width / 4, heads = 4) |> elu\n  let z = h |> gat_conv(classes, concat = false)",
    ),
];

/// Measures the machine. `watch` is told what is measured, with the share that is done.
///
/// # Errors
/// A machine that refuses memory or threads.
pub fn calibrate(
    options: &CalibrateOptions,
    watch: &mut dyn FnMut(&str, f64),
) -> Result<Calibrated, Error> {
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| !options.quick || case.arcs <= QUICK)
        .collect();
    let counts: &[u32] = &[1, options.ranks];
    let counts = if options.ranks > 1 {
        counts
    } else {
        &counts[..1]
    };
    let work = |case: &Case| case.arcs as f64 * case.epochs as f64 + 1e5;
    let total = ROUNDS as f64 * cases.iter().map(|case| work(case)).sum::<f64>();
    let mut heaps: Vec<Heap> = counts.iter().map(|&ranks| Heap::new(ranks)).collect();
    let mut done = 0.0;
    for _ in 0..ROUNDS {
        for case in &cases {
            let data = case.graph()?;
            for (name, body) in MODELS {
                for &width in case.widths {
                    let what = format!("{name} of width {width} on {} arcs", case.arcs);
                    watch(&what, done / total);
                    let loaded = case.model(body, width, &data)?;
                    let compiled = crate::compile(&loaded.model, &loaded.workload)?;
                    for heap in &mut heaps {
                        heap.measure(&what, &loaded, &compiled, case.epochs, options)?;
                    }
                    done += work(case) / (MODELS.len() * case.widths.len()) as f64;
                }
            }
        }
    }
    conclude(options, heaps)
}

impl Case {
    fn graph(&self) -> Result<GraphData, Error> {
        let rmat = Rmat {
            vertices: self.vertices,
            arcs: self.arcs,
            attributes: Attributes {
                features: self.features,
                classes: self.classes,
                train: 0.1,
                ..Attributes::default()
            },
            seed: 7,
            ..Rmat::default()
        };
        let mut data = rmat.generate()?;
        if self.sparsity > 1 {
            let columns = self.features;
            let mut values = data.features.to_dense().values().to_vec();
            for (i, value) in values.iter_mut().enumerate() {
                // Scattered, and the same on every machine.
                let hash = (i as u32).wrapping_mul(0x9e37_79b1) >> 8;
                if !hash.is_multiple_of(self.sparsity) {
                    *value = 0.0;
                }
            }
            data.features = Features::dense(self.vertices as usize, columns, values);
        }
        data.features = data.features.in_best_storage();
        Ok(data)
    }

    fn model(&self, body: &str, width: u32, data: &GraphData) -> Result<Loaded, Error> {
        let text = format!(
            "graph g {{ vertices = 2  edges = 1  features = 1  classes = 2 }}\n\
             model m(width = {width}) on g {{\n  {body}\n  \
             loss cross_entropy(z, labels, on = train)\n}}\n\
             train {{ optimizer = adam(lr = 0.01)  epochs = 1 }}\n"
        );
        let source = Source::new("calibration.gir", text);
        let facts = GraphFacts {
            features: self.features,
            classes: self.classes,
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
            diagnostics: Vec::new(),
            not_used: Vec::new(),
        })
    }
}

/// What was measured with a number of ranks at once.
struct Heap {
    ranks: u32,
    /// Instructions, with all times that were measured.
    instructions: BTreeMap<Place, (Measurement, Vec<f64>)>,
    /// Seconds of an epoch before the first and after the last instruction.
    around: Vec<f64>,
}

/// What was trained on what, the rank, and the place of the instruction.
type Place = (String, u32, String);

impl Heap {
    fn new(ranks: u32) -> Self {
        Self {
            ranks,
            instructions: BTreeMap::new(),
            around: Vec::new(),
        }
    }

    fn measure(
        &mut self,
        what: &str,
        loaded: &Loaded,
        compiled: &Compiled,
        epochs: usize,
        options: &CalibrateOptions,
    ) -> Result<(), Error> {
        // Instructions are measured whole.
        let flow = Flow {
            overlap: false,
            chunks: 1,
        };
        let run = TrainOptions {
            workers: self.ranks,
            cache_dir: options.cache_dir.clone(),
            // Names are random, so that a range is as good as any other part, and quick to make.
            partitioner: "range".to_owned(),
            trace: true,
            flow,
            ..TrainOptions::default()
        };
        let mut trainer = Trainer::new(loaded, compiled, &run)?;
        trainer.epoch()?;
        trainer.session.take_trace();
        let mut walls = Vec::new();
        for _ in 0..epochs {
            walls.push(trainer.epoch()?.seconds);
        }
        let trace = trainer.session.take_trace();
        let program = compiled.program(&placement::Place {
            placement: Placement::Graph,
            ranks: self.ranks,
            alpha: 0.0,
            flow,
        })?;
        self.around.extend(around(&trace, &walls));
        for ((rank, at), (seconds, event)) in times(&trace) {
            let Some(instr) = find(&program, at) else {
                continue;
            };
            let place = (what.to_owned(), rank, at.to_owned());
            let (_, all) = self.instructions.entry(place).or_insert_with(|| {
                let demand = demand(&program, instr, &trainer.sizes[rank as usize]);
                let group = demand.as_ref().map_or(event.name.as_str(), |d| d.group);
                let measurement = Measurement {
                    ranks: self.ranks,
                    what: what.to_owned(),
                    at: at.to_owned(),
                    group: group.to_owned(),
                    terms: demand.map_or_else(Vec::new, |d| d.terms.to_vec()),
                    bytes: event.bytes_sent,
                    seconds: 0.0,
                    predicted: 0.0,
                };
                (measurement, Vec::new())
            });
            all.extend(seconds);
        }
        Ok(())
    }
}

/// The instruction at a place of the step; none inside of loops.
fn find<'a>(program: &'a Program, at: &str) -> Option<&'a Instr> {
    program.step.get(at.parse::<usize>().ok()?)
}

/// By rank and place, the times without waiting, and one of the events.
fn times(trace: &Trace) -> BTreeMap<(u32, &str), (Vec<f64>, &Event)> {
    let step = || trace.events.iter().filter(|e| e.phase == Phase::Step);
    let mut arrived: BTreeMap<(u64, &str), f64> = BTreeMap::new();
    for event in step() {
        let last = arrived.entry((event.epoch, &event.at)).or_insert(0.0);
        *last = event.begin_us.max(*last);
    }
    let mut all: BTreeMap<(u32, &str), (Vec<f64>, &Event)> = BTreeMap::new();
    for event in step() {
        let all_there = arrived.get(&(event.epoch, event.at.as_str()));
        let begin = match event.resource {
            Resource::Network => all_there.copied().unwrap_or(event.begin_us),
            Resource::Compute | Resource::Copy => event.begin_us,
        };
        let found = all
            .entry((event.rank, &event.at))
            .or_insert((Vec::new(), event));
        found.0.push((event.end_us - begin).max(0.01) / 1e6);
    }
    all
}

/// Seconds of each epoch that no instruction takes.
fn around(trace: &Trace, walls: &[f64]) -> Vec<f64> {
    let mut spans: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for event in trace.events.iter().filter(|e| e.phase == Phase::Step) {
        let span = spans.entry(event.epoch).or_insert((f64::INFINITY, 0.0));
        *span = (span.0.min(event.begin_us), span.1.max(event.end_us));
    }
    let spans = spans.values().zip(walls);
    spans
        .map(|((begin, end), wall)| (wall - (end - begin) / 1e6).max(0.0))
        .collect()
}

fn conclude(options: &CalibrateOptions, heaps: Vec<Heap>) -> Result<Calibrated, Error> {
    let mut cluster = machine(options)?;
    let (mut quality, mut costs, mut measurements) = (Vec::new(), Vec::new(), Vec::new());
    for heap in heaps {
        let (around, ranks) = (Seconds(rounded(median(heap.around))), heap.ranks);
        let mut by_group: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
        for (found, times) in heap.instructions.into_values() {
            let group = by_group.entry(found.group.clone()).or_default();
            group.push(Measurement {
                seconds: quiet(times),
                ..found
            });
        }
        let mut groups = BTreeMap::new();
        for (group, mut found) in by_group {
            let samples: Vec<Sample> = found.iter().map(sample).collect();
            let fitted = fit(&samples);
            quality.push(Quality {
                ranks,
                group: group.clone(),
                samples: samples.len(),
                error: error(&samples, &fitted),
            });
            for (found, sample) in found.iter_mut().zip(&samples) {
                found.predicted = seconds(&sample.terms, &fitted);
            }
            measurements.extend(found);
            match group.as_str() {
                "halo-exchange" => {
                    cluster.inside.latency = Seconds(rounded(fitted[0]));
                    cluster.inside.bandwidth = rounded(1.0 / fitted[BYTES].max(1e-15));
                }
                "halo-reduce" | "all-reduce" => {}
                _ => {
                    let named = TERMS.iter().zip(fitted).filter(|(_, cost)| *cost > 0.0);
                    let named = named.map(|(term, cost)| ((*term).to_owned(), rounded(cost)));
                    groups.insert(group, named.collect());
                }
            }
        }
        costs.push(Costs {
            ranks,
            around,
            groups,
        });
    }
    let calibration = &mut cluster.calibration;
    (calibration.basis, calibration.spread) = (Basis::Measured, SPREAD);
    (calibration.link_efficiency, calibration.message_gap) = (1.0, Seconds(0.0));
    calibration.measured = Some(Measured {
        machine: options.machine.clone(),
        date: options.date.clone(),
        costs,
    });
    Ok(Calibrated {
        cluster,
        quality,
        measurements,
    })
}

/// A measurement as the fit takes it: messages by their number and bytes.
fn sample(found: &Measurement) -> Sample {
    let mut terms = [0.0; TERM_COUNT];
    match found.terms.is_empty() {
        true => (terms[0], terms[BYTES]) = (1.0, found.bytes as f64),
        false => terms.copy_from_slice(&found.terms),
    }
    Sample {
        terms,
        seconds: found.seconds,
    }
}

/// The term that stands for the bytes of messages: the last one.
const BYTES: usize = TERM_COUNT - 1;

/// The factor by which predictions for a calibrated machine were off at most.
const SPREAD: f64 = 1.9;

/// The machine as one node, with peaks read off its costs where reports show them.
fn machine(options: &CalibrateOptions) -> Result<Cluster, Error> {
    let mut cluster = Cluster::named("cpu")?.resized(Some(options.ranks.max(1)), Some(1))?;
    cluster.name = "this-machine".to_owned();
    cluster.device.name = "core".to_owned();
    cluster.device.memory = Bytes(options.memory.0 / u64::from(options.ranks.max(1)));
    cluster.inside.name = "threads".to_owned();
    // Ranks that exchange at once were measured at once.
    cluster.inside.shared_by = SharedBy::Rank;
    Ok(cluster)
}

/// Four significant digits, more than a measurement has.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The lower eighth: the time of an instruction that nothing else on the machine disturbed.
fn quiet(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 8).copied().unwrap_or(0.0)
}

/// The middle value; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
