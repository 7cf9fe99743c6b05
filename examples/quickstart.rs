//! Parse, plan, lower and run a model in about ten lines: `cargo run --release --example quickstart`.

#![allow(clippy::print_stdout)] // an example shows what it does

use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::PlacementSpec;
use gnnc::planner::report::{View, text};
use gnnc::{LoadOptions, Loaded, PlanOptions, Source, TrainOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Parse: the text of a model, and the data graph that it names.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let source = Source::read(format!("{folder}/gcn_cora.gir"))?;
    let loaded = Loaded::new(&source, &LoadOptions::default())?;

    // Rewrite it to the cheapest equal form, and derive the gradients.
    let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;

    // Plan: what would eight GPUs do?
    let options = PlanOptions::new(Cluster::named("h100x8")?);
    let plan = gnnc::plan(&loaded, &compiled, &options)?;
    println!("{}", text(&plan, &View::default()));

    // Lower: what each of two workers does in an epoch.
    let place = PlacementSpec::new(Placement::Graph, 2);
    let program = compiled.program(&place)?;
    println!("an epoch has {} instructions\n", program.step.len());

    // Run: 20 epochs on two workers, which are threads of this process.
    let options = TrainOptions {
        workers: 2,
        epochs: Some(20),
        ..TrainOptions::default()
    };
    let summary = gnnc::train(&loaded, &compiled, &options, &mut |progress| {
        println!(
            "epoch {}: loss {:.4}",
            progress.epoch.epoch, progress.epoch.loss
        );
    })?;
    let test = summary.scores.test.unwrap_or(f64::NAN);
    println!("test accuracy {:.1} %", test * 100.0);
    assert_eq!(summary.bytes_sent, summary.bytes_predicted);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main().unwrap();
    }
}
