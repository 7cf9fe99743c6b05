//! `gnnc graph partition`: parts of a graph, how even they are, and what sampled batches read of other parts.

use super::files::{replace, writable};
use super::graph::GraphFile;
use super::output::{Answer, Failure, Output, input};
use super::partitioner::PartitionerArgs;
use super::sample::{fanout, fanout_name, refused};
use super::text::{Table, count, facts, grouped, percent};
use clap::Args;
use gnnc::graph::sample::{
    At, Batches, Fanout, PILOT, Replay, Rule, SampleError, Sampler, remote_share, seeds,
};
use gnnc::graph::{GraphData, Partition, parts, summary};
use gnnc::ir::EdgeSet;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{Cut, Exclude, Kind, Negatives, Roots, Sampling, Topology};
use gnnc::ir::workload::{PartLoad, PartitionSummary};
use gnnc::numbers::{VERTICES, WORKERS, within};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `graph partition`.
#[derive(Args)]
pub struct PartitionCommand {
    #[command(flatten)]
    graph: GraphFile,
    /// Number of parts.
    #[arg(long, value_name = "K", value_parser = within(WORKERS))]
    parts: u32,
    #[command(flatten)]
    partitioner: PartitionerArgs,
    /// Also report which share of the rows that sampled batches read belongs to other parts. Most edges into a vertex that
    /// each hop keeps: a number or `all`, the hop next to the seeds first.
    #[arg(long, value_name = "F,...", value_delimiter = ',', requires = "batch", value_parser = fanout)]
    fanouts: Vec<u32>,
    /// Training vertices of such a batch, of all parts together.
    #[arg(long, value_name = "N", requires = "fanouts", value_parser = within(VERTICES))]
    batch: Option<u32>,
    /// Write the part of each vertex to this file, one per line; or, if the name ends with `/`, the graph by parts into this
    /// folder, which `train` reads as it does a graph file: each process the edges of its own parts only.
    #[arg(long, value_name = "FILE|FOLDER/")]
    out: Option<PathBuf>,
}

/// Whether a path is that of a folder to make.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A number of every part.
struct Column {
    /// As it is known in the table.
    name: &'static str,
    /// As it is known in JSON, among the imbalances.
    key: &'static str,
    of: fn(&PartLoad) -> u64,
}

const COLUMNS: [Column; 7] = [
    column("vertices", "vertices", |load| load.inner),
    column("halo", "halo", |load| load.halo),
    column("edges", "edges", |load| load.edges),
    column("train", "train", |load| load.train),
    column("val", "val", |load| load.val),
    column("test", "test", |load| load.test),
    column("feature values", "feature_values", |load| {
        load.feature_nonzeros
    }),
];

const fn column(name: &'static str, key: &'static str, of: fn(&PartLoad) -> u64) -> Column {
    Column { name, key, of }
}

/// Which share of the rows of level 0 belongs to other parts than the one that reads them.
struct Remote {
    expected: f64,
    counted: f64,
    /// Batches that were drawn to count it.
    batches: u32,
}

impl PartitionCommand {
    /// Runs the command.
    pub fn run(&self, out: &Output) -> Answer {
        let folder = self.out.as_ref().filter(|path| is_folder(path));
        if let Some(path) = self.out.as_ref().filter(|path| !is_folder(path)) {
            writable(path, "partition")?;
        }
        let method = self.partitioner.method()?;
        let name = method.name();
        let mut data = self.graph.load(out)?;
        if folder.is_some() {
            data.features = data.features.in_best_storage();
        }
        let hops = (!self.fanouts.is_empty()).then_some(self.fanouts.len() as u32);
        let made = self
            .partitioner
            .partitions(&data, hops, &[self.parts], out)?;
        let Some(made) = made.into_iter().next() else {
            return Err(input(format!("{name} made no partition")));
        };
        let partition = Arc::new(made.partition);
        let cut = gnnc::graph::replication(&data.topology, &partition)?.cut;
        let remote = match self.batch {
            Some(size) => Some(self.remote(&data, &partition, size)?),
            None => None,
        };
        if let Some(folder) = folder {
            let mut workload = summary::summarise(&data, &[])?;
            workload.add_partition(self.parts, made.summary.clone());
            parts::write(folder, &data, &partition, name, &workload)?;
        }
        if let Some(path) = self.out.as_ref().filter(|path| !is_folder(path)) {
            let owners = partition.owner().iter();
            let text: String = owners.map(|part| format!("{part}\n")).collect();
            replace(path, text.as_bytes())?;
        }
        let types = types(&data, &partition);
        let share = cut as f64 / data.topology.edges().max(1) as f64;
        let found = &made.summary;
        let text = || {
            let mut lines = vec![
                ("graph", data.name.clone()),
                ("parts", format!("{} by {name}", self.parts)),
            ];
            lines.extend(made.remark.iter().map(|remark| (name, remark.clone())));
            let alpha = format!("{:.4} (halo vertices / vertices)", found.alpha);
            lines.push(("replication factor", alpha));
            let cut = format!("{}, {}", count(cut, "edge"), percent(share));
            lines.push(("edge cut", cut));
            if !types.is_empty() {
                let each = types
                    .iter()
                    .map(|(name, imbalance)| format!("{imbalance:.3} of {name}"));
                let all: Vec<String> = each.collect();
                lines.push((
                    "vertex types",
                    format!("{} (largest / mean)", all.join(", ")),
                ));
            }
            if let Some(remote) = &remote {
                lines.push(("remote rows", self.remote_text(remote)));
            }
            let mut text = facts(&lines);
            text.push('\n');
            text.push_str(&table(found));
            text
        };
        let largest: Map<String, Value> = (COLUMNS.iter())
            .map(|column| (column.key.to_owned(), json!(column.imbalance(found))))
            .collect();
        let mut object = json!({
            "graph": data.name,
            "partitioner": name,
            "parts": self.parts,
            "alpha": found.alpha,
            "cut": cut,
            "cut_share": share,
            "vertex_balance": largest["vertices"],
            "edge_balance": largest["edges"],
            "imbalance": largest,
            "loads": &found.parts,
            "messages": &found.messages,
        });
        if !types.is_empty() {
            object["type_imbalance"] = types.iter().cloned().collect();
        }
        if let Some(remark) = &made.remark {
            object["remark"] = json!(remark);
        }
        if let Some(remote) = &remote {
            object["remote_rows"] = json!({
                "expected": remote.expected,
                "counted": remote.counted,
                "batches": remote.batches,
            });
        }
        out.report(text, &object)
    }

    /// Estimates and counts the rows that batches read of other parts, where each part works on its own seeds.
    fn remote(
        &self,
        data: &GraphData,
        partition: &Arc<Partition>,
        batch: u32,
    ) -> Result<Remote, Failure> {
        data.topology.refuse_sets(
            "--fanouts",
            "a graph without them, as the model says over which sets its hops run",
        )?;
        let sampling = Sampling {
            batch,
            fanouts: self.fanouts.iter().map(|f| Fanout::Each(*f)).collect(),
            over: Vec::new(),
            kind: Kind::Neighbor,
            cut: Cut::Even,
            roots: Roots::Home,
            merges: None,
            exclude: Exclude::Nothing,
            negatives: Negatives::Given,
            cache: None,
            topology: Topology::All,
        };
        let seeds = seeds(data, Phase::Step);
        if seeds.is_empty() {
            return Err(input(format!(
                "--fanouts: {} has no training vertices, from which batches are drawn",
                data.name
            )));
        }
        let found = || {
            let rule = Rule::of(&sampling, 0)?;
            let batches = Batches::new(seeds.clone(), batch, sampling.cut, 0)?;
            let topology = data.topology.only(EdgeSet::Plain);
            let expected = remote_share(&topology, partition, &rule, &batches)?;
            let sampler = Sampler::new(&*topology, &rule, 1)?;
            let mut replay = Replay::new(sampler, &seeds, &sampling, partition, 0, &[])?;
            let drawn = replay.count().min(PILOT);
            let (mut rows, mut elsewhere) = (0, 0);
            for number in 0..drawn {
                for sizes in replay.sizes(At::first_epoch(number))? {
                    rows += sizes.levels[0];
                    elsewhere += sizes.remote[0];
                }
            }
            Ok::<_, SampleError>(Remote {
                expected,
                counted: elsewhere as f64 / rows.max(1) as f64,
                batches: drawn,
            })
        };
        found().map_err(refused)
    }

    fn remote_text(&self, remote: &Remote) -> String {
        let fanouts: Vec<String> = self.fanouts.iter().map(|f| fanout_name(*f)).collect();
        let batch = u64::from(self.batch.unwrap_or(0));
        format!(
            "{} expected, {} counted over {} (of the rows that batches of {} read, fanouts {})",
            percent(remote.expected),
            percent(remote.counted),
            count(remote.batches.into(), "batch"),
            count(batch, "seed"),
            fanouts.join(", ")
        )
    }
}

impl Column {
    fn imbalance(&self, found: &PartitionSummary) -> f64 {
        imbalance(found, self.of)
    }
}

/// Largest part over mean part; 1 if parts have nothing.
pub fn imbalance(found: &PartitionSummary, of: fn(&PartLoad) -> u64) -> f64 {
    uneven(&found.parts.iter().map(of).collect::<Vec<_>>())
}

/// The largest number over their mean; 1 if all are 0.
fn uneven(numbers: &[u64]) -> f64 {
    let total: u64 = numbers.iter().sum();
    let largest = numbers.iter().copied().max().unwrap_or(0);
    if total == 0 {
        return 1.0;
    }
    largest as f64 * numbers.len() as f64 / total as f64
}

/// How uneven the vertices of each type are, by name; empty if there are no types.
fn types(data: &GraphData, partition: &Partition) -> Vec<(String, f64)> {
    let mut counts = vec![vec![0u64; partition.parts() as usize]; data.vertex_types.len()];
    for (kind, part) in data.types_of_vertices().iter().zip(partition.owner()) {
        if let Some(kind) = kind {
            counts[usize::from(*kind)][*part as usize] += 1;
        }
    }
    let named = data.vertex_types.iter().zip(counts);
    named
        .map(|(name, counts)| (name.to_owned(), uneven(&counts)))
        .collect()
}

/// A line for each part, and how uneven they are.
fn table(found: &PartitionSummary) -> String {
    let mut table = Table::new(0, 2);
    let line = |first: String, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        [vec![first], cells].concat()
    };
    table.row(line("part".to_owned(), &|column| column.name.to_owned()));
    for (part, load) in found.parts.iter().enumerate() {
        let cell = |column: &Column| grouped((column.of)(load));
        table.row(line(part.to_string(), &cell));
    }
    let cell = |column: &Column| format!("{:.3}", column.imbalance(found));
    table.row(line("largest / mean".to_owned(), &cell));
    table.lines()
}
