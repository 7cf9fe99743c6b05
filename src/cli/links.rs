//! `gnnc graph links`.

use super::files::{replace, writable};
use super::graph::GraphFile;
use super::output::{Answer, Output, input};
use super::text::{count, facts};
use clap::Args;
use gnnc::graph::links::{LinkOptions, with_given, with_pairs};
use gnnc::graph::{Labels, import, write};
use gnnc::ir::EdgeSet;
use gnnc::numbers::{NEGATIVES, SEEDS, within};
use serde_json::json;
use std::io::Cursor;
use std::path::PathBuf;

/// Arguments of `graph links`.
#[derive(Args)]
pub struct Links {
    #[command(flatten)]
    graph: GraphFile,
    /// A table of the pairs, with columns `source` and `target`, and possibly `label` (1 for a link) and `split`, in
    /// place of links and pairs that are drawn. Without labels, pairs can be predicted.
    #[arg(long, value_name = "TABLE", conflicts_with_all = ["val", "test", "negatives", "eval_negatives", "same_source", "seed"])]
    pairs: Option<PathBuf>,
    /// Share of the links to validate on; the model does not see them.
    #[arg(long, value_name = "SHARE", default_value_t = LinkOptions::default().val, value_parser = within(0.0..=0.9))]
    val: f64,
    /// Share of the links to test on; the model does not see them.
    #[arg(long, value_name = "SHARE", default_value_t = LinkOptions::default().test, value_parser = within(0.0..=0.9))]
    test: f64,
    /// Pairs without a link for each link to train on.
    #[arg(long, value_name = "N", default_value_t = LinkOptions::default().negatives, value_parser = within(NEGATIVES))]
    negatives: u32,
    /// Pairs without a link for each link to validate and to test on.
    #[arg(long, value_name = "N", default_value_t = LinkOptions::default().eval_negatives, value_parser = within(NEGATIVES))]
    eval_negatives: u32,
    /// Draw these pairs with the source of their link, to rank links among pairs of one source (MRR).
    #[arg(long)]
    same_source: bool,
    /// Seed of the split and of the draws.
    #[arg(long, value_name = "N", default_value = "0", value_parser = within(SEEDS))]
    seed: u64,
    /// The file to write, an .npz archive.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Links {
    pub fn run(&self, out: &Output) -> Answer {
        writable(&self.out, "graph")?;
        if self.out.extension().is_none_or(|ending| ending != "npz") {
            return Err(input(format!(
                "pairs are written as an .npz archive, found --out {}; name a file that ends in .npz",
                self.out.display()
            )));
        }
        let data = self.graph.load(out)?;
        let options = LinkOptions {
            val: self.val,
            test: self.test,
            negatives: self.negatives,
            eval_negatives: self.eval_negatives,
            same_source: self.same_source,
            seed: self.seed,
        };
        let pairs = match &self.pairs {
            Some(table) => with_given(&data, &import::pairs(table, &data)?)?,
            None => with_pairs(&data, &options)?,
        };
        let archive = write::npz(&pairs, Cursor::new(Vec::new()));
        let archive = archive.map_err(|e| input(format!("cannot write an archive: {e}")))?;
        replace(&self.out, &archive.into_inner())?;
        let labeled = |wanted: f32| match &pairs.labels {
            Labels::Values { values, .. } => {
                values.iter().filter(|label| **label == wanted).count()
            }
            Labels::None | Labels::Single(_) => 0,
        };
        let (links, others) = (labeled(1.0), labeled(0.0));
        let split = [&pairs.train, &pairs.val, &pairs.test];
        let [train, val, test] = split.map(|mask| mask.iter().filter(|m| **m).count() as u64);
        let seen = pairs.topology.edges_of(EdgeSet::Plain);
        let text = || {
            facts(&[
                ("file", self.out.display().to_string()),
                ("vertices", count(data.vertices().into(), "vertex")),
                ("edges", format!("{} that models see", count(seen, "edge"))),
                (
                    "pairs",
                    match pairs.subjects as usize - links - others {
                        0 => format!("{links} with a link, {others} without"),
                        unknown => {
                            format!("{links} with a link, {others} without, {unknown} to predict")
                        }
                    },
                ),
                (
                    "split",
                    format!("{train} train, {val} validation, {test} test"),
                ),
            ])
        };
        out.report(
            text,
            &json!({
                "out": self.out.display().to_string(),
                "vertices": data.vertices(),
                "edges": seen,
                "links": links,
                "pairs": pairs.subjects,
                "train": train,
                "val": val,
                "test": test,
            }),
        )
    }
}
