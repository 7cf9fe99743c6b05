//! `gnnc graph`: statistics, partitions, conversion and generation of data graphs.

use super::exchanges::{SentByParts, sent_text};
use super::files::writable;
use super::import::ImportCommand;
use super::links::Links;
use super::output::{Answer, Failure, Output, input};
use super::partition::{PartitionCommand, imbalance};
use super::partitioner::PartitionerArgs;
use super::sample::Sample;
use super::text::{Table, count, facts, grouped};
use clap::{Args, Subcommand, ValueEnum};
use gnnc::Error;
use gnnc::graph::cover::exchanges;
use gnnc::graph::generate::{Attributes, Mesh, PlantedPartition, Rmat};
use gnnc::graph::import;
use gnnc::graph::{Features, GraphData, GraphError, LoadOptions, summary, write};
use gnnc::ir::EdgeSet;
use gnnc::ir::words::spelling::counted;
use gnnc::ir::workload::MAX_RELATIONS;
use gnnc::ir::workload::Workload;
use gnnc::numbers::{EDGES, SEEDS, SIGNAL, VERTICES, WIDTH, WORKERS, within};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Commands on data graphs.
#[derive(Subcommand)]
pub enum GraphCommand {
    /// Print statistics of a graph; `gnnc plan --workload` reads their JSON form.
    Stats(Stats),
    /// Partition the vertices; report the replication factor, the edge cut and how even the parts are.
    Partition(PartitionCommand),
    /// Make a graph file of tables: edges, and vertices with labels, a split and features.
    Import(Box<ImportCommand>),
    /// Make a graph file to predict links on: pairs of vertices with and without a link, and a split.
    Links(Links),
    /// Convert a graph file to another format.
    Convert(Convert),
    /// Generate a random graph.
    Generate(Generate),
    /// Draw sampled batches; report their sizes, two estimates of these, and the speed.
    Sample(Sample),
}

/// A graph file, and how to read it.
#[derive(Args)]
pub struct GraphFile {
    /// The graph: .npz, .mtx, .graph or an edge list (.csv, .tsv, .txt), each also with .gz; or a folder of
    /// OGB or DGL.
    pub file: PathBuf,
    /// Add the missing reverse edges.
    #[arg(long = "symmetrize", alias = "symmetrise")]
    symmetrise: bool,
    /// Dense features, from a .npy file.
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
}

/// Arguments of `graph stats`.
#[derive(Args)]
pub struct Stats {
    #[command(flatten)]
    graph: GraphFile,
    /// Also partition the graph into each of these numbers of parts, and count what they send each other.
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = within(WORKERS))]
    parts: Vec<u32>,
    /// Nodes that share the parts evenly: also count what crosses between them.
    #[arg(long, value_name = "N", default_value = "1", requires = "parts", value_parser = within(WORKERS))]
    nodes: u32,
    #[command(flatten)]
    partitioner: PartitionerArgs,
}

/// Everything that `graph stats` counts.
#[derive(Serialize)]
struct Counted<'a> {
    #[serde(flatten)]
    workload: &'a Workload,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    exchanges: &'a [SentByParts],
}

/// Arguments of `graph convert`.
#[derive(Args)]
pub struct Convert {
    #[command(flatten)]
    graph: GraphFile,
    /// The file to write; its extension gives the format.
    out: PathBuf,
}

/// Arguments of `graph generate`.
#[derive(Args)]
pub struct Generate {
    /// The kind of graph.
    #[arg(value_enum)]
    kind: Kind,
    /// Number of vertices.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = within(VERTICES))]
    vertices: u32,
    /// Number of stored edges; an undirected edge counts as two.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = within(EDGES))]
    edges: u64,
    /// Number of features per vertex.
    #[arg(long, value_name = "N", default_value = "16", value_parser = within(WIDTH))]
    features: u32,
    /// Store features sparsely, with so many ones per vertex, at most half of the features.
    #[arg(long, value_name = "N", default_value = "0", value_parser = within(WIDTH))]
    nonzeros: u32,
    /// Number of classes.
    #[arg(long, value_name = "N", default_value = "4", value_parser = within(WIDTH))]
    classes: u32,
    /// Number of types of edges: those within a class have other types than those between classes.
    #[arg(long, value_name = "N", default_value = "0", value_parser = within(0..=MAX_RELATIONS))]
    relations: u32,
    /// Seed of all random draws.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(SEEDS))]
    seed: u64,
    /// Distance between the features of the classes; 0 is pure noise.
    #[arg(long, value_name = "X", default_value = "0.5", value_parser = within(SIGNAL))]
    signal: f32,
    /// Probability that an edge stays within a class (planted only).
    #[arg(long, value_name = "P", default_value = "0.8", value_parser = within(0.0..=1.0))]
    homophily: f64,
    /// Probabilities of the quadrants of the adjacency matrix: the larger the first, the more skewed the degrees (rmat only).
    #[arg(long, value_name = "A,B,C,D", default_value = "0.57,0.19,0.19,0.05", value_parser = quadrants)]
    quadrants: [f64; 4],
    /// The file to write; its extension gives the format.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Skewed degrees, as in social networks (R-MAT); labels carry no signal.
    Rmat,
    /// Planted partition: vertices prefer neighbors of their own class, so models can learn.
    Planted,
    /// A square grid whose vertices are joined with the nearest others; labels carry no signal.
    Mesh,
}

impl GraphCommand {
    /// Runs the command.
    pub fn run(&self, out: &Output) -> Answer {
        match self {
            Self::Stats(command) => command.run(out),
            Self::Partition(command) => command.run(out),
            Self::Import(command) => command.run(out),
            Self::Links(command) => command.run(out),
            Self::Convert(command) => command.run(out),
            Self::Generate(command) => command.run(out),
            Self::Sample(command) => command.run(out),
        }
    }
}

impl GraphFile {
    /// Reads the graph; notes on standard error list what was dropped.
    ///
    /// # Errors
    /// A file that cannot be read or is no graph.
    pub fn load(&self, out: &Output) -> Result<GraphData, Failure> {
        let options = LoadOptions {
            symmetrise: self.symmetrise,
            features: self.features.clone(),
            vertices: None,
        };
        let (data, dropped) = import::open(&self.file, &options)?;
        for (number, what) in [
            (dropped.self_loops, "self loop"),
            (dropped.repeats, "repeated edge"),
            (dropped.zero_weights, "edge of weight 0"),
        ] {
            if number > 0 {
                let what = match (number, what) {
                    (1, _) => format!("1 {what}"),
                    (_, "edge of weight 0") => format!("{} of weight 0", count(number, "edge")),
                    _ => count(number, what),
                };
                out.note(&format!("{}: dropped {what}\n", self.file.display()));
            }
        }
        out.not_used(&self.file.display().to_string(), &dropped.not_used);
        Ok(data)
    }
}

impl Stats {
    fn run(&self, out: &Output) -> Answer {
        self.partitioner.method()?;
        let data = self.graph.load(out)?;
        let uneven = |parts: &&u32| !parts.is_multiple_of(self.nodes);
        if let Some(parts) = self.parts.iter().find(uneven) {
            return Err(input(format!(
                "--nodes {} does not divide {parts} parts; give a number that divides all --parts",
                self.nodes
            )));
        }
        let mut workload = summary::summarise(&data, &[])?;
        let mut sent = Vec::new();
        if !self.parts.is_empty() {
            let made = self.partitioner.partitions(&data, None, &self.parts, out)?;
            let plain = data.topology.only(EdgeSet::Plain);
            for made in made {
                sent.push(SentByParts {
                    parts: made.partition.parts(),
                    nodes: self.nodes,
                    exchanges: exchanges(&plain, &made.partition, self.nodes)?,
                });
                workload.add_partition(made.partition.parts(), made.summary);
            }
        }
        let text = || format!("{}{}", stats_text(&data, &workload), sent_text(&sent));
        let all = Counted {
            workload: &workload,
            exchanges: &sent,
        };
        out.report(text, &all)
    }
}

impl Convert {
    fn run(&self, out: &Output) -> Answer {
        writable(&self.out, "graph")?;
        let data = self.graph.load(out)?;
        save(out, &data, &self.out)
    }
}

/// Four numbers with commas between; whether they are probabilities is for the generator to say.
fn quadrants(text: &str) -> Result<[f64; 4], String> {
    let numbers: Option<Vec<f64>> = text
        .split(',')
        .map(|word| word.trim().parse().ok())
        .collect();
    let four = numbers.and_then(|numbers| numbers.try_into().ok());
    four.ok_or_else(|| "expected four numbers, as in 0.57,0.19,0.19,0.05".to_owned())
}

impl Generate {
    /// Refuses a graph that does not fit into this machine's memory.
    fn check_memory(&self) -> Answer {
        // An edge is a key of 8 bytes; sorting and merging keys takes more.
        let row = match self.nonzeros {
            0 => u64::from(self.features) * 4 + 64,
            nonzeros => u64::from(nonzeros) * 8 + 64,
        };
        let needed = (self.edges * 32).saturating_add(u64::from(self.vertices) * row);
        match gnnc::runtime::available_memory() {
            Some(available) if needed > available => Err(Failure::Error(Error::Memory {
                what: "a graph with that many vertices, edges and features",
                needed,
                available,
            })),
            _ => Ok(()),
        }
    }

    fn run(&self, out: &Output) -> Answer {
        writable(&self.out, "graph")?;
        let attributes = Attributes {
            features: self.features,
            nonzeros: self.nonzeros,
            classes: self.classes,
            relations: self.relations,
            signal: self.signal,
            ..Attributes::default()
        };
        self.check_memory()?;
        let mut data = match self.kind {
            Kind::Rmat => Rmat {
                vertices: self.vertices,
                edges: self.edges,
                quadrants: self.quadrants,
                attributes,
                seed: self.seed,
                ..Rmat::default()
            }
            .generate()?,
            Kind::Planted => PlantedPartition {
                vertices: self.vertices,
                edges: self.edges,
                homophily: self.homophily,
                attributes,
                seed: self.seed,
            }
            .generate()?,
            Kind::Mesh => Mesh {
                vertices: self.vertices,
                edges: self.edges,
                attributes,
                seed: self.seed,
            }
            .generate()?,
        };
        if let Some(name) = self.out.file_stem() {
            data.name = name.to_string_lossy().into_owned();
        }
        save(out, &data, &self.out)
    }
}

fn save(out: &Output, data: &GraphData, path: &Path) -> Answer {
    let lost = write::save(data, path).map_err(|error| match error {
        GraphError::Io { file, source } => Error::File {
            action: "write",
            path: file,
            source,
        },
        other => other.into(),
    })?;
    let text = || {
        let mut text = format!(
            "{}: {}, {}, {}, {}\n",
            path.display(),
            counted(grouped(u64::from(data.vertices())), "vertex"),
            counted(grouped(data.topology.edges()), "edge"),
            counted(grouped(u64::from(data.features.columns())), "feature"),
            data.label_text()
        );
        if !lost.is_empty() {
            text.push_str(&format!(
                "not saved, as the format cannot hold it: {}\n",
                lost.join(", ")
            ));
        }
        text
    };
    out.report(
        text,
        &json!({
            "file": path.display().to_string(),
            "vertices": data.vertices(),
            "edges": data.topology.edges(),
            "features": data.features.columns(),
            "classes": data.classes(),
            "left_out": &lost,
        }),
    )
}

fn stats_text(data: &GraphData, workload: &Workload) -> String {
    let features = match &data.features {
        Features::None => "none".to_owned(),
        features => {
            let cells = workload.vertices as f64 * f64::from(workload.features);
            let types = match workload.vertex_types {
                0 => String::new(),
                types => format!(", including {types} for vertex types"),
            };
            let storage = match features {
                Features::Sparse { .. } => "sparse",
                _ => "dense",
            };
            format!(
                "{}{types}, {storage}, {:.2} % of them stored",
                grouped(u64::from(workload.features)),
                100.0 * workload.feature_nonzeros as f64 / cells.max(1.0)
            )
        }
    };
    let [train, val, test] = workload.split.map(grouped);
    let mean = workload.edges as f64 / workload.vertices.max(1) as f64;
    let symmetric = if data.topology.only(EdgeSet::Plain).is_symmetric() {
        "symmetric"
    } else {
        "directed"
    };
    let relations = match workload.relations {
        0 => String::new(),
        relations => format!(", {}", count(relations.into(), "relation")),
    };
    let numbers = match workload.edge_features {
        0 => String::new(),
        columns => format!(", {}", count(columns.into(), "feature")),
    };
    let sets: Vec<String> = (workload.edge_sets.iter())
        .map(|set| format!("{} of {}", count(set.edges, "edge"), set.name))
        .collect();
    let mut lines = vec![
        ("graph", workload.name.clone()),
        ("vertices", grouped(workload.vertices)),
        (
            "edges",
            format!(
                "{}, {symmetric}{relations}{numbers}",
                count(workload.edges, "edge")
            ),
        ),
        ("features", features),
        ("labels", data.label_text()),
        (
            "split",
            format!("{train} train, {val} validation, {test} test"),
        ),
        (
            "in-degree",
            format!("{mean:.2} mean, {} largest", grouped(workload.max_degree)),
        ),
    ];
    if !sets.is_empty() {
        lines.insert(3, ("edge sets", sets.join(", ")));
    }
    let types: Vec<String> = (data.vertex_types.iter())
        .zip(data.vertices_by_type())
        .map(|(name, vertices)| format!("{} of {name}", grouped(vertices)))
        .collect();
    if !types.is_empty() {
        lines.insert(2, ("vertex types", types.join(", ")));
    }
    let mut text = facts(&lines);
    text.push('\n');
    let mut table = Table::new(1, 2);
    table.row(["in-degree", "vertices"]);
    for (k, vertices) in workload.degree_histogram.iter().enumerate() {
        let range = match k {
            0 => "0".to_owned(),
            1 => "1".to_owned(),
            k => format!("{} to {}", 1u64 << (k - 1), (1u64 << k) - 1),
        };
        table.row([range, grouped(*vertices)]);
    }
    text.push_str(&table.lines());
    if !workload.partitions.is_empty() {
        text.push('\n');
        let mut table = Table::new(2, 2);
        table.row([
            "parts",
            "by",
            "replication factor",
            "vertex imbalance",
            "edge imbalance",
        ]);
        let all = workload.partitions.iter();
        for (parts, found) in all.flat_map(|(parts, all)| all.iter().map(move |p| (parts, p))) {
            let vertices = imbalance(found, |load| load.inner);
            let edges = imbalance(found, |load| load.edges);
            table.row([
                parts.to_string(),
                found.partitioner.clone(),
                format!("{:.4}", found.alpha),
                format!("{vertices:.3}"),
                format!("{edges:.3}"),
            ]);
        }
        text.push_str(&table.lines());
    }
    text
}
