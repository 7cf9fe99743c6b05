//! Planted partitions: graphs with learnable classes.

use super::attributes::{Attributes, check_attributes, classes_of, with_attributes};
use super::{draw_edges, purpose, wrong};
use crate::rng::Stream;
use crate::{GraphData, GraphError};

/// A graph whose vertices prefer neighbors of their own class: an undirected stochastic block model
/// with a given number of edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlantedPartition {
    /// Number of vertices.
    pub vertices: u32,
    /// Stored edges: twice the undirected edges. Rounded down to an even number.
    pub edges: u64,
    /// Probability that an edge stays within a class.
    pub homophily: f64,
    /// Features, labels and split; at least one class.
    pub attributes: Attributes,
    /// Random seed.
    pub seed: u64,
}

impl Default for PlantedPartition {
    /// 1000 vertices with 10 neighbors each, 4 classes, 16 features: a graph that a small model
    /// learns.
    fn default() -> Self {
        Self {
            vertices: 1000,
            edges: 10_000,
            homophily: 0.8,
            attributes: Attributes {
                features: 16,
                classes: 4,
                ..Attributes::default()
            },
            seed: 1,
        }
    }
}

impl PlantedPartition {
    /// Generates the graph.
    ///
    /// # Errors
    /// No classes, or more than vertices; a homophily outside 0 to 1; a homophily above 0 if
    /// classes have only one vertex, or below 1 if there is only one class; more edges than fit.
    pub fn generate(&self) -> Result<GraphData, GraphError> {
        let n = check_attributes(self.vertices, &self.attributes)?;
        let classes = self.attributes.classes;
        if classes == 0 {
            return Err(wrong("classes", "0".to_owned(), "at least 1"));
        }
        if !(0.0..=1.0).contains(&self.homophily) {
            return Err(wrong("homophily", self.homophily.to_string(), "0 to 1"));
        }
        if classes == 1 && self.homophily < 1.0 {
            return Err(wrong(
                "homophily",
                self.homophily.to_string(),
                "1, since there is one class",
            ));
        }
        let labels = classes_of(n, &self.attributes, self.seed);
        let mut by_class: Vec<u32> = (0..n).collect();
        by_class.sort_by_key(|&v| labels[v as usize]);
        let mut first = vec![0usize; classes as usize + 1];
        for &label in &labels {
            first[label as usize + 1] += 1;
        }
        for class in 0..classes as usize {
            first[class + 1] += first[class];
        }
        let inside = (self.homophily * (1u64 << 53) as f64) as u64;
        let stream = Stream::new(self.seed, purpose::EDGES);
        let draw = |edge: u64| {
            let bits = |i: u64| stream.bits(edge * 4 + i);
            let u = Stream::below(bits(0), u64::from(n)) as u32;
            let class = labels[u as usize] as usize;
            let (start, end) = (first[class] as u64, first[class + 1] as u64);
            let place = if bits(1) >> 11 < inside {
                start + Stream::below(bits(2), end - start)
            } else {
                let other = Stream::below(bits(2), u64::from(n) - (end - start));
                if other < start {
                    other
                } else {
                    other + end - start
                }
            };
            (u, by_class[place as usize])
        };
        let topology = draw_edges(n, self.edges, true, draw)?;
        with_attributes(
            "planted-partition",
            topology,
            labels,
            &self.attributes,
            self.seed,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, Labels};

    #[test]
    fn planted_classes_prefer_their_own() {
        let parameters = PlantedPartition::default();
        let graph = parameters.generate().unwrap();
        let Labels::Single(labels) = &graph.labels else {
            panic!()
        };
        let inside = (0..1000u32)
            .flat_map(|v| graph.topology.in_neighbours(v).iter().map(move |&u| (u, v)))
            .filter(|&(u, v)| labels[u as usize] == labels[v as usize])
            .count();
        let homophily = inside as f64 / graph.topology.edges() as f64;
        assert!((homophily - 0.8).abs() < 0.02, "{homophily}");
        assert_eq!(graph.validate(), []);
        assert_eq!(graph.classes(), 4);
        let count = |mask: &[bool]| mask.iter().filter(|&&m| m).count();
        assert_eq!(
            (count(&graph.train), count(&graph.val), count(&graph.test)),
            (600, 200, 200)
        );
    }

    /// After averaging over neighbors, the nearest class center is usually the right one.
    #[test]
    fn planted_features_are_learnable() {
        let graph = PlantedPartition::default().generate().unwrap();
        let Labels::Single(labels) = &graph.labels else {
            panic!()
        };
        let mut centres = vec![[0f32; 16]; 4];
        let mut means = vec![[0f32; 16]; 1000];
        for v in 0..1000 {
            let neighbours = graph.topology.in_neighbours(v as u32);
            for &u in neighbours.iter().chain([&(v as u32)]) {
                for j in 0..16 {
                    means[v][j] += graph.features.values()[u as usize * 16 + j]
                        / (neighbours.len() + 1) as f32;
                }
            }
            if graph.train[v] {
                for j in 0..16 {
                    centres[labels[v] as usize][j] += means[v][j] / 150.0;
                }
            }
        }
        let tested: Vec<usize> = (0..1000).filter(|&v| graph.test[v]).collect();
        let right = tested.iter().filter(|&&v| {
            let distance = |c: &[f32; 16]| {
                c.iter()
                    .zip(&means[v])
                    .map(|(a, b)| (a - b) * (a - b))
                    .sum::<f32>()
            };
            let nearest =
                (0..4).min_by(|&a, &b| distance(&centres[a]).total_cmp(&distance(&centres[b])));
            nearest == Some(labels[v] as usize)
        });
        let accuracy = right.count() as f64 / tested.len() as f64;
        assert!(accuracy > 0.85, "{accuracy}");
    }

    /// Columns of the own class are drawn (1 + signal) times as often.
    #[test]
    fn sparse_features_are_as_many_as_wanted_and_tell_the_class() {
        let mut planted = PlantedPartition::default();
        planted.attributes.nonzeros = 6;
        for signal in [0.0, 1.0, 1e30] {
            planted.attributes.signal = signal;
            let graph = planted.generate().unwrap();
            assert_eq!(graph.validate(), []);
            let Features::Sparse {
                indptr, indices, ..
            } = &graph.features
            else {
                panic!()
            };
            assert!(indptr.windows(2).all(|row| row[1] - row[0] == 6));
            let Labels::Single(labels) = &graph.labels else {
                panic!()
            };
            let mut counts = [0f64; 16];
            let first = (0..1000).filter(|v| labels[*v] == 0);
            let columns = first.flat_map(|v| &indices[6 * v..6 * v + 6]);
            columns.for_each(|column| counts[*column as usize] += 1.0);
            counts.sort_by(f64::total_cmp);
            let even = counts[15] < 1.4 * counts[0];
            assert_eq!(even, signal == 0.0, "signal {signal}: {counts:?}");
        }
        planted.attributes.nonzeros = 9;
        assert!(planted.generate().is_err());
    }
}
