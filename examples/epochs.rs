//! Training epochs of several models on one graph, for `benches/gpu/epochs.py`: the graph is read once.
//!
//! `epochs GRAPH DEVICE` answers each line of standard input, such as
//! `{"model":"gcn.gir","hidden":64,"epochs":20}`, with a line of JSON. The first epoch of a request is not timed.
//! Device memory is given back before the answer is printed. `DEVICE` is `cpu` or the number of a GPU.
#![allow(clippy::print_stdout, reason = "answers are lines of the output")]

use gnnc::Cache;
use gnnc::device::library_folders;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{Fanout, SamplingSettings};
use gnnc::runtime::device::cuda::LiveOptions;
use gnnc::{Device, LoadOptions, Loaded, Source, TrainOptions, Trainer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::error::Error;
use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

/// What is trained.
#[derive(Deserialize)]
struct Request {
    /// A .gir file.
    model: PathBuf,
    /// Its hidden width.
    hidden: f64,
    /// Timed epochs.
    epochs: u32,
    /// Bytes of memory that training may take on the device; what is free if not given.
    #[serde(default)]
    device_memory: Option<u64>,
    /// Seeds of a batch; on the whole graph if not given.
    #[serde(default)]
    batch: Option<u32>,
    /// Neighbors of each hop of a batch, from the seeds on.
    #[serde(default)]
    fanouts: Vec<u32>,
    /// Threads of the processor: for kernels if it is the device, otherwise to draw a batch.
    #[serde(default = "one")]
    threads: usize,
    /// Threads that draw batches ahead.
    #[serde(default)]
    samplers: u32,
}

fn one() -> usize {
    1
}

impl Request {
    /// How it is trained.
    fn options(&self, given: &TrainOptions) -> TrainOptions {
        let mut options = TrainOptions {
            device_memory: self.device_memory,
            threads: self.threads,
            ..given.clone()
        };
        if let Some(batch) = self.batch {
            options.placement = Placement::Minibatch;
            options.allow = vec![Relaxation::Sample];
            options.knobs.sampling = SamplingSettings {
                batch: Some(batch),
                fanouts: self.fanouts.iter().map(|n| Fanout::Each(*n)).collect(),
                samplers: Some(self.samplers),
                ..SamplingSettings::default()
            };
        }
        options
    }
}

/// A graph that is read for the first request and kept.
struct Bench {
    graph: PathBuf,
    options: TrainOptions,
    loaded: Option<Loaded>,
}

impl Bench {
    /// The model of a request on the graph.
    fn load(&mut self, request: &Request) -> Result<&Loaded, Box<dyn Error>> {
        let set = vec![("hidden".to_owned(), request.hidden)];
        let source = Source::read(&request.model)?;
        let loaded = match self.loaded.take() {
            Some(kept) => {
                let (model, diagnostics) = source.check(&kept.workload.facts(), &set);
                let model = model.ok_or_else(|| format!("{}: {diagnostics:?}", source.name()))?;
                Loaded { model, ..kept }
            }
            None => {
                let graph = Some(self.graph.clone());
                let options = LoadOptions {
                    set,
                    graph,
                    ..LoadOptions::default()
                };
                Loaded::new(&source, &options)?
            }
        };
        Ok(self.loaded.insert(loaded))
    }

    fn answer(&mut self, request: &Request) -> Result<Value, Box<dyn Error>> {
        let begin = Instant::now();
        let options = request.options(&self.options);
        let loaded = self.load(request)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let mut trainer = Trainer::new(loaded, &compiled, &options)?;
        let (mut losses, mut seconds) = (vec![trainer.epoch()?.loss], Vec::new());
        let set_up = begin.elapsed().as_secs_f64();
        for _ in 0..request.epochs {
            let epoch = trainer.epoch()?;
            losses.push(epoch.loss);
            seconds.push(epoch.seconds);
        }
        Ok(json!({
            "epoch_seconds": seconds,
            "losses": losses,
            "set_up_seconds": set_up,
            "peak_bytes": trainer.session.peak_memory_bytes()?,
            "host_bytes": trainer.session.host_bytes(),
            "moved_bytes": trainer.moves(Phase::Step)?,
        }))
    }
}

fn device(name: &str) -> Result<Device, Box<dyn Error>> {
    match name {
        "cpu" => Ok(Device::Cpu),
        number => Ok(Device::Cuda(LiveOptions {
            gpu: number.parse()?,
            folders: library_folders(None),
            ..LiveOptions::default()
        })),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [graph, on] = &words[..] else {
        return Err("expected GRAPH.npz and a device: cpu, or the number of a GPU".into());
    };
    let folder = std::env::var_os("GNNC_CACHE").map(PathBuf::from);
    let mut bench = Bench {
        graph: graph.into(),
        options: TrainOptions {
            device: device(on)?,
            cache: folder.map(|folder| Cache::open(&folder)).transpose()?,
            ..TrainOptions::default()
        },
        loaded: None,
    };
    for line in std::io::stdin().lock().lines() {
        let request: Result<Request, _> = serde_json::from_str(&line?);
        let answered = request.map_err(Into::into).and_then(|r| bench.answer(&r));
        let answer = answered.unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{answer}");
    }
    Ok(())
}
