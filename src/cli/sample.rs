//! `gnnc graph sample`: how large sampled batches are, and how fast they are drawn.

use super::graph::GraphFile;
use super::output::{Answer, Failure, Output, input};
use super::text::{Table, facts, grouped, percent_or_dash};
use clap::{Args, ValueEnum};
use gnnc::graph::sample::{
    ALL, Batches, Blocks, Cut, Degrees, Estimate, Fanout, Kind, Rule, SampleError, Sampler,
    by_degrees, by_edges,
};
use gnnc::graph::{GraphData, summary};
use gnnc::ir::EdgeSet;
use gnnc::numbers::{BATCHES, FANOUTS, SEEDS, THREADS, VERTICES, within};
use serde_json::{Value, json};
use std::time::Instant;

/// Arguments of `graph sample`.
#[derive(Args)]
pub struct Sample {
    #[command(flatten)]
    graph: GraphFile,
    /// Most edges into a vertex that each hop keeps: a number or `all`, the hop next to the seeds first.
    #[arg(long, value_name = "F,...", value_delimiter = ',', required = true, value_parser = fanout)]
    fanouts: Vec<u32>,
    /// Seeds of a batch.
    #[arg(long, value_name = "N", value_parser = within(VERTICES))]
    batch: u32,
    /// How edges are drawn: neighbor, labor or full.
    #[arg(long, value_name = "NAME", default_value = "neighbor")]
    kind: Kind,
    /// Vertices that are seeds: train, val, test or all.
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    on: On,
    /// How an epoch is cut into batches: even, short or drop.
    #[arg(long, value_name = "NAME", default_value = "even")]
    cut: Cut,
    /// Seed of all random draws.
    #[arg(long, value_name = "N", default_value = "0", value_parser = within(SEEDS))]
    seed: u64,
    /// Number of batches to draw.
    #[arg(long, value_name = "N", default_value = "8", value_parser = within(BATCHES))]
    batches: u32,
    /// Threads that draw a batch together; they change no result.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    /// Also print the first batch: its levels and the edges between them.
    #[arg(long)]
    dump: bool,
}

/// Which vertices are seeds.
#[derive(Clone, Copy, Default, ValueEnum)]
enum On {
    #[default]
    Train,
    Val,
    Test,
    All,
}

/// A number that differs from batch to batch.
#[derive(Default)]
struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

/// What was counted over all batches.
struct Counts {
    /// Vertices of each level, from the seeds outwards.
    levels: Vec<Spread>,
    /// Edges of each layer, from the seeds outwards.
    layers: Vec<Spread>,
    seconds: f64,
    first: Blocks,
}

/// The two estimates of [`Counts`].
struct Estimates {
    by_edges: Estimate,
    by_degrees: Estimate,
}

/// A line of the report: a level or a layer.
struct Line<'a> {
    /// As it is known in text.
    name: String,
    /// As it is known in JSON.
    key: &'static str,
    number: usize,
    counted: &'a Spread,
    by_edges: f64,
    by_degrees: f64,
}

impl Sample {
    /// Runs the command.
    pub fn run(&self, out: &Output) -> Answer {
        if self.kind == Kind::Full && self.fanouts.iter().any(|fanout| *fanout != ALL) {
            return Err(input(
                "--kind full keeps all edges; write `all` for each layer, as in --fanouts all,all",
            ));
        }
        let fanouts = self.fanouts.iter().map(|f| Fanout::Each(*f)).collect();
        let rule = Rule::new(self.kind, fanouts, self.seed).map_err(refused)?;
        let data = self.graph.load(out)?;
        let seeds = self.on.seeds(&data);
        if seeds.is_empty() {
            return Err(input(format!(
                "{}: there are no {}{}",
                self.graph.file.display(),
                self.on.vertices(),
                self.on.help()
            )));
        }
        let batches = Batches::new(seeds, self.batch, self.cut, self.seed).map_err(refused)?;
        let counts = self.count(&data, &rule, &batches)?;
        let estimates = estimates(&data, &rule, &batches, counts.levels[0].mean())?;
        let lines = lines(&counts, &estimates);
        out.report(
            || self.text(&data, &batches, &counts, &lines),
            &self.json(&data, &batches, &counts, &lines),
        )
    }

    fn count(&self, data: &GraphData, rule: &Rule, batches: &Batches) -> Result<Counts, Failure> {
        let topology = data.topology.only(EdgeSet::Plain);
        let mut sampler = Sampler::new(&*topology, rule, self.threads).map_err(refused)?;
        let hops = rule.hops();
        let mut counts = Counts {
            levels: (0..=hops).map(|_| Spread::default()).collect(),
            layers: (0..hops).map(|_| Spread::default()).collect(),
            seconds: 0.0,
            first: Blocks::default(),
        };
        let mut blocks = Blocks::default();
        let mut drawn = 0;
        for number in 0..self.batches.div_ceil(batches.count()) {
            let epoch = batches.epoch(number).map_err(refused)?;
            for batch in 0..batches.count().min(self.batches - drawn) {
                let start = Instant::now();
                let sampled = sampler.sample(epoch.seeds(batch), epoch.step(batch), &mut blocks);
                counts.seconds += start.elapsed().as_secs_f64();
                sampled.map_err(refused)?;
                counts.add(&blocks);
                if number == 0 && batch == 0 && self.dump {
                    counts.first = blocks.clone();
                }
            }
            drawn += batches.count().min(self.batches - drawn);
        }
        Ok(counts)
    }

    fn text(&self, data: &GraphData, batches: &Batches, counts: &Counts, lines: &[Line]) -> String {
        let fanouts: Vec<String> = self.fanouts.iter().map(|f| fanout_name(*f)).collect();
        let mut text = facts(&[
            (
                "graph",
                format!(
                    "{}: {} vertices, {} edges",
                    data.name,
                    grouped(data.vertices().into()),
                    grouped(data.topology.edges_of(EdgeSet::Plain))
                ),
            ),
            (
                "seeds",
                format!(
                    "{} {} in {} of an epoch, cut {}",
                    grouped(batches.seeds().len() as u64),
                    self.on.vertices(),
                    several(batches.count().into(), "batch", "batches"),
                    self.cut.name()
                ),
            ),
            (
                "draws",
                format!(
                    "{}, fanouts {}, seed {}",
                    self.kind.name(),
                    fanouts.join(", "),
                    self.seed
                ),
            ),
            (
                "speed",
                format!(
                    "{:.1} M edges/s over {} with {}",
                    counts.rate() / 1e6,
                    several(self.batches.into(), "batch", "batches"),
                    several(self.threads as u64, "thread", "threads")
                ),
            ),
        ]);
        text.push('\n');
        let mut table = Table::new(1, 2);
        table.row([
            "",
            "mean",
            "spread",
            "by edges",
            "error",
            "by degrees",
            "error",
        ]);
        for line in lines {
            let mean = line.counted.mean();
            table.row([
                line.name.clone(),
                rounded(mean),
                percent_or_dash(line.counted.deviation().map(|d| d / mean.max(1.0))),
                rounded(line.by_edges),
                error(line.by_edges, mean),
                rounded(line.by_degrees),
                error(line.by_degrees, mean),
            ]);
        }
        text.push_str(&table.lines());
        if self.dump {
            text.push('\n');
            text.push_str(&super::blocks::text(&counts.first));
        }
        text
    }

    fn json(&self, data: &GraphData, batches: &Batches, counts: &Counts, lines: &[Line]) -> Value {
        let fanouts = self.fanouts.iter().map(|fanout| match *fanout {
            ALL => json!("all"),
            number => json!(number),
        });
        let of = |key: &str| -> Vec<Value> {
            let chosen = lines.iter().filter(|line| line.key == key);
            chosen.map(Line::json).collect()
        };
        let mut object = json!({
            "graph": data.name,
            "vertices": data.vertices(),
            "edges": data.topology.edges_of(EdgeSet::Plain),
            "seeds": batches.seeds().len(),
            "batches_of_epoch": batches.count(),
            "cut": self.cut.name(),
            "kind": self.kind.name(),
            "fanouts": fanouts.collect::<Vec<_>>(),
            "seed": self.seed,
            "batches": self.batches,
            "threads": self.threads,
            "seconds": counts.seconds,
            "edges_per_second": counts.rate(),
            "levels": of("level"),
            "layers": of("layer"),
        });
        if self.dump {
            object["first"] = super::blocks::json(&counts.first);
        }
        object
    }
}

impl On {
    fn seeds(self, data: &GraphData) -> Vec<u32> {
        let mask = match self {
            Self::All => return (0..data.vertices()).collect(),
            Self::Train => &data.train,
            Self::Val => &data.val,
            Self::Test => &data.test,
        };
        let chosen = (0..).zip(mask).filter(|(_, chosen)| **chosen);
        chosen.map(|(v, _)| v).collect()
    }

    fn vertices(self) -> &'static str {
        match self {
            Self::Train => "training vertices",
            Self::Val => "validation vertices",
            Self::Test => "test vertices",
            Self::All => "vertices",
        }
    }

    /// What to do if there are no such vertices.
    fn help(self) -> &'static str {
        match self {
            Self::Train | Self::Val | Self::Test => "; with --on all, any vertex is a seed",
            Self::All => "",
        }
    }
}

impl Counts {
    fn add(&mut self, blocks: &Blocks) {
        let hops = self.layers.len();
        for (hop, spread) in self.levels.iter_mut().enumerate() {
            spread.add(blocks.level(hops - hop).len() as f64);
        }
        for (hop, spread) in self.layers.iter_mut().enumerate() {
            spread.add(blocks.layer(hops - hop).edges.indices.len() as f64);
        }
    }

    /// Edges a second.
    fn rate(&self) -> f64 {
        let edges: f64 = self.layers.iter().map(|layer| layer.sum).sum();
        edges / self.seconds.max(1e-9)
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// Standard deviation over the batches; `None` for a single one.
    fn deviation(&self) -> Option<f64> {
        let variance = (self.squares - self.sum * self.mean()) / (self.count - 1.0);
        (self.count > 1.0).then(|| variance.max(0.0).sqrt())
    }
}

impl Line<'_> {
    fn json(&self) -> Value {
        json!({
            self.key: self.number,
            "mean": self.counted.mean(),
            "deviation": self.counted.deviation(),
            "by_edges": self.by_edges,
            "by_degrees": self.by_degrees,
        })
    }
}

fn estimates(
    data: &GraphData,
    rule: &Rule,
    batches: &Batches,
    size: f64,
) -> Result<Estimates, Failure> {
    let mut included = vec![0.0; data.vertices() as usize];
    for seed in batches.seeds() {
        included[*seed as usize] = size / batches.seeds().len() as f64;
    }
    let workload = summary::summarise(data, &[])?;
    Ok(Estimates {
        by_edges: by_edges(&data.topology.only(EdgeSet::Plain), rule, &mut included)
            .map_err(refused)?,
        by_degrees: by_degrees(&Degrees::of(&workload), size, rule),
    })
}

/// Levels and layers from the seeds outwards.
fn lines<'a>(counts: &'a Counts, estimates: &Estimates) -> Vec<Line<'a>> {
    let Estimates {
        by_edges,
        by_degrees,
    } = estimates;
    let hops = counts.layers.len();
    let mut lines = Vec::new();
    for (hop, counted) in counts.levels.iter().enumerate() {
        let number = hops - hop;
        if let Some(counted) = hop.checked_sub(1).map(|hop| &counts.layers[hop]) {
            lines.push(Line {
                name: format!("edges of layer {}", number + 1),
                key: "layer",
                number: number + 1,
                counted,
                by_edges: by_edges.edges[hop - 1],
                by_degrees: by_degrees.edges[hop - 1],
            });
        }
        lines.push(Line {
            name: format!("vertices of level {number}"),
            key: "level",
            number,
            counted,
            by_edges: by_edges.vertices[hop],
            by_degrees: by_degrees.vertices[hop],
        });
    }
    lines
}

/// An error in the words of the command line.
pub fn refused(error: SampleError) -> Failure {
    let option = match &error {
        SampleError::Hops { .. }
        | SampleError::LimitOfFull { .. }
        | SampleError::Types { .. }
        | SampleError::TooManyEdges { .. } => "--fanouts: ",
        SampleError::NothingLeft { .. } => "--cut drop: ",
        SampleError::CutOfShares { .. } => "--roots own: ",
        SampleError::Probabilities => "--cache-by probability: ",
        SampleError::EmptyBatch => "--batch: ",
        SampleError::TooManySteps { .. } => "--batches: ",
        SampleError::Threads { .. } => "--threads: ",
        SampleError::NoSeeds | SampleError::NoSuchSeed { .. } => "",
        SampleError::NoSet { .. } | SampleError::NoPairs { .. } => "",
        SampleError::Apart { .. } | SampleError::Answer { .. } => "",
    };
    input(format!("{option}{error}"))
}

/// Parses a fanout.
pub fn fanout(text: &str) -> Result<u32, String> {
    match text {
        "all" => Ok(ALL),
        number => within(FANOUTS)(number).map_err(|said| format!("{said}, or all")),
    }
}

/// A fanout as it is written.
pub fn fanout_name(fanout: u32) -> String {
    match fanout {
        ALL => "all".to_owned(),
        number => grouped(number.into()),
    }
}

/// A number with its noun: `1 batch`, `2 batches`.
fn several(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}

/// A mean, as a whole number if it is not small.
fn rounded(number: f64) -> String {
    if number < 100.0 {
        return format!("{number:.1}");
    }
    grouped(number.round() as u64)
}

/// How far an estimate is from a mean, in percent.
fn error(estimate: f64, mean: f64) -> String {
    if mean == 0.0 {
        return "-".to_owned();
    }
    // Adding 0 turns -0 into 0.
    let percent = ((estimate / mean - 1.0) * 1000.0).round() / 10.0 + 0.0;
    format!("{percent:+.1} %")
}
