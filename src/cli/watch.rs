//! The progress of a training run, on the terminal and in its curve.

use super::curve::Curve;
use super::output::{Failure, Output};
use super::summary::loss;
use super::text::score_or_dash;
use gnnc::ir::words::units::Seconds;
use gnnc::runtime::OnBatch;
use gnnc::{Metric, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;

/// About how many lines of progress a run prints.
const LINES: u32 = 20;

/// Prints about [`LINES`] lines of progress, and always the last one.
pub(super) struct Watcher<'a> {
    out: &'a Output,
    /// Text above the table.
    headline: String,
    /// The score in the table.
    metric: Metric,
    bar: ProgressBar,
    last: Option<Progress>,
    printed: u64,
    curve: Option<Curve>,
    /// Whether the run goes on when its output is closed, because it writes a checkpoint.
    goes_on: bool,
    failure: Option<Failure>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        out: &'a Output,
        headline: String,
        metric: Metric,
        curve: Option<PathBuf>,
        epochs: u64,
        goes_on: bool,
    ) -> Self {
        Self {
            out,
            headline,
            bar: progress_bar(out, epochs),
            last: None,
            printed: 0,
            curve: curve.map(|path| Curve::new(path, metric)),
            metric,
            goes_on,
            failure: None,
        }
    }

    pub(super) fn see(&mut self, progress: &Progress) {
        let epochs = progress.epochs;
        if self.last.is_none() {
            let name = self.metric.name();
            let head = row(
                "epoch",
                "loss",
                ["train", "val", "test"].map(|set| format!("{set} {name}")),
                "epoch time",
            );
            self.print(&format!("{}\n{head}", self.headline));
        }
        let first = self.last.is_none();
        self.last = Some(*progress);
        let epoch = progress.epoch.epoch;
        if let Some(curve) = &mut self.curve
            && let Err(failure) = curve.add(progress)
        {
            self.curve = None;
            self.failure.get_or_insert(failure);
        }
        if first || epoch.is_multiple_of(u64::from((epochs / LINES).max(1))) {
            self.line(progress);
        }
        self.bar.set_position(epoch);
        self.bar
            .set_message(format!("loss {:.4}", progress.epoch.loss));
    }

    /// Shows how far an epoch on sampled batches is.
    pub(super) fn on_batch(&self) -> OnBatch {
        let bar = self.bar.clone();
        OnBatch::new(move |done, all| bar.set_message(format!("batch {done} of {all}")))
    }

    fn line(&mut self, progress: &Progress) {
        self.printed = progress.epoch.epoch;
        let metrics = progress.metrics;
        let scores = [
            metrics.map(|m| m.train),
            metrics.map(|m| m.val),
            metrics.map(|m| m.test),
        ];
        self.print(&row(
            &progress.epoch.epoch.to_string(),
            &loss(progress.epoch.loss),
            scores.map(|score| score_or_dash(self.metric, score.and_then(|s| s.share()))),
            &Seconds(progress.epoch.seconds).to_string(),
        ));
    }

    fn print(&mut self, text: &str) {
        if self.out.is_json() || self.failure.is_some() {
            return;
        }
        let print = || self.out.text(text);
        if let Err(failure) = self.bar.suspend(print) {
            // Closing the output ends the run, unless that would lose its result.
            if matches!(failure, Failure::Closed) && !self.goes_on {
                std::process::exit(0);
            }
            self.failure = Some(failure);
        }
    }

    /// Prints the last line.
    ///
    /// # Errors
    /// The progress or the curve could not be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if let Some(last) = self.last.filter(|last| last.epoch.epoch != self.printed) {
            self.line(&last);
        }
        self.bar.finish_and_clear();
        let written = self.curve.map_or(Ok(()), Curve::finish);
        self.failure.map_or(written, Err)
    }
}

/// A line of the progress table.
fn row(epoch: &str, loss: &str, [train, val, test]: [String; 3], time: &str) -> String {
    format!("{epoch:>6}  {loss:>10}  {train:>14}  {val:>12}  {test:>13}  {time:>12}\n")
}

/// A progress bar on a terminal; hidden in a pipe.
pub(super) fn progress_bar(out: &Output, length: u64) -> ProgressBar {
    if out.is_json() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
