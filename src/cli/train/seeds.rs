//! `gnnc train --seeds`: one run per seed, and the spread of their scores.

use super::{Train, target};
use crate::cli::inputs::headline;
use crate::cli::output::{Answer, Output, input};
use crate::cli::summary::loss;
use crate::cli::text::{count, facts, score, score_or_dash};
use crate::cli::watch::progress_bar;
use gnnc::Choice;
use gnnc::ir::words::units::Seconds;
use gnnc::runtime::Stop;
use gnnc::{Cache, Compiled, Loaded, Summary, train_traced};
use indicatif::ProgressBar;
use serde_json::json;
use std::path::{Path, PathBuf};

impl Train {
    /// Trains once per seed.
    pub(super) fn several(
        &self,
        out: &Output,
        loaded: &Loaded,
        compiled: &Compiled,
        seeds: u64,
        choice: Option<&Choice>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Answer {
        let first = self.seed.unwrap_or(loaded.model.train.seed);
        let Some(end) = first.checked_add(seeds) else {
            return Err(input(format!(
                "{seeds} seeds from {first} on do not fit into 64 bits; start lower"
            )));
        };
        let metric = loaded.metric();
        let bar = match self.quiet {
            true => ProgressBar::hidden(),
            false => progress_bar(out, seeds),
        };
        let mut runs = Vec::new();
        for seed in first..end {
            if stop.is_asked() {
                // The epoch that was the last of a run ended in order.
                break;
            }
            let mut options =
                self.options(loaded, Some(seed), choice, cache.clone(), stop.clone())?;
            options.checkpoint = self.checkpoint.as_deref().map(|file| of_seed(file, seed));
            let (summary, _) = train_traced(loaded, compiled, &options, &mut |_| ())?;
            if summary.interrupted {
                // An interrupted run does not count.
                break;
            }
            if !out.is_json() && !self.quiet {
                if runs.is_empty() {
                    let name = metric.name();
                    let head = format!(
                        "{:>10}  {:>6}  {:>10}  {:>12}  {:>13}  {:>12}",
                        "seed",
                        "epochs",
                        "loss",
                        format!("val {name}"),
                        format!("test {name}"),
                        "epoch time"
                    );
                    bar.suspend(|| out.text(&format!("{}\n{head}\n", headline(loaded))))?;
                }
                let line = format!(
                    "{seed:>10}  {:>6}  {:>10}  {:>12}  {:>13}  {:>12}\n",
                    summary.epochs,
                    loss(summary.train_loss),
                    score_or_dash(metric, summary.scores.val),
                    score_or_dash(metric, summary.scores.test),
                    Seconds(summary.epoch_seconds),
                );
                bar.suspend(|| out.text(&line))?;
            }
            bar.inc(1);
            runs.push(summary);
        }
        bar.finish_and_clear();
        if runs.is_empty() {
            // A signal ended the first run.
            return Ok(());
        }
        let of = |score: fn(&Summary) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(score).collect();
            values.as_deref().map(Spread::of)
        };
        let all: Vec<&Summary> = runs.iter().collect();
        let predicted = target::predicted(choice, &all);
        let scores = [
            ("val", of(|run| run.scores.val)),
            ("test", of(|run| run.scores.test)),
        ];
        let seconds: Vec<f64> = runs.iter().map(|run| run.epoch_seconds).collect();
        let seconds = Spread::of(&seconds).mean;
        if !out.is_json() {
            let spread = |spread: &Spread| {
                format!(
                    "{} mean of {}, standard deviation {}",
                    score(metric, spread.mean),
                    count(runs.len() as u64, "seed"),
                    score(metric, spread.deviation)
                )
            };
            let names = scores.map(|(set, _)| format!("{set} {}", metric.name()));
            let mut lines: Vec<(&str, String)> = Vec::new();
            for (name, (_, found)) in names.iter().zip(&scores) {
                lines.extend(found.iter().map(|found| (name.as_str(), spread(found))));
            }
            let time = format!("{} (mean of medians)", Seconds(seconds));
            lines.push(("epoch", time));
            lines.extend(target::lines_of_seeds(metric, &all, predicted.as_ref()));
            let gap = if self.quiet { "" } else { "\n" };
            out.text(&format!("{gap}{}", facts(&lines)))?;
            return target::answer(&all);
        }
        let mut report = json!({
            "model": loaded.model.name,
            "graph": loaded.workload.name,
            "seeds": runs.len(),
            "first_seed": first,
            "metric": metric.key(),
            "epoch_seconds": seconds,
            "runs": all.iter().map(|run| target::json(run, predicted.as_ref())).collect::<Vec<_>>(),
        });
        for (set, found) in &scores {
            let key = format!("{set}_{}", metric.key());
            report[format!("{key}_deviation")] = json!(found.map(|found| found.deviation));
            report[key] = json!(found.map(|found| found.mean));
        }
        out.json(&report)?;
        target::answer(&all)
    }
}

/// The file of one of several runs.
fn of_seed(file: &Path, seed: u64) -> PathBuf {
    let name = file.file_name().unwrap_or_default();
    let mut name = name.to_os_string();
    name.push(format!(".seed-{seed}"));
    file.with_file_name(name)
}

/// Mean and deviation over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    /// The sample standard deviation; 0 for a single value.
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = if values.len() > 1 {
            (squares / (n - 1.0)).sqrt()
        } else {
            0.0
        };
        Self { mean, deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        let spread = |mean, deviation| Spread { mean, deviation };
        assert_eq!(Spread::of(&[2.0]), spread(2.0, 0.0));
        assert_eq!(Spread::of(&[1.0, 3.0]), spread(2.0, 2f64.sqrt()));
    }
}
