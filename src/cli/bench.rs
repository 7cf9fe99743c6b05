//! `gnnc bench-epoch`: the times of training epochs, for benchmarks.

use super::cache::{kernels, say_refused};
use super::device::{DeviceArgs, MemoryArgs, ProcessArgs};
use super::inputs::ModelArgs;
use super::numbers::{EPOCHS, SEEDS, THREADS, WORKERS, within};
use super::output::{Answer, Output};
use super::text::{count, facts};
use super::turns::turn;
use clap::Args;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::median;
use gnnc::ir::words::storage::Storage;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::runtime::resident_memory;
use gnnc::{TrainOptions, Trainer};
use serde_json::json;

/// Arguments of `bench-epoch`.
#[derive(Args)]
pub struct BenchEpoch {
    #[command(flatten)]
    model: ModelArgs,
    /// Epochs to time; patience and the model's own number are passed over.
    #[arg(long, value_name = "N", default_value = "20", value_parser = within(EPOCHS))]
    epochs: u32,
    /// Train by turns, to share a machine with what is measured beside: for each line on standard input, a number of
    /// seconds, an epoch is trained that finds nothing in the caches, and then others for so long, at
    /// least one; their times are printed as one line of JSON.
    #[arg(long, conflicts_with_all = ["epochs", "rank"])]
    turns: bool,
    /// Threads of each worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    /// Ranks that the graph is divided among.
    #[arg(long, value_name = "N", value_parser = within(WORKERS))]
    workers: Option<u32>,
    /// How the work is placed on several workers.
    #[arg(long, value_name = "NAME", default_value = "graph", value_parser = super::inputs::placement)]
    placement: Placement,
    /// Relaxations that are permitted, beside those that the model permits: decouple, stale, sample (which nothing needs yet).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Seed of every random draw, in place of the model's.
    #[arg(long, value_name = "N", value_parser = within(SEEDS))]
    seed: Option<u64>,
    /// How tensors lie in memory: f32, or in 16 bits as bf16 or f16; sums are always of 32 bits.
    #[arg(long, value_name = "NAME", default_value = "f32", value_parser = super::inputs::storage)]
    storage: Storage,
    /// Compile every kernel anew and keep none.
    #[arg(long)]
    no_cache: bool,
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
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let (device, workers) = self.processes.device(&self.device, self.workers)?;
        let cache = kernels(!self.no_cache, out)?;
        let options = TrainOptions {
            workers: workers.unwrap_or(1),
            device,
            placement: self.placement,
            allow: self.allow.clone(),
            threads: self.threads,
            device_memory: self.memory.device_memory,
            seed: self.seed,
            storage: self.storage,
            cache: cache.clone(),
            ..TrainOptions::default()
        };
        let before = resident_memory();
        let mut trainer = Trainer::new(&loaded, &compiled, &options)?;
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
        let memory = trainer.session.peak_memory_bytes();
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

/// Epochs whenever they are asked for.
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
