//! The knobs of placements on the command line: as options of a run and as `--pin KEY=VALUE` of a search.

use super::numbers::{CHUNKS, DEVICES, EPOCHS, within};
use super::output::{Failure, input};
use clap::Args;
use gnnc::ir::plan::{Layout, Partitioner, Placement};
use gnnc::ir::program::{RULES, Skipping};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::{self, Flow, Stages};
use gnnc::planner::search::Pin;
use std::ops::RangeInclusive;

/// How work is split, overlapped, skipped and stored.
#[derive(Args)]
pub struct FlowArgs {
    /// Do not overlap communication with computation.
    #[arg(long)]
    no_overlap: bool,
    /// Compute interior rows (those that read no halo row) while halo rows are in flight.
    #[arg(long)]
    interior: bool,
    /// When to skip exchanges, if the placement allows it: fixed:EPOCHS, adaptive:EPOCHS or gap:DISTANCE. Append /cut to send each reader only the rows it has edges from, then /stop to drop the gradients of rows
    /// that were not sent, then /clip:LENGTH to clip the gradients of embeddings.
    #[arg(long, value_name = "RULE")]
    skip: Option<Skipping>,
    /// Number of chunks. Placements that slice columns cut the work on all vertices into them (default 1); a pipeline
    /// takes them as micro-batches of vertices (default 4 per stage).
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    chunks: Option<u32>,
    /// Stages of a pipeline; by default one per rank.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    stages: Option<u32>,
    /// Virtual stages per stage: chunks pass through all stages once for each, so stages wait less when chunks are few.
    /// 1 by default.
    #[arg(long = "virtual-stages", alias = "turns", value_name = "N", value_parser = within(CHUNKS))]
    virtual_stages: Option<u32>,
    /// Layers of each stage, such as 4,3,3, or of each virtual stage in the order of the model; by default the fastest division.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = within(CHUNKS))]
    layers: Vec<u32>,
    /// Epochs between updates of a pipeline's histories.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    interval: Option<u32>,
    /// Process a pipeline's chunks in the same order in every epoch.
    #[arg(long)]
    no_shuffle: bool,
    /// How tensors are stored: f32 (the default), bf16 or f16. Sums always use 32 bits.
    #[arg(long, value_name = "NAME", value_parser = super::inputs::storage)]
    pub storage: Option<Storage>,
}

impl FlowArgs {
    /// When to skip exchanges.
    pub fn skip(&self) -> Option<Skipping> {
        self.skip
    }

    /// How tensors are stored.
    pub fn storage(&self) -> Storage {
        self.storage.unwrap_or_default()
    }

    /// The options of the library.
    pub fn flow(&self) -> Flow {
        Flow {
            overlap: !self.no_overlap,
            chunks: self.chunks.unwrap_or(1),
            interior: self.interior,
        }
    }

    /// Search constraints implied by these flags.
    pub fn pin(&self) -> Pin {
        Pin {
            chunks: self.chunks,
            skip: self.skip,
            stages: self.stages,
            virtual_stages: self.virtual_stages,
            layers: (!self.layers.is_empty()).then(|| self.layers.clone()),
            interval: self.interval,
            storage: self.storage(),
            interior: self.interior.then_some(true),
            ..Pin::default()
        }
    }

    /// The first of these options on the command line, if any.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--no-overlap", self.no_overlap),
            ("--interior", self.interior),
            ("--skip", self.skip.is_some()),
            ("--chunks", self.chunks.is_some()),
            ("--stages", self.stages.is_some()),
            ("--virtual-stages", self.virtual_stages.is_some()),
            ("--layers", !self.layers.is_empty()),
            ("--interval", self.interval.is_some()),
            ("--no-shuffle", self.no_shuffle),
            ("--storage", self.storage.is_some()),
        ];
        all.into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }

    /// Whether chunks keep the same order in every epoch.
    pub fn ordered(&self) -> bool {
        self.no_shuffle
    }

    /// The stages of a pipeline on `ranks` ranks. Without `--stages`, the number of stages of a hybrid is chosen later.
    pub fn stages(&self, placement: Placement, ranks: u32) -> Stages {
        let all = self
            .stages
            .map_or_else(|| Stages::of(placement, ranks), Stages::new);
        Stages {
            virtual_stages: self.virtual_stages.unwrap_or(all.virtual_stages),
            layers: self.layers.clone(),
            chunks: self.chunks.unwrap_or(all.chunks),
            shuffle: !self.no_shuffle,
            interval: self.interval.unwrap_or(all.interval),
            ..all
        }
    }
}

/// The constraints of `--pin`.
///
/// # Errors
/// A key or a value that is none.
pub fn pins(all: &[String], storage: Storage) -> Result<Pin, Failure> {
    let mut pin = Pin {
        storage,
        ..Pin::default()
    };
    for text in all {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let (key, value) = (key.trim(), value.trim());
        let wrong =
            |expected: String| Err(input(format!("found --pin {text}, expected {expected}")));
        match key {
            "placement" => match super::inputs::placement(value) {
                Ok(placement) => pin.placement = Some(placement),
                Err(_) => {
                    let known = placement::names().join(", ");
                    return wrong(format!("placement= one of {known}"));
                }
            },
            "partitioner" => match Partitioner::ALL.iter().find(|p| p.name() == value) {
                Some(partitioner) => pin.partitioner = Some(*partitioner),
                None => {
                    return wrong(format!("partitioner= one of {}", names(Partitioner::ALL)));
                }
            },
            "ranks" => match number(value, DEVICES) {
                Ok(ranks) => pin.ranks = Some(ranks),
                Err(expected) => return wrong(format!("ranks= {expected}")),
            },
            "chunks" => match number(value, CHUNKS) {
                Ok(chunks) => pin.chunks = Some(chunks),
                Err(expected) => return wrong(format!("chunks= {expected}")),
            },
            "skip" => match value.parse() {
                Ok(rule) => pin.skip = Some(rule),
                Err(_) => return wrong(format!("skip= one of {RULES}")),
            },
            // The skipping system's own name for it.
            "stale_grad" if value == "through" => {}
            "stale_grad" => {
                let why = "stale_grad=through, which passes gradients on as if all rows were current; \
                               to drop the gradients of copies, append /stop to the rule, as in skip=RULE/stop";
                return wrong(why.to_owned());
            }
            "stages" => match number(value, CHUNKS) {
                Ok(stages) => pin.stages = Some(stages),
                Err(expected) => return wrong(format!("stages= {expected}")),
            },
            "virtual-stages" | "turns" => match number(value, CHUNKS) {
                Ok(virtual_stages) => pin.virtual_stages = Some(virtual_stages),
                Err(expected) => return wrong(format!("virtual-stages= {expected}")),
            },
            "interval" => match number(value, EPOCHS) {
                Ok(interval) => pin.interval = Some(interval),
                Err(expected) => return wrong(format!("interval= {expected}")),
            },
            "offload" => match value {
                "yes" => pin.offload = Some(true),
                "no" => pin.offload = Some(false),
                _ => return wrong("offload=yes or offload=no".to_owned()),
            },
            "interior" => match value {
                "yes" => pin.interior = Some(true),
                "no" => pin.interior = Some(false),
                _ => return wrong("interior=yes or interior=no".to_owned()),
            },
            "features" => match Layout::ALL.iter().find(|l| l.name() == value) {
                Some(layout) => pin.features = Some(*layout),
                None => return wrong(format!("features= one of {}", names(Layout::ALL))),
            },
            _ => {
                let known = "placement=NAME, ranks=N, partitioner=NAME, chunks=N, skip=RULE, stages=N, \
                                 virtual-stages=N, interval=N, offload=yes|no (whether tensors are offloaded to the \
                                 host; by default only where they must be), interior=yes|no (whether interior rows \
                                 are computed while halo rows are in flight; by default where it pays) or \
                                 features=columns (mixtures that begin with push-pull)";
                return wrong(known.to_owned());
            }
        }
    }
    Ok(pin)
}

/// Parses a number in `range`; the error says what was expected.
fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    within(range)(text).map_err(|said| said.trim_start_matches("expected ").to_owned())
}

/// The names, separated by commas.
fn names<T: ToString>(all: &[T]) -> String {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    names.join(", ")
}
