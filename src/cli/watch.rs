//! The progress of a training run, on the terminal and in its files.

use super::output::{Failure, Output};
use super::records::Records;
use super::summary::loss;
use super::text::score_or_dash;
use gnnc::ir::words::units::Seconds;
use gnnc::runtime::OnBatch;
use gnnc::{Metric, Progress, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// About how many lines of progress a run prints.
const LINES: u32 = 20;

/// What a run shows.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Whether it shows no progress.
    pub(super) quiet: bool,
    /// Whether the run goes on when its output is closed, because it writes files.
    pub(super) goes_on: bool,
}

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
    records: Records,
    /// Whether nothing is printed.
    quiet: bool,
    /// Whether the run goes on when its output is closed, because it writes files.
    goes_on: bool,
    failure: Option<Failure>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        out: &'a Output,
        headline: String,
        metric: Metric,
        records: Records,
        epochs: u64,
        shown: Shown,
    ) -> Self {
        Self {
            out,
            headline,
            bar: match shown.quiet {
                true => ProgressBar::hidden(),
                false => progress_bar(out, epochs),
            },
            last: None,
            printed: 0,
            records,
            metric,
            quiet: shown.quiet,
            goes_on: shown.goes_on,
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
        self.records.epoch(progress);
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
        let scores = progress.scores.map_or([None; 3], |scores| scores.each());
        self.print(&row(
            &progress.epoch.epoch.to_string(),
            &loss(progress.epoch.loss),
            scores.map(|score| score_or_dash(self.metric, score)),
            &Seconds(progress.epoch.seconds).to_string(),
        ));
    }

    fn print(&mut self, text: &str) {
        if self.quiet || self.out.is_json() || self.failure.is_some() {
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

    /// Prints the last line, and ends the files of a run that has a summary.
    ///
    /// # Errors
    /// The progress or a file could not be written.
    pub(super) fn finish(mut self, summary: Option<&Summary>) -> Result<(), Failure> {
        if let Some(last) = self.last.filter(|last| last.epoch.epoch != self.printed) {
            self.line(&last);
        }
        self.bar.finish_and_clear();
        let written = self.records.finish(summary);
        self.failure.map_or(written, Err)
    }
}

/// A line of the progress table.
fn row(epoch: &str, loss: &str, [train, val, test]: [String; 3], time: &str) -> String {
    format!("{epoch:>6}  {loss:>10}  {train:>14}  {val:>12}  {test:>13}  {time:>12}\n")
}

/// A progress bar on a terminal; hidden in a pipe.
pub(super) fn progress_bar(out: &Output, length: u64) -> ProgressBar {
    if out.is_json() || out.is_silent() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
