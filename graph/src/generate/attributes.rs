//! Features, labels and split of generated graphs.

use super::{purpose, wrong};
use crate::rng::Stream;
use crate::topology::check_vertices;
use crate::{Features, GraphData, GraphError, Labels, Topology};
use rayon::prelude::*;

/// Features, labels and split of a generated graph, and types of its edges.
///
/// Edges within a class have types with even numbers, and others those with odd numbers, so types say which
/// neighbors are alike. Without classes, or with one type, any edge has any type.
///
/// A vertex's features are `signal` times its class center, a vector of 1 and -1, plus noise of
/// variance 1. With `nonzeros` they are stored sparsely, as words of a document are: so many ones,
/// drawn from all columns, and by `signal` more often from those that are 1 in the class center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributes {
    /// Features per vertex; 0 for none.
    pub features: u32,
    /// Nonzeros of a vertex's features, at most half of them; 0 if every value is drawn.
    pub nonzeros: u32,
    /// Number of classes, of nearly equal size; 0 for no labels and no split.
    pub classes: u32,
    /// Number of types of edges; 0 for none.
    pub relations: u32,
    /// Distance between the classes; 0 gives pure noise.
    pub signal: f32,
    /// Fraction of the vertices used for training.
    pub train: f64,
    /// Fraction of the vertices used for validation; the rest are for the test.
    pub val: f64,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            features: 0,
            nonzeros: 0,
            classes: 0,
            relations: 0,
            signal: 0.5,
            train: 0.6,
            val: 0.2,
        }
    }
}

/// Checks the attributes against the number of vertices, and returns that number.
pub(super) fn check_attributes(vertices: u32, attributes: &Attributes) -> Result<u32, GraphError> {
    if vertices == 0 {
        return Err(wrong("vertices", "0".to_owned(), "at least 1"));
    }
    let n = check_vertices("generator", u128::from(vertices), 0)?;
    if attributes.classes > n {
        return Err(wrong(
            "classes",
            attributes.classes.to_string(),
            format!("at most {n}, one per vertex"),
        ));
    }
    if !attributes.signal.is_finite() {
        return Err(wrong(
            "signal",
            attributes.signal.to_string(),
            "a finite number",
        ));
    }
    if attributes.nonzeros > attributes.features / 2 {
        return Err(wrong(
            "nonzeros",
            attributes.nonzeros.to_string(),
            format!("at most half of the {} features", attributes.features),
        ));
    }
    let (train, val) = (attributes.train, attributes.val);
    if !(0.0..=1.0).contains(&train) || !(0.0..=1.0).contains(&val) || train + val > 1.0 + 1e-9 {
        return Err(wrong(
            "train and val",
            format!("{train} and {val}"),
            "fractions with a sum of at most 1",
        ));
    }
    Ok(n)
}

/// The class of each vertex; classes differ by at most one in size. Empty without classes.
pub(super) fn classes_of(n: u32, attributes: &Attributes, seed: u64) -> Vec<i32> {
    match attributes.classes {
        0 => Vec::new(),
        classes => {
            let order = Stream::new(seed, purpose::LABELS).permutation(n);
            order
                .into_iter()
                .map(|place| (place % classes) as i32)
                .collect()
        }
    }
}

/// A graph with this topology, features, the given labels and a split.
pub(super) fn with_attributes(
    name: &str,
    topology: Topology,
    labels: Vec<i32>,
    attributes: &Attributes,
    seed: u64,
) -> Result<GraphData, GraphError> {
    let n = topology.vertices();
    let topology = match attributes.relations {
        0 => topology,
        _ => typed(&topology, &labels, attributes, seed)?,
    };
    let mut data = GraphData::new(name, topology);
    data.features = match (attributes.features, attributes.nonzeros) {
        (0, _) => Features::None,
        (_, 0) => dense(n, &labels, attributes, seed),
        (_, _) => sparse(n, &labels, attributes, seed),
    };
    if !labels.is_empty() {
        data.labels = Labels::Single(labels);
        let train = (attributes.train * f64::from(n)).round() as u32;
        let val = train + (attributes.val * f64::from(n)).round() as u32;
        for (v, place) in Stream::new(seed, purpose::SPLIT)
            .permutation(n)
            .into_iter()
            .enumerate()
        {
            let split = match place {
                p if p < train => &mut data.train,
                p if p < val => &mut data.val,
                _ => &mut data.test,
            };
            split[v] = true;
        }
    }
    Ok(data)
}

/// The same edges with types.
fn typed(
    topology: &Topology,
    labels: &[i32],
    attributes: &Attributes,
    seed: u64,
) -> Result<Topology, GraphError> {
    let (types, draws) = (
        u64::from(attributes.relations),
        Stream::new(seed, purpose::TYPES),
    );
    let class = |v: u32| labels.get(v as usize);
    let sources = |v: u32| topology.in_neighbours(v).iter().map(move |u| (*u, v));
    let edges = (0..topology.vertices()).flat_map(sources);
    let typed = edges.map(|(u, v)| {
        let bits = draws.bits(u64::from(v) << 32 | u64::from(u));
        let kind = match labels.is_empty() || types == 1 {
            true => Stream::below(bits, types),
            false => {
                let odd = u64::from(class(u) != class(v));
                2 * Stream::below(bits, (types + 1 - odd) / 2) + odd
            }
        };
        (u, v, kind as u16)
    });
    Ok(Topology::typed(topology.vertices(), attributes.relations, typed)?.0)
}

/// Whether a column is 1 in the center of a class, not -1.
fn in_centre(centres: Stream, class: u64, width: u64, column: u64) -> bool {
    centres.bits(class * width + column) >> 63 == 0
}

fn dense(n: u32, labels: &[i32], attributes: &Attributes, seed: u64) -> Features {
    let width = attributes.features as usize;
    let centres = Stream::new(seed, purpose::CENTRES);
    let noise = Stream::new(seed, purpose::NOISE);
    let mut values = vec![0f32; n as usize * width];
    let rows = values.par_chunks_mut(width).enumerate();
    rows.for_each(|(v, row)| {
        let class = labels.get(v).copied().unwrap_or(0) as u64;
        for (j, x) in row.iter_mut().enumerate() {
            let centre = match in_centre(centres, class, width as u64, j as u64) {
                true => attributes.signal,
                false => -attributes.signal,
            };
            *x = centre + noise.normal((v * width + j) as u64);
        }
    });
    Features::dense(n as usize, attributes.features, values)
}

fn sparse(n: u32, labels: &[i32], attributes: &Attributes, seed: u64) -> Features {
    let (width, count) = (attributes.features, attributes.nonzeros as usize);
    let centres = Stream::new(seed, purpose::CENTRES);
    let words = Stream::new(seed, purpose::WORDS);
    // Of 2^32, how often a column outside of the class center is taken.
    let outside = ((1u64 << 32) as f64 / (1.0 + f64::from(attributes.signal.max(0.0)))) as u64;
    let mut indices = vec![0u32; n as usize * count];
    let rows = indices.par_chunks_mut(count).enumerate();
    rows.for_each(|(v, row)| {
        let class = labels.get(v).copied().unwrap_or(0) as u64;
        let begin = (v as u64) << 32;
        let (mut found, mut draw) = (0, begin);
        while found < count {
            // A class center may have too few columns.
            let any = draw - begin > 64 * count as u64;
            let column = Stream::below(words.bits(draw), u64::from(width)) as u32;
            let chance = words.bits(draw + 1) >> 32;
            draw += 2;
            let taken = any
                || chance < outside
                || in_centre(centres, class, u64::from(width), u64::from(column));
            if taken && !row[..found].contains(&column) {
                row[found] = column;
                found += 1;
            }
        }
        row.sort_unstable();
    });
    Features::Sparse {
        columns: width,
        indptr: (0..=u64::from(n)).map(|v| v * count as u64).collect(),
        values: vec![1.0; indices.len()],
        indices,
    }
}
