//! The summary that `gnnc train` prints at the end of a run.

use super::text::{count, facts, grouped, percent, score};
use gnnc::ir::words::sampling::Fanout;
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::{Loaded, Metric, Summary, TargetRun, Waited};

/// The warning for a graph without validation vertices, by which no epoch can be chosen.
pub fn unchosen(loaded: &Loaded) -> String {
    let (name, mut text) = (loaded.metric().name(), String::new());
    if loaded.workload.split[2] > 0 {
        text = format!(", so the test {name} is from the last evaluation");
    }
    if loaded.model.train.patience.is_some() {
        text.push_str("; the model's `patience` has no effect");
    }
    format!("warning: the graph has no validation vertices to choose the best epoch by{text}\n")
}

/// The summary as text.
///
/// `predicted` is what the plan said of the way to the target.
pub fn summary_text(summary: &Summary, predicted: Option<String>) -> String {
    let metric = summary.scores.metric;
    let [val, test] = ["val", "test"].map(|set| format!("{set} {}", metric.name()));
    let mut lines = vec![
        (
            "run",
            format!(
                "{}, {} each, seed {}",
                count(u64::from(summary.workers), "worker"),
                count(summary.threads as u64, "thread"),
                summary.seed
            ),
        ),
        (
            "epochs",
            if summary.interrupted {
                format!("{} (interrupted)", grouped(summary.epochs))
            } else if summary.target.is_some_and(|target| target.reached) {
                format!("{} (reached the target)", grouped(summary.epochs))
            } else if summary.stopped_early {
                format!("{} (stopped early by `patience`)", grouped(summary.epochs))
            } else {
                grouped(summary.epochs)
            },
        ),
        (
            "train loss",
            if !summary.losses.is_empty() {
                loss(summary.train_loss)
            } else if summary.interrupted {
                "none: no epoch finished".to_owned()
            } else {
                "none: the checkpoint already has all requested epochs".to_owned()
            },
        ),
    ];
    let when = match summary.best_epoch {
        Some(epoch) => match summary.chosen_by {
            None => format!("at epoch {epoch}, the lowest validation loss"),
            Some(metric) => format!("at epoch {epoch}, the best validation {}", metric.name()),
        },
        None => "at the last evaluation".to_owned(),
    };
    for (name, value) in [(&val, summary.scores.val), (&test, summary.scores.test)] {
        if let Some(value) = value {
            lines.push((name, format!("{} {when}", score(metric, value))));
        }
    }
    if let Some(target) = &summary.target {
        lines.push(("target", way(metric, target)));
        lines.extend(predicted.map(|predicted| ("predicted", predicted)));
    }
    if !summary.eval_fanouts.is_empty() {
        let fanouts: Vec<String> = summary.eval_fanouts.iter().map(Fanout::to_string).collect();
        let fanouts = fanouts.join(",");
        lines.push((
            "evaluated",
            format!("on sampled neighbors, fanouts {fanouts}; all neighbors may score differently"),
        ));
    }
    lines.push((
        "epoch",
        format!(
            "{} (median, without evaluation)",
            Seconds(summary.epoch_seconds)
        ),
    ));
    lines.push((
        "peak memory",
        format!("{} (worst worker)", Bytes(summary.peak_memory_bytes)),
    ));
    if summary.host_memory_bytes > 0 {
        lines.push((
            "on the host",
            format!(
                "{} (worst worker); {} bytes copied per epoch, as predicted",
                Bytes(summary.host_memory_bytes),
                grouped(summary.epoch_moved_bytes)
            ),
        ));
    }
    if summary.grown > 0 {
        lines.push((
            "grown",
            format!(
                "{} larger than the memory planned for, which was laid out anew",
                counted(grouped(summary.grown), "batch")
            ),
        ));
    }
    if let Some(hits) = summary.cache_hits {
        let of = "of the rows of other workers that batches of the last epoch read";
        lines.push(("cached", format!("{:.1} % {of}", 100.0 * hits)));
    }
    if let Some(found) = &summary.merges {
        let seconds = found.epoch_seconds.iter().map(|s| Seconds(*s).to_string());
        let seconds: Vec<String> = seconds.collect();
        let of = "with 0, 1, ... merges an epoch took";
        lines.push((
            "merges",
            format!("{}: {of} {}", found.merges, seconds.join(", ")),
        ));
    }
    lines.extend(waited(&summary.waited).map(|text| ("waited", text)));
    if summary.workers > 1 {
        lines.push((
            "sent",
            format!(
                "{} bytes in the epochs of this run{}, as predicted",
                grouped(summary.bytes_sent),
                match summary.bytes_crossed {
                    0 => String::new(),
                    crossed => format!(", {} of them halo rows between nodes", grouped(crossed)),
                }
            ),
        ));
    }
    lines.extend(copies(summary));
    facts(&lines)
}

/// How long processes waited for others, if there were several.
fn waited(all: &[Waited]) -> Option<String> {
    let by_share =
        |(_, a): &(usize, &Waited), (_, b): &(usize, &Waited)| a.share.total_cmp(&b.share);
    let (slowest, least) = all.iter().enumerate().min_by(by_share)?;
    let (_, most) = all.iter().enumerate().max_by(by_share)?;
    Some(format!(
        "{} to {} of the time for messages; process {slowest} on {} waited least",
        percent(least.share),
        percent(most.share),
        least.host
    ))
}

/// How a run came to its target, or how far.
fn way(metric: Metric, way: &TargetRun) -> String {
    let goal = format!("val {} {}", metric.name(), score(metric, way.target));
    let took = format!(
        "{} and {} of evaluations",
        Seconds(way.seconds),
        Seconds(way.evaluation_seconds)
    );
    let best = way.score.map(|best| score(metric, best));
    match (way.reached, best) {
        (true, best) => format!(
            "{goal} reached with {} at epoch {}, after {} in {took}",
            best.unwrap_or_default(),
            grouped(way.epoch),
            counted(grouped(way.steps), "step")
        ),
        (false, Some(best)) => format!(
            "{goal} not reached: the best is {best} at epoch {}; all epochs took {took}",
            grouped(way.epoch)
        ),
        (false, None) => format!("{goal} not reached: nothing was scored; all epochs took {took}"),
    }
}

/// The bytes that were skipped, and the ages of the copies that were read instead.
fn copies(summary: &Summary) -> Vec<(&'static str, String)> {
    if summary.bytes_skippable == 0 {
        return histories(summary);
    }
    let (of, left) = (summary.bytes_skippable, summary.bytes_skipped);
    let out = format!(
        "{} of {} bytes of embeddings ({})",
        grouped(left),
        grouped(of),
        percent(left as f64 / of as f64)
    );
    let mut lines = vec![("skipped", out)];
    if let Some(epoch) = summary.copies_anew_at {
        let text = format!(
            "all sent again in epoch {}, the first of this run",
            epoch + 1
        );
        lines.push(("copies", text));
    }
    let layers = summary.staleness.iter().flat_map(|s| &s.layers);
    for layer in layers {
        let all: u64 = layer.ages.values().sum();
        let share = |(age, rows): (&u64, &u64)| {
            format!("{age} ({})", percent(*rows as f64 / all.max(1) as f64))
        };
        let ages: Vec<String> = layer.ages.iter().map(share).collect();
        let gap = layer.gap.map_or_else(String::new, |gap| {
            format!("; at most {gap:.4} away from the current rows")
        });
        let text = format!(
            "{}: ages of rows in epochs: {}{gap}",
            layer.name,
            ages.join(", ")
        );
        lines.push(("read", text));
    }
    lines
}

/// The share of rows read from histories, over all layers.
fn histories(summary: &Summary) -> Vec<(&'static str, String)> {
    let Some(staleness) = &summary.staleness else {
        return Vec::new();
    };
    let (mut all, mut earlier, mut oldest) = (0, 0, 0);
    for (age, reads) in staleness.layers.iter().flat_map(|layer| &layer.ages) {
        all += reads;
        if *age > 0 {
            earlier += reads;
            oldest = oldest.max(*age);
        }
    }
    let text = format!(
        "{} of the neighbor rows in {} came from earlier epochs, at most {} old",
        percent(earlier as f64 / all.max(1) as f64),
        counted(staleness.layers.len(), "layer"),
        counted(oldest, "epoch"),
    );
    vec![("read", text)]
}

/// A loss in at most ten columns.
pub fn loss(loss: f64) -> String {
    if loss.abs() < 1000.0 {
        format!("{loss:.6}")
    } else {
        format!("{loss:.4e}")
    }
}
