//! Renumbering of vertices.

use crate::{GraphData, Labels, Topology};

/// A graph with renumbered vertices, and the map back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reordered {
    /// The renumbered graph.
    pub data: GraphData,
    /// The old vertex of each new one.
    pub old_of_new: Vec<u32>,
}

/// Renumbers the vertices by descending degree, counting edges in both directions; ties keep their
/// order. This puts the most-read rows together, which saves cache misses on skewed graphs.
pub fn by_degree(data: &GraphData) -> Reordered {
    let (incoming, outgoing) = (data.topology.in_degrees(), data.topology.out_degrees());
    let mut order: Vec<u32> = (0..data.vertices()).collect();
    order.sort_by_key(|&v| {
        let degree = u64::from(incoming[v as usize]) + u64::from(outgoing[v as usize]);
        (std::cmp::Reverse(degree), v)
    });
    renumber(data, order)
}

impl Reordered {
    /// Rows of the renumbered graph in the old order. `rows` has `columns` values per vertex.
    pub fn restore<T: Copy + Default>(&self, rows: &[T], columns: usize) -> Vec<T> {
        let mut out = vec![T::default(); rows.len()];
        for (new, &old) in self.old_of_new.iter().enumerate() {
            let old = old as usize;
            out[old * columns..][..columns].copy_from_slice(&rows[new * columns..][..columns]);
        }
        out
    }
}

/// The graph whose vertex `i` is the old vertex `old_of_new[i]`.
fn renumber(data: &GraphData, old_of_new: Vec<u32>) -> Reordered {
    let mut new_of_old = vec![0u32; old_of_new.len()];
    for (new, &old) in old_of_new.iter().enumerate() {
        new_of_old[old as usize] = new as u32;
    }
    let mut keys = Vec::with_capacity(data.topology.indices().len());
    for (new, &old) in old_of_new.iter().enumerate() {
        let start = keys.len();
        let row = data.topology.in_neighbours(old);
        keys.extend(
            row.iter()
                .map(|&u| (new as u64) << 32 | u64::from(new_of_old[u as usize])),
        );
        keys[start..].sort_unstable();
    }
    let renamed = |(src, dst, kind): (u32, u32, u16)| {
        let [src, dst] = [src, dst].map(|v| new_of_old[v as usize]);
        (dst, src, kind)
    };
    let topology = match data.topology.relations() {
        0 => Topology::from_sorted_keys(data.vertices(), &keys),
        relations => {
            let mut edges: Vec<_> = data.topology.typed_edges().map(renamed).collect();
            edges.sort_unstable();
            Topology::from_sorted_edges(data.vertices(), relations, &edges)
        }
    };
    let pick = |mask: &[bool]| old_of_new.iter().map(|&old| mask[old as usize]).collect();
    let labels = match &data.labels {
        Labels::None => Labels::None,
        Labels::Single(labels) => {
            Labels::Single(old_of_new.iter().map(|&old| labels[old as usize]).collect())
        }
        Labels::Multi { classes, values } => {
            let width = *classes as usize;
            let rows = old_of_new
                .iter()
                .map(|&old| &values[old as usize * width..][..width]);
            Labels::Multi {
                classes: *classes,
                values: rows.flatten().copied().collect(),
            }
        }
    };
    let data = GraphData {
        name: data.name.clone(),
        topology,
        features: data.features.select(&old_of_new),
        labels,
        train: pick(&data.train),
        val: pick(&data.val),
        test: pick(&data.test),
    };
    Reordered { data, old_of_new }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::generate::Rmat;
    use proptest::prelude::*;

    #[test]
    fn busy_vertices_come_first() {
        let reordered = by_degree(&example::g8());
        assert_eq!(reordered.old_of_new, [2, 3, 4, 5, 0, 1, 6, 7]);
        assert_eq!(
            reordered.data.topology.in_degrees(),
            [3, 3, 3, 3, 2, 2, 2, 2]
        );
        assert_eq!(reordered.data.topology.in_neighbours(0), [1, 4, 5]);
        assert_eq!(
            reordered.data.labels,
            Labels::Single(vec![0, 0, 1, 1, 0, 0, 1, 1])
        );
        assert_eq!(reordered.data.validate(), []);
        assert_eq!(
            reordered.restore(&reordered.old_of_new, 1),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_way_back_leads_home(seed in 0u64..1000, vertices in 10u32..60) {
            let mut data = Rmat { vertices, edges: 40, symmetric: false, seed, ..Rmat::default() }.generate().unwrap();
            let values = (0..vertices * 2).map(|x| x as f32).collect::<Vec<_>>();
            data.features = crate::Features::dense(vertices as usize, 2, values.clone());
            let there = by_degree(&data);
            prop_assert_eq!(there.restore(there.data.features.values(), 2), values);
            let mut new_of_old = vec![0; vertices as usize];
            for (new, &old) in there.old_of_new.iter().enumerate() {
                new_of_old[old as usize] = new as u32;
            }
            prop_assert_eq!(renumber(&there.data, new_of_old).data, data);
        }
    }
}
