//! Graph items: the source of a model's data, and its declared statistics.

use super::settings::Reader;
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Expr, ExprKind, GraphItem, Module};
use gnnc_ir::graph::model::{DataOptions, GraphSource};
use gnnc_ir::words::types::MAX_SETS;
use gnnc_ir::workload::{
    MAX_EDGES, MAX_NEGATIVES, MAX_RELATIONS, MAX_VERTEX_TYPES, MAX_VERTICES, MAX_WIDTH, NamedSet,
    Origin, Workload, most_edges,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const STATISTICS: &[&str] = &[
    "vertices",
    "edges",
    "features",
    "classes",
    "train_fraction",
    "val_fraction",
    "test_fraction",
    "train",
    "val",
    "test",
    "max_degree",
    "replication",
    "feature_density",
    "vertex_types",
    "relations",
    "edge_features",
    "edge_sets",
];

impl Module {
    /// The source of the model's data. `None` if the model or its graph is missing or wrong,
    /// which [`super::elaborate`] reports.
    pub fn graph_source(&self) -> Option<GraphSource> {
        source(self.model_graph()?, &mut Vec::new())
    }
}

/// Reads a graph item.
pub fn source(item: &GraphItem, diagnostics: &mut Vec<Diagnostic>) -> Option<GraphSource> {
    let name = item.name.name.clone();
    let Some(path) = &item.path else {
        return statistics(item, diagnostics).map(GraphSource::Statistics);
    };
    let before = diagnostics.len();
    let keys = ["normalize_features", "features", "links"];
    let mut reader = Reader::new(&item.settings, "graph", &keys, diagnostics);
    let normalize_features = reader.boolean("normalize_features").unwrap_or(false);
    let identity_features = reader.word("features", "identity");
    let links = reader.count("links", 1.0..=f64::from(MAX_NEGATIVES));
    let options = DataOptions {
        links: links.map(|links| links as u32),
        normalize_features,
        identity_features,
    };
    if diagnostics[before..].iter().any(Diagnostic::is_error) {
        return None;
    }
    Some(GraphSource::Data {
        name,
        path: path.clone(),
        options,
    })
}

fn statistics(item: &GraphItem, diagnostics: &mut Vec<Diagnostic>) -> Option<Workload> {
    let before = diagnostics.len();
    let mut reader = Reader::new(&item.settings, "graph", STATISTICS, diagnostics);
    for key in ["vertices", "edges", "features", "classes"] {
        if reader.get(key).is_none() {
            reader.missing(key, item.name.span());
        }
    }
    let vertices = reader.count("vertices", 1.0..=MAX_VERTICES as f64);
    let relations = reader.count("relations", 1.0..=f64::from(MAX_RELATIONS));
    let vertex_types = reader.count("vertex_types", 2.0..=f64::from(MAX_VERTEX_TYPES));
    let edge_features = reader.count("edge_features", 1.0..=f64::from(MAX_WIDTH));
    let edges = reader.count("edges", 0.0..=MAX_EDGES as f64);
    let edge_sets = edge_sets(&mut reader, vertices.unwrap_or(1));
    if let (Some(vertices), Some(edges)) = (vertices, edges) {
        let most = most_edges(vertices, relations.unwrap_or(0) as u32);
        let why = match relations {
            None => format!(
                "{vertices} vertices have at most one edge for each ordered pair; repeated edges and self \
                 loops do not count"
            ),
            Some(relations) => format!(
                "{vertices} vertices have at most one edge per relation ({relations}) for each ordered \
                 pair; repeated edges and self loops do not count"
            ),
        };
        reader.at_most("edges", edges, most, &why);
    }
    let most = MAX_WIDTH - vertex_types.unwrap_or(0) as u32;
    let is_identity =
        |value: &Expr| matches!(&value.kind, ExprKind::Name(name) if name == "identity");
    let identity = reader.get("features").is_some_and(is_identity);
    let features = if identity {
        reader.at_most(
            "features",
            vertices.unwrap_or(1),
            u64::from(most),
            "one for each vertex",
        );
        vertices
    } else {
        reader.count("features", 1.0..=f64::from(most))
    };
    let classes = reader.count("classes", 1.0..=f64::from(MAX_WIDTH));
    let most = vertices.unwrap_or(1) as f64;
    let split = ["train", "val", "test"].map(|part| {
        let fraction = reader.number(&format!("{part}_fraction"), 0.0..=1.0);
        let count = reader.count(part, 0.0..=most);
        count.or(fraction.map(|f| (f * most).round() as u64))
    });
    let max_degree = reader.count("max_degree", 0.0..=most);
    let density = reader.number("feature_density", 0.0..=1.0).unwrap_or(1.0);
    let replication = reader.map("replication", 2.0..=most.clamp(2.0, 1e6), replicas);
    if diagnostics[before..].iter().any(Diagnostic::is_error) {
        return None;
    }
    let (vertices, edges) = (vertices?, edges?);
    let vertex_types = vertex_types.unwrap_or(0) as u32;
    let (features, classes) = (features? as u32, classes? as u32);
    let stored = match identity {
        true => vertices,
        false => (vertices as f64 * f64::from(features) * density).round() as u64,
    };
    // Each vertex has a 1 in the column of its type.
    let types = if vertex_types > 0 { vertices } else { 0 };
    let max_degree = max_degree.unwrap_or_else(|| likely_max_degree(vertices, edges));
    let replication: BTreeMap<u32, f64> = replication
        .into_iter()
        .map(|(parts, alpha)| (parts as u32, alpha))
        .collect();
    Some(Workload {
        name: item.name.name.clone(),
        origin: Origin::Declared,
        vertices,
        edges,
        features: features + vertex_types,
        feature_nonzeros: stored + types,
        identity_features: identity && vertex_types == 0,
        column_nonzeros: Vec::new(),
        classes,
        vertex_types,
        relations: relations.unwrap_or(0) as u32,
        edge_features: edge_features.unwrap_or(0) as u32,
        edge_sets,
        // By default, all vertices are training vertices.
        split: [
            split[0].unwrap_or(vertices),
            split[1].unwrap_or(0),
            split[2].unwrap_or(0),
        ],
        max_degree,
        max_out_degree: 0,
        degree_histogram: likely_histogram(vertices, edges, max_degree),
        reuse: Vec::new(),
        replication,
        partitions: BTreeMap::new(),
    })
}

/// Reads `edge_sets = { "NAME": EDGES, .. }`.
fn edge_sets(reader: &mut Reader, vertices: u64) -> Vec<NamedSet> {
    const KEY: &str = "edge_sets";
    const EXPECTED: &str =
        "a map of names in quotes and numbers of edges, such as `{ \"graphs\": 5_000 }`";
    let Some(map) = reader.get(KEY) else {
        return Vec::new();
    };
    let ExprKind::Map(entries) = &map.kind else {
        reader.wrong::<()>(KEY, map, EXPECTED);
        return Vec::new();
    };
    let mut sets: Vec<NamedSet> = Vec::new();
    for (key, value) in entries {
        let ExprKind::Str(name) = &key.kind else {
            reader.wrong::<()>(KEY, map, EXPECTED);
            return Vec::new();
        };
        let Some(edges) = reader.number_of(KEY, value, 0.0..=MAX_EDGES as f64, true) else {
            continue;
        };
        let name = name.clone();
        if name.is_empty() || sets.iter().any(|set| set.name == name) || sets.len() == MAX_SETS {
            let expected = format!("a map of at most {MAX_SETS} different names");
            reader.wrong::<()>(KEY, map, &expected);
            return Vec::new();
        }
        let edges = edges as u64;
        let max_degree = likely_max_degree(vertices, edges).min(edges);
        sets.push(NamedSet {
            name,
            edges,
            max_degree,
        });
    }
    sets
}

/// Range of replication factors for this many parts: a vertex is in the halo of every part but
/// its own at most.
fn replicas(parts: f64) -> RangeInclusive<f64> {
    0.0..=parts - 1.0
}

/// Estimates the largest in-degree from a power law with exponent 2.5: `mean * vertices^(1 /
/// 1.5)` over the mean of the law, at most the number of vertices.
fn likely_max_degree(vertices: u64, edges: u64) -> u64 {
    let mean = edges as f64 / vertices as f64;
    let largest = mean / 3.0 * (vertices as f64).powf(1.0 / 1.5);
    (largest.round() as u64).clamp(u64::from(edges > 0), vertices)
}

/// Estimates a degree histogram from the number of vertices, the mean and the largest degree.
/// Bucket weights `[2^(k-1), 2^k)` form a geometric progression whose ratio matches the mean.
fn likely_histogram(vertices: u64, edges: u64, max_degree: u64) -> Vec<u64> {
    if max_degree == 0 || edges == 0 {
        return vec![vertices];
    }
    let buckets = 64 - max_degree.leading_zeros() as usize;
    let middle = |k: usize| {
        let (low, high) = (
            (1u64 << k) as f64,
            ((1u64 << (k + 1)) as f64).min(max_degree as f64 + 1.0),
        );
        (low + high - 1.0) / 2.0
    };
    let mean = edges as f64 / vertices as f64;
    if mean < 1.0 {
        let some = edges.min(vertices);
        return vec![vertices - some, some];
    }
    let shares = |ratio: f64| {
        let weights: Vec<f64> = (0..buckets).map(|k| ratio.powi(k as i32)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<f64>>()
    };
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..100 {
        let ratio = (low * high).sqrt();
        let found: f64 = shares(ratio)
            .iter()
            .enumerate()
            .map(|(k, s)| s * middle(k))
            .sum();
        if found < mean {
            low = ratio
        } else {
            high = ratio
        }
    }
    let mut histogram = vec![0u64];
    let exact = shares(low)
        .into_iter()
        .map(|s| (s * vertices as f64).round() as u64);
    histogram.extend(exact);
    // The fullest bucket absorbs rounding errors, so that all vertices are counted.
    let total: u64 = histogram.iter().sum();
    if let Some(fullest) = histogram.iter_mut().max() {
        *fullest = (*fullest + vertices).saturating_sub(total);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn declared_statistics_become_a_workload() {
        let text = "graph g { vertices = 1_000 edges = 20_000 features = 8 classes = 3
            train_fraction = 0.6 val = 100 max_degree = 200 replication = { 2: 0.5, 4: 1.5 } }
            model m() on g { loss cross_entropy(linear(x, classes), labels) }";
        let (module, diagnostics) = parse(text);
        assert_eq!(diagnostics, []);
        let Some(GraphSource::Statistics(w)) = module.graph_source() else {
            panic!("no workload")
        };
        assert_eq!(
            (w.vertices, w.edges, w.split),
            (1000, 20_000, [600, 100, 0])
        );
        assert_eq!(w.replication[&4], 1.5);
        assert_eq!(w.degree_histogram.iter().sum::<u64>(), 1000);
        assert_eq!(w.degree_histogram.len(), 9);
        let mean: f64 = (1..9)
            .map(|k| w.degree_histogram[k] as f64 * 0.75 * f64::powi(2.0, k as i32))
            .sum();
        assert!((mean / 20_000.0 - 1.0).abs() < 0.1, "{mean}");
    }
}
