//! The command line: one file per command. Each command ends in a report and an exit code.
//!
//! Reports go to standard output; warnings, errors and progress go to standard error. With
//! `--format json`, an error is a JSON object on standard output.

mod bench;
mod bench_kernel;
mod blocks;
mod cache;
mod calibrate;
mod check;
mod curve;
mod device;
mod devices;
mod diff;
mod emit;
mod eval;
mod exchanges;
mod explain;
mod files;
mod fmt;
mod gpus;
mod graph;
mod html;
mod import;
mod inputs;
mod knobs;
mod layouts;
mod links;
mod log;
mod machine;
mod network;
mod new;
mod output;
mod partition;
mod partitioner;
mod pilot;
mod plan;
mod predict;
mod profile;
mod records;
mod sample;
mod shell;
mod signals;
mod summary;
mod sweep;
mod tensorboard;
mod text;
mod trace;
mod train;
mod trained;
mod turns;
mod watch;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use gnnc::runtime::RuntimeError;
use gnnc::runtime::transport::mpi::{Launched, World};
use output::{Answer, Failure, Format, Output};
use signals::Signals;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;

/// Plan and run graph neural network training.
#[derive(Parser)]
#[command(
    name = "gnnc",
    version = gnnc::version(),
    propagate_version = true,
    max_term_width = 99,
    after_help = "Exit codes: 0 success; 1 invalid input; 2 the machine refused or gnnc has a bug;\n\
                  3 no candidate of a plan or sweep both fits and is allowed, or none reached a pilot's target;\n\
                  4 a run ended before its target; 130, 143, 129 ended by a signal.\n\
                  Compiled kernels and partitions are cached in $GNNC_CACHE, $XDG_CACHE_HOME/gnnc or ~/.cache/gnnc.\n\
                  docs/glossary.md defines the words of plans, reports and errors."
)]
struct Cli {
    /// Output format: text or json.
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
    /// Write a model to begin with, for a data file.
    New(new::New),
    /// Check models and report what is wrong.
    Check(check::Check),
    /// Format model files.
    Fmt(fmt::Fmt),
    /// Find the best placement of a model on a cluster, its epoch time, and whether it fits.
    Plan(plan::PlanCommand),
    /// Train each way that a model may be trained for a while, to find out how many epochs it needs.
    Pilot(Box<pilot::PilotCommand>),
    /// Measure this machine so that plans for it are forecasts.
    Calibrate(calibrate::Calibrate),
    /// List the CPU, the GPUs and NVIDIA's libraries found on this machine, and what is missing.
    Devices(devices::Devices),
    /// List the GPUs, clusters and links that plans know by name.
    Gpus(gpus::Gpus),
    /// Compare two plans.
    Diff(diff::Diff),
    /// Find out how many devices a model needs.
    Sweep(sweep::Sweep),
    /// Explain how a model was rewritten, why the result is equal, and what it saves.
    Explain(explain::Explain),
    /// Train a model, or run a plan.
    Train(Box<train::Train>),
    /// Write what a trained model says about the vertices of a graph.
    Predict(predict::Predict),
    /// Score a trained model on the vertices of a graph.
    Eval(eval::Eval),
    /// Compare predicted and measured timelines.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Summarize, partition, convert, generate and sample data graphs.
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Print an intermediate form of a model: operators, program or kernels.
    Emit(emit::Emit),
    /// Print a script with which a shell completes commands and options.
    Completions(shell::Completions),
    /// Print a page of the manual.
    Man(shell::ManPage),
    /// Time training epochs without evaluations (for benchmarks).
    #[command(hide = true)]
    BenchEpoch(bench::BenchEpoch),
    /// Time single kernels on a GPU (for benchmarks).
    #[command(hide = true)]
    BenchKernel(bench_kernel::BenchKernel),
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let launched = Launched::here();
    let follows = launched.is_some_and(|launched| launched.process > 0);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // All processes have the same arguments; the first one reports.
        Err(error) if follows => return ExitCode::from(u8::from(!is_help(&error))),
        Err(error) => return usage(&error),
    };
    let mut out = Output::new(cli.format);
    if follows {
        out.be_silent();
    }
    let signals = Signals::listen(!out.is_json());
    if out.is_json() {
        crate::memory::report_as_json();
    }
    let run = || match cli.command {
        Command::Train(mut command) => together(launched, |world| {
            command.world = world;
            command.run(&out, &signals)
        }),
        Command::Calibrate(command) => together(launched, |world| command.run(&out, world)),
        // What needs no other process is done once.
        _ if out.is_silent() => Ok(()),
        Command::New(command) => command.run(&out),
        Command::Check(command) => command.run(&out),
        Command::Fmt(command) => command.run(&out),
        Command::Plan(command) => command.run(&out),
        Command::Pilot(command) => command.run(&out, &signals),
        Command::Devices(command) => command.run(&out),
        Command::Gpus(command) => command.run(&out),
        Command::Diff(command) => command.run(&out),
        Command::Sweep(command) => command.run(&out),
        Command::Explain(command) => command.run(&out),
        Command::Predict(command) => command.run(&out),
        Command::Eval(command) => command.run(&out),
        Command::Trace(command) => command.run(&out),
        Command::Graph(command) => command.run(&out),
        Command::Emit(command) => command.run(&out),
        Command::Completions(command) => command.run(&out),
        Command::Man(command) => command.run(&out),
        Command::BenchEpoch(command) => command.run(&out),
        Command::BenchKernel(command) => command.run(&out),
    };
    // After a panic, only `out` is used, which the command cannot leave half changed.
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => out.fail(&failure),
        Err(_) => out.fail(&Failure::Bug),
    }
}

/// Runs a command with the processes that a launcher has started together with this one, if it has.
fn together(
    launched: Option<Launched>,
    command: impl FnOnce(Option<Arc<World>>) -> Answer,
) -> Answer {
    let Some(launched) = launched else {
        return command(None);
    };
    let joined = World::join(launched).map_err(RuntimeError::World);
    let world = joined.map_err(gnnc::Error::from)?;
    let answer = command(Some(Arc::clone(&world)));
    match answer {
        Ok(()) | Err(Failure::Reported(_)) => {
            world.finish();
            answer
        }
        Err(mut failure) => {
            // Any process may be the first to see that they differ.
            if world.mistaken() {
                failure = gnnc::Error::Input(failure.to_string()).into();
            }
            let code = failure.exit_code();
            match world.leave(&failure.to_string(), code == 1) {
                true => Err(Failure::Reported(code)),
                false => Err(failure),
            }
        }
    }
}

/// Whether clap's answer is what was asked for.
fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    )
}

/// Prints clap's answer: help, the version, or what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    let help = is_help(error);
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
    // If the stream is closed, nobody reads it.
    let _ = error.print();
    if help {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}
