//! Arguments and commands: one file each, an exit code and a report as the answer.
//!
//! Reports go to standard output, warnings, errors and progress to standard error. With
//! `--format json` an error is an object on standard output.

mod bench;
mod bench_kernel;
mod best;
mod cache;
mod calibrate;
mod check;
mod curve;
mod device;
mod devices;
mod diff;
mod emit;
mod explain;
mod files;
mod fmt;
mod graph;
mod inputs;
mod machine;
mod numbers;
mod output;
mod plan;
mod profile;
mod signals;
mod summary;
mod sweep;
mod text;
mod trace;
mod train;
mod turns;
mod watch;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use output::{Failure, Format, Output};
use signals::Signals;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

/// Plans and runs graph neural network training.
#[derive(Parser)]
#[command(
    name = "gnnc",
    version,
    propagate_version = true,
    max_term_width = 99,
    after_help = "Exit codes: 0 done, 1 the input is wrong, 2 the machine refused or gnnc has a bug,\n\
                  3 no candidate of a plan or sweep fits and is allowed, 130, 143 and 129 a signal ended the run.\n\
                  Compiled kernels are kept in $GNNC_CACHE, $XDG_CACHE_HOME/gnnc or ~/.cache/gnnc."
)]
struct Cli {
    /// How to report: text or json.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check models and say what is wrong with them.
    Check(check::Check),
    /// Print models in the one true form.
    Fmt(fmt::Fmt),
    /// Say how a model is best placed on a cluster, how long that takes and whether it fits.
    Plan(plan::PlanCommand),
    /// Measure this machine, so that plans for it are forecasts.
    Calibrate(calibrate::Calibrate),
    /// List the processor, the GPUs and NVIDIA's libraries that are here, or what is missing.
    Devices(devices::Devices),
    /// Lay two plans side by side.
    Diff(diff::Diff),
    /// Say how many devices a model needs.
    Sweep(sweep::Sweep),
    /// Say how a model was rewritten, why that is equal, and what it saves.
    Explain(explain::Explain),
    /// Train a model, or run a plan of one.
    Train(Box<train::Train>),
    /// Lay predicted and measured timelines side by side.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Summarise, partition, convert and generate data graphs.
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Print a stage between a model and its run.
    Emit(emit::Emit),
    /// Time training epochs, without evaluations between them (for benchmarks).
    #[command(hide = true)]
    BenchEpoch(bench::BenchEpoch),
    /// Time single kernels on a GPU (for benchmarks).
    #[command(hide = true)]
    BenchKernel(bench_kernel::BenchKernel),
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let out = Output::new(cli.format);
    let signals = Signals::listen();
    if out.is_json() {
        crate::memory::report_as_json();
    }
    let run = || match cli.command {
        Command::Check(command) => command.run(&out),
        Command::Fmt(command) => command.run(&out),
        Command::Plan(command) => command.run(&out),
        Command::Calibrate(command) => command.run(&out),
        Command::Devices(command) => command.run(&out),
        Command::Diff(command) => command.run(&out),
        Command::Sweep(command) => command.run(&out),
        Command::Explain(command) => command.run(&out),
        Command::Train(command) => command.run(&out, &signals),
        Command::Trace(command) => command.run(&out),
        Command::Graph(command) => command.run(&out),
        Command::Emit(command) => command.run(&out),
        Command::BenchEpoch(command) => command.run(&out),
        Command::BenchKernel(command) => command.run(&out),
    };
    // Nothing that was half changed is used after a panic.
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => out.fail(&failure),
        Err(_) => out.fail(&Failure::Bug),
    }
}

/// What clap answers: help and version, or what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let arguments: Vec<_> = std::env::args_os().collect();
    let json = arguments.iter().any(|a| a == "--format=json")
        || arguments
            .windows(2)
            .any(|pair| pair[0] == "--format" && pair[1] == "json");
    if json && !help {
        let text = error.render().to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
        return Output::new(Format::Json).fail(&Failure::Usage(message));
    }
    // Whoever closed the stream does not want to read it.
    let _ = error.print();
    if help {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}
