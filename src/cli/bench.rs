//! `gnnc bench-epoch`: times of training epochs, for benchmarks.

use super::cache::{CacheArgs, say_refused};
use super::device::{DeviceArgs, MemoryArgs, ProcessArgs};
use super::inputs::ModelArgs;
use super::knobs::PlannedArgs;
use super::output::{Answer, Output};
use super::text::{count, facts};
use super::turns::turn;
use clap::Args;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Partitioner, Placement};
use gnnc::ir::program::trace::median;
use gnnc::ir::words::storage::Storage;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::numbers::{EPOCHS, SEEDS, THREADS, WORKERS, within};
use gnnc::runtime::resident_memory;
use gnnc::{TrainOptions, Trainer};
use serde_json::json;

/// Arguments of `bench-epoch`.
#[derive(Args)]
pub struct BenchEpoch {
    #[command(flatten)]
    model: ModelArgs,
    /// Epochs to time; the model's own number of epochs and its patience are ignored.
    #[arg(long, value_name = "N", default_value = "20", value_parser = within(EPOCHS))]
    epochs: u32,
    /// Interleave with another benchmark on the same machine. Each line on standard input gives a number of seconds:
    /// train one epoch to warm the caches, then at least one more until that time is up, and print their times as one
    /// line of JSON.
    #[arg(long = "interleave", alias = "turns", conflicts_with_all = ["epochs", "rank"])]
    turns: bool,
    /// Threads per worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    /// Number of ranks to partition the graph for.
    #[arg(long, value_name = "N", value_parser = within(WORKERS))]
    workers: Option<u32>,
    /// Placement of the work on several ranks.
    #[arg(long, value_name = "NAME", default_value = "graph", value_parser = gnnc::knobs::placement)]
    placement: Placement,
    /// The partitioner: metis, metis-edges, metis-splits, blocks, blocks-train, stream, hash, range or morton; by default metis-edges, on a GPU
    /// metis.
    #[arg(long, value_name = "NAME")]
    partitioner: Option<Partitioner>,
    /// Relaxations to permit besides those of the model: decouple, stale, sample.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Seed of all random draws, instead of the model's.
    #[arg(long, value_name = "N", value_parser = within(SEEDS))]
    seed: Option<u64>,
    #[arg(long, help = super::inputs::storage_help(), value_name = "NAME", default_value = "f32", value_parser = gnnc::knobs::storage)]
    storage: Storage,
    #[command(flatten)]
    knobs: PlannedArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    processes: ProcessArgs,
}

impl BenchEpoch {
    /// Trains without evaluating.
    pub fn run(&self, out: &Output) -> Answer {
        let mut loaded = self.model.load(out)?;
        // Nothing is evaluated.
        loaded.model.train.metric = None;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let (device, workers) = self.processes.device(&self.device, self.workers, None)?;
        let cache = self.cache.open(out)?;
        let options = TrainOptions {
            workers: workers.unwrap_or(1),
            device,
            placement: self.placement,
            allow: self.allow.clone(),
            threads: self.threads,
            device_memory: self.memory.device_memory,
            seed: self.seed,
            knobs: Knobs {
                storage: self.storage,
                partitioner: self.partitioner,
                ..self.knobs.knobs.clone()
            },
            cache: cache.clone(),
            ..TrainOptions::default()
        };
        let features = loaded.data.as_ref().map_or(0, |data| data.features.bytes());
        let before = resident_memory().map(|before| before.saturating_sub(features));
        let mut trainer = Trainer::new(&loaded, &compiled, &options)?;
        loaded.forget_features();
        say_refused(cache.as_ref(), out);
        let (mut losses, mut seconds) = (Vec::new(), Vec::new());
        if self.turns {
            return turns(&mut trainer, out);
        }
        for _ in 0..self.epochs {
            let epoch = trainer.epoch()?;
            losses.push(epoch.loss);
            seconds.push(epoch.seconds);
        }
        let memory = trainer
            .session
            .peak_memory_bytes()
            .map_err(gnnc::Error::from)?;
        let grown = resident_memory().zip(before);
        let grown = grown.map(|(now, before)| now.saturating_sub(before));
        let text = || {
            let shortest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
            facts(&[
                ("epochs", count(u64::from(self.epochs), "epoch")),
                ("shortest", Seconds(shortest).to_string()),
                ("median", Seconds(median(&seconds)).to_string()),
                ("last loss", format!("{:.6}", losses[losses.len() - 1])),
                ("peak memory", Bytes(memory).to_string()),
            ])
        };
        out.report(
            text,
            &json!({
                "model": loaded.model.name,
                "graph": loaded.workload.name,
                "workers": options.workers,
                "threads": self.threads,
                "epoch_seconds": &seconds,
                "losses": &losses,
                "bytes_an_epoch": trainer.step_bytes,
                "peak_memory_bytes": memory,
                "resident_bytes": grown,
            }),
        )
    }
}

/// Trains epochs as standard input asks for them.
fn turns(trainer: &mut Trainer, out: &Output) -> Answer {
    while let Some(long) = turn()? {
        trainer.epoch()?;
        let mut times: Vec<f64> = Vec::new();
        while times.is_empty() || times.iter().sum::<f64>() < long.as_secs_f64() {
            times.push(trainer.epoch()?.seconds);
        }
        out.line(&times)?;
    }
    Ok(())
}
