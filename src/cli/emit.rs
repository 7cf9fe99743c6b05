//! `gnnc emit`: the intermediate forms of a model, as text.

use super::inputs::ModelArgs;
use super::knobs::KnobArgs;
use super::output::{Answer, Failure, Output};
use clap::{Args, ValueEnum};
use gnnc::codegen::cpu::Compiler;
use gnnc::codegen::cuda::{generate, module};
use gnnc::ir::kernel::Kernel;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::text::Listing;
use gnnc::numbers::{WORKERS, within};
use gnnc::runtime::RuntimeError;
use gnnc::{Error, TrainOptions};
use serde_json::{Value, json};

/// Arguments of `emit`.
#[derive(Args)]
pub struct Emit {
    /// What to print.
    #[arg(value_enum)]
    stage: Stage,
    #[command(flatten)]
    model: ModelArgs,
    /// Number of ranks of the program.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(WORKERS))]
    workers: u32,
    /// Placement of the work on several ranks.
    #[arg(long, value_name = "NAME", default_value = "graph", value_parser = gnnc::knobs::placement)]
    placement: Placement,
    #[command(flatten)]
    knobs: KnobArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The operators of the model as written.
    Graph,
    /// The operators after rewriting.
    Forms,
    /// The program: what each rank does, instruction by instruction.
    Program,
    /// The kernels for the CPU, in Cranelift's intermediate language (CLIF).
    Clif,
    /// The kernels for the GPU, in CUDA C.
    Cuda,
}

impl Emit {
    /// Prints a form; with `--format json`, the value itself.
    pub fn run(&self, out: &Output) -> Answer {
        let loaded = self.model.load(out)?;
        if self.stage == Stage::Graph {
            let graph = &loaded.model.graph;
            return out.report(|| graph.to_string(), graph);
        }
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        if self.stage == Stage::Forms {
            let graph = &compiled.form(self.placement).map_err(Error::from)?.graph;
            return out.report(|| graph.to_string(), graph);
        }
        let options = TrainOptions {
            workers: self.workers,
            placement: self.placement,
            knobs: self.knobs.knobs.clone(),
            ..TrainOptions::default()
        };
        let place = gnnc::place(&loaded, &compiled, &options)?;
        // Each stage has its own program; the ranks of a stage differ only in columns.
        let programs = if place.stages().is_some() {
            compiled.programs(&place)?
        } else {
            vec![compiled.program(&place)?]
        };
        let kernels: Vec<Kernel> = programs.iter().flat_map(|p| p.kernels.clone()).collect();
        match (self.stage, &programs[..]) {
            (Stage::Program, [program]) => out.report(|| Listing(program).to_string(), program),
            (Stage::Program, _) => {
                let texts = || {
                    let texts: Vec<String> =
                        programs.iter().map(|p| Listing(p).to_string()).collect();
                    texts.join("\n")
                };
                out.report(texts, &programs)
            }
            (Stage::Cuda, _) => cuda(out, &kernels),
            _ => clif(out, &kernels),
        }
    }
}

fn clif(out: &Output, kernels: &[Kernel]) -> Answer {
    let compiler = Compiler::new(None).map_err(|source| kernel_error(0, source))?;
    let mut texts = Vec::new();
    for (number, kernel) in kernels.iter().enumerate() {
        let clif = compiler
            .clif(kernel)
            .map_err(|source| kernel_error(number, source))?;
        texts.push((kernel, clif));
    }
    let text = || {
        let mut text = String::new();
        for (number, (kernel, clif)) in texts.iter().enumerate() {
            let name = kernel.body.name();
            text.push_str(&format!(
                "; kernel {number}: {name}\n{}\n\n",
                clif.trim_end()
            ));
        }
        text
    };
    let values: Vec<Value> = texts
        .iter()
        .map(|(kernel, clif)| json!({ "kernel": kernel, "clif": clif }))
        .collect();
    out.report(text, &values)
}

/// Prints all kernels as one translation unit that compiles on its own.
fn cuda(out: &Output, kernels: &[Kernel]) -> Answer {
    let mut sources = Vec::new();
    for (number, kernel) in kernels.iter().enumerate() {
        let name = format!("k{number}_{}", kernel.body.name().replace('-', "_"));
        let source =
            generate(kernel, &name).map_err(|source| kernel_error(number, source.into()))?;
        sources.push((kernel, source));
    }
    let text = || module(sources.iter().map(|(_, source)| source));
    let values: Vec<Value> = sources
        .iter()
        .map(|(kernel, source)| json!({ "kernel": kernel, "name": source.name, "cuda": source.text }))
        .collect();
    out.report(text, &values)
}

fn kernel_error(kernel: usize, source: gnnc::codegen::CodegenError) -> Failure {
    Failure::Error(Error::Runtime(RuntimeError::Kernel { kernel, source }))
}
