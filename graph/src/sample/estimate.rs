//! How large batches are, without drawing any.
//!
//! Both estimates go hop by hop from the probability that a vertex is in a level to the probability
//! that it is in the next one out. They take edges for independent, which is exact to about 1 % for
//! one hop. Where neighborhoods of a seed overlap, they count too many vertices after two.

use super::{Fanout, HopEdges, Kind, Rule, SampleError};
use crate::Topology;
use gnnc_ir::{EdgeSet, Workload};

/// Expected sizes of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Vertices of each level, from the seeds outwards.
    pub vertices: Vec<f64>,
    /// Edges of each layer, from the seeds outwards.
    pub edges: Vec<f64>,
    /// By degrees: for each class, the probability that a vertex is in level 0.
    pub included: Vec<f64>,
}

impl Estimate {
    /// Which share of the vertices of level 0 is read from a cache of the `rows` with most edges out of them. Of the
    /// batches that have a vertex with some probability, the share `fetched` reads it from elsewhere.
    pub fn share_of_first(
        &self,
        degrees: &Degrees,
        rows: f64,
        fetched: impl Fn(f64) -> f64,
    ) -> f64 {
        let mut classes: Vec<(&DegreeClass, f64)> = degrees
            .classes
            .iter()
            .zip(self.included.iter().copied())
            .collect();
        classes.sort_by(|(a, _), (b, _)| b.out_of.total_cmp(&a.out_of));
        let (mut left, mut first, mut all) = (rows, 0.0, 0.0);
        for (class, p) in classes {
            let taken = class.vertices.min(left);
            left -= taken;
            if taken > 0.0 {
                first += taken * p * (1.0 - fetched(p));
            }
            all += class.vertices * p;
        }
        if all > 0.0 { first / all } else { 0.0 }
    }
}

/// Vertices of about the same degree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DegreeClass {
    /// How many vertices.
    pub vertices: f64,
    /// Their in-degree.
    pub into: f64,
    /// Their out-degree.
    pub out_of: f64,
}

/// Expected sizes from the edges of the graph (inclusion probabilities; SALIENT++, Kaler et al.,
/// MLSys 2023), in time hops x edges.
///
/// `included` holds for each vertex the probability that it is a seed, and after the call the
/// probability that it is in level 0. With typed edges, `Labor` is estimated as `Neighbor`, which
/// is an upper bound.
///
/// # Errors
/// Fanouts by type that do not fit the graph.
pub fn by_edges(
    topology: &Topology,
    rule: &Rule,
    included: &mut [f64],
) -> Result<Estimate, SampleError> {
    rule.check(&HopEdges::plain(topology))?;
    let by_source = rule.kind() == Kind::Labor && topology.relations() == 0;
    let order = if by_source {
        by_degree(topology)
    } else {
        (0..topology.vertices()).collect()
    };
    let relation_degrees = topology.relation_degrees();
    let mut estimate = Estimate::default();
    estimate.vertices.push(included.iter().sum());
    for fanout in rule.fanouts() {
        let mut sources = Sources::new(topology.vertices());
        let mut edges = 0.0;
        for v in &order {
            let p = included[*v as usize];
            let row = topology.indptr()[*v as usize] as usize;
            let neighbors = topology.in_neighbours(*v);
            let kept = share_kept(neighbors.len() as f64, fanout.of(0));
            for (edge, u) in neighbors.iter().enumerate() {
                let kept = match topology.types_into(*v).get(edge) {
                    Some(kind) => {
                        share_kept(f64::from(relation_degrees[row + edge]), fanout.of(*kind))
                    }
                    None => kept,
                };
                edges += p * kept;
                if by_source {
                    sources.number_below(*u, kept, p);
                } else {
                    sources.draw(*u, kept * p);
                }
            }
        }
        for (v, p) in included.iter_mut().enumerate() {
            *p = 1.0 - (1.0 - *p) * sources.unread(v, by_source);
        }
        estimate.edges.push(edges);
        estimate.vertices.push(included.iter().sum());
    }
    Ok(estimate)
}

/// Which share of `degree` edges is kept.
fn share_kept(degree: f64, fanout: u32) -> f64 {
    (f64::from(fanout) / degree.max(1.0)).min(1.0)
}

/// All vertices, ascending by in-degree.
fn by_degree(topology: &Topology) -> Vec<u32> {
    let degrees = topology.in_degrees();
    let mut order: Vec<u32> = (0..topology.vertices()).collect();
    order.sort_by_key(|v| degrees[*v as usize]);
    order
}

/// What one hop reads.
///
/// With `Labor`, a vertex has one random number `r` from 0 to 1, and each destination `v` in the
/// level reads it if `r` is below about `t(v) = fanout / degree`. So it is read with the
/// probability that `r` is below the largest such `t`. Destinations arrive by descending `t`.
struct Sources {
    /// Probability that no destination so far is in the level or reads it.
    none: Vec<f64>,
    /// With `Labor`: the last `t`, and the probability that some destination with a larger one
    /// reads the vertex.
    last: Vec<f64>,
    read: Vec<f64>,
}

impl Sources {
    fn new(vertices: u32) -> Self {
        let vertices = vertices as usize;
        Self {
            none: vec![1.0; vertices],
            last: vec![1.0; vertices],
            read: vec![0.0; vertices],
        }
    }

    /// A destination reads `u` with probability `p`.
    fn draw(&mut self, u: u32, p: f64) {
        self.none[u as usize] *= 1.0 - p;
    }

    /// A destination that is in the level with probability `p` reads `u` if its number is below
    /// `limit`.
    fn number_below(&mut self, u: u32, limit: f64, p: f64) {
        let u = u as usize;
        self.read[u] += (self.last[u] - limit) * (1.0 - self.none[u]);
        self.last[u] = limit;
        self.none[u] *= 1.0 - p;
    }

    /// The probability that nothing reads `u`.
    fn unread(&self, u: usize, by_source: bool) -> f64 {
        if by_source {
            1.0 - self.read[u] - self.last[u] * (1.0 - self.none[u])
        } else {
            self.none[u]
        }
    }
}

/// What statistics say about the edges of vertices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Degrees {
    /// Vertices by their plain edges.
    pub classes: Vec<DegreeClass>,
    /// Types of these edges; 0 if they have none.
    pub relations: u32,
    /// For each named set, its edges into a seed, in the mean.
    pub into_seed: Vec<f64>,
}

impl Degrees {
    /// Those of a graph of which only statistics are known. Out-degrees are taken to be in-degrees, and
    /// edges of named sets to lead into the vertices of the splits.
    pub fn of(workload: &Workload) -> Self {
        let split = workload.split.iter().sum::<u64>() as f64;
        let into_seed = workload.edge_sets.iter().map(|set| {
            let least = set.edges as f64 / (set.max_degree as f64).max(1.0);
            set.edges as f64 / split.max(least).max(1.0)
        });
        Self {
            classes: degree_classes(workload),
            relations: workload.relations,
            into_seed: into_seed.collect(),
        }
    }
}

fn degree_classes(workload: &Workload) -> Vec<DegreeClass> {
    // Class k > 0 has the degrees from 2^(k-1) to 2^k - 1.
    let bounds = |k: usize| match k {
        0 => (0.0, 0.0),
        _ => (2f64.powi(k as i32 - 1), 2f64.powi(k as i32) - 1.0),
    };
    let classes = || workload.degree_histogram.iter().enumerate();
    // Degrees lie at the same place between the bounds of all classes: the place at which they add
    // up to the edges.
    let least: f64 = classes().map(|(k, n)| bounds(k).0 * *n as f64).sum();
    let most: f64 = classes().map(|(k, n)| bounds(k).1 * *n as f64).sum();
    let place = ((workload.edges as f64 - least) / (most - least).max(1.0)).clamp(0.0, 1.0);
    let class = |(k, vertices): (usize, &u64)| {
        let (least, most) = bounds(k);
        let degree = least + place * (most - least);
        DegreeClass {
            vertices: *vertices as f64,
            into: degree,
            out_of: degree,
        }
    };
    classes().map(class).collect()
}

/// Expected sizes from the degrees of the vertices, for uniform seeds.
///
/// Edges are taken to end at random. Of the edges into a vertex, as many are kept as the fanouts of
/// all types of edges together allow. Edges of a named set lead into seeds, and no two from one vertex.
pub fn by_degrees(degrees: &Degrees, seeds: f64, rule: &Rule) -> Estimate {
    let Degrees {
        classes, relations, ..
    } = degrees;
    let vertices: f64 = classes.iter().map(|class| class.vertices).sum();
    let edges: f64 = classes.iter().map(|c| c.vertices * c.out_of).sum();
    let mut included = vec![(seeds / vertices.max(1.0)).min(1.0); classes.len()];
    let level = |included: &[f64]| -> f64 {
        let each = classes.iter().zip(included);
        each.map(|(class, p)| class.vertices * p).sum()
    };
    let mut by_degree: Vec<usize> = (0..classes.len()).collect();
    by_degree.sort_by(|a, b| classes[*a].into.total_cmp(&classes[*b].into));
    let mut estimate = Estimate::default();
    estimate.vertices.push(level(&included));
    for (hop, fanout) in (1..).zip(rule.fanouts()) {
        if let EdgeSet::Named(number) = rule.set(hop) {
            let into = degrees.into_seed.get(usize::from(number).wrapping_sub(1));
            let kept = seeds * into.copied().unwrap_or(0.0).min(fanout.of(0).into());
            let unread = 1.0 - (kept / vertices.max(1.0)).min(1.0);
            for p in &mut included {
                *p = 1.0 - (1.0 - *p) * unread;
            }
            estimate.edges.push(kept);
            estimate.vertices.push(level(&included));
            continue;
        }
        let fanout = match fanout {
            Fanout::Each(fanout) => f64::from(*fanout) * f64::from((*relations).max(1)),
            Fanout::Types(fanouts) => fanouts.iter().map(|f| f64::from(*f)).sum(),
        };
        // Edges into the level, and those of them that are kept, over all edges.
        let (mut reached, mut kept) = (0.0, 0.0);
        // With `Labor`: for each class of destinations, by descending limit, which share of all
        // edges leads into it or a class before it and into the level.
        let mut steps = Vec::new();
        for class in &by_degree {
            let DegreeClass { vertices, into, .. } = classes[*class];
            let into_level = vertices * into * included[*class] / edges.max(1.0);
            let limit = (fanout / into.max(1.0)).min(1.0);
            reached += into_level;
            kept += into_level * limit;
            steps.push((limit, reached));
        }
        for (class, p) in classes.iter().zip(&mut included) {
            let unread = match rule.kind() {
                Kind::Labor => 1.0 - read_below(&steps, class.out_of),
                Kind::Neighbor | Kind::Full => (-kept * class.out_of).exp(),
            };
            *p = 1.0 - (1.0 - *p) * unread;
        }
        estimate.edges.push(kept * edges);
        estimate.vertices.push(level(&included));
    }
    estimate.included = included;
    estimate
}

/// The probability that a vertex with this out-degree is read under `Labor`: its number is below
/// the largest limit of the destinations in the level that it leads to.
fn read_below(steps: &[(f64, f64)], out_of: f64) -> f64 {
    let mut read = 0.0;
    for (i, (limit, reached)) in steps.iter().enumerate() {
        let next = steps.get(i + 1).map_or(0.0, |step| step.0);
        read += (limit - next) * (1.0 - (-reached * out_of).exp());
    }
    read
}
