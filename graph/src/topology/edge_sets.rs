//! Named sets of edges: those that only the layers of a model which name them run over.

use crate::topology::relation_degrees;
use crate::{GraphError, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::words::types::MAX_SETS;

/// The named sets of a topology. The edges of each have a type of their own, after those of the
/// stored edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeSets {
    /// Types of the stored edges; at least 1.
    plain: u32,
    /// The names of the sets; the first one has number 1.
    names: Vec<String>,
}

impl EdgeSets {
    /// Sets with these names, whose types are the last of `relations`.
    ///
    /// # Errors
    /// More than [`MAX_SETS`] sets; no type left for the stored edges; an empty name, or one that
    /// occurs twice.
    pub fn new(names: Vec<String>, relations: u32) -> Result<Self, GraphError> {
        let wrong = |found: String, expected: String| GraphError::Unsupported {
            at: "edge sets".to_owned(),
            found,
            expected,
        };
        let count = names.len();
        if count > MAX_SETS {
            let expected = format!("at most {MAX_SETS}; use types of edges for more");
            return Err(wrong(format!("{count} sets"), expected));
        }
        let Some(plain) = relations.checked_sub(count as u32).filter(|n| *n > 0) else {
            let expected = "a type for each set, and at least one more for the other edges";
            let found = format!("{count} sets in {relations} types of edges");
            return Err(wrong(found, expected.to_owned()));
        };
        for (k, name) in names.iter().enumerate() {
            if name.is_empty() || names[..k].contains(name) {
                let expected = "names that differ, and are not empty".to_owned();
                return Err(wrong(format!("the name {name:?}"), expected));
            }
        }
        Ok(Self { plain, names })
    }

    /// The names, in order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Types of the stored edges, at least 1.
    pub fn plain(&self) -> u32 {
        self.plain
    }

    /// The set of an edge with a type.
    pub fn of(&self, kind: u16) -> EdgeSet {
        match u32::from(kind).checked_sub(self.plain) {
            Some(after) if !self.names.is_empty() => EdgeSet::Named(after as u8 + 1),
            Some(_) | None => EdgeSet::Plain,
        }
    }

    /// Whether the set includes an edge with a type. Self loops are in no list.
    pub fn has(&self, set: EdgeSet, kind: u16) -> bool {
        match set {
            EdgeSet::Plain | EdgeSet::Looped => self.of(kind) == EdgeSet::Plain,
            EdgeSet::Named(_) => self.of(kind) == set,
        }
    }
}

impl Topology {
    /// Whether all edges are in the plain set.
    pub fn is_plain(&self) -> bool {
        self.set_names().is_empty()
    }

    /// Refuses named sets of edges, for what is only defined without them.
    ///
    /// # Errors
    /// If there are some; the error names them, and what is `expected` instead.
    pub fn refuse_sets(&self, at: &str, expected: &str) -> Result<(), GraphError> {
        if self.is_plain() {
            return Ok(());
        }
        Err(GraphError::Unsupported {
            at: at.to_owned(),
            found: format!("named sets of edges ({})", self.set_names().join(", ")),
            expected: expected.to_owned(),
        })
    }

    /// The names of the sets; the first one has number 1.
    pub fn set_names(&self) -> &[String] {
        self.sets().map_or(&[], |sets| sets.names())
    }

    /// The places in [`Topology::indices`] of the edges of a set, without self loops.
    fn places(&self, set: EdgeSet) -> impl Iterator<Item = usize> + '_ {
        (0..self.indices().len()).filter(move |place| self.has(set, *place))
    }

    /// The set of the edge at a place in [`Topology::indices`].
    pub fn set_at(&self, place: usize) -> EdgeSet {
        self.sets()
            .map_or(EdgeSet::Plain, |sets| sets.of(self.types()[place]))
    }

    /// Whether a set includes the edge at a place in [`Topology::indices`].
    pub fn has(&self, set: EdgeSet, place: usize) -> bool {
        match self.sets() {
            Some(sets) => sets.has(set, self.types()[place]),
            None => matches!(set, EdgeSet::Plain | EdgeSet::Looped),
        }
    }

    /// Stored edges of a set, without self loops.
    pub fn edges_of(&self, set: EdgeSet) -> u64 {
        match (self.is_plain(), set) {
            (true, EdgeSet::Plain | EdgeSet::Looped) => self.edges(),
            (true, EdgeSet::Named(_)) => 0,
            (false, _) => self.places(set).count() as u64,
        }
    }

    /// Most edges of one set into, or out of, a single vertex.
    pub fn max_degree(&self) -> u32 {
        let sets = EdgeSet::all().filter(|set| *set != EdgeSet::Looped);
        let named = sets.take(1 + self.set_names().len());
        let of_set = |set| {
            let edges = self.only(set);
            let degrees = [edges.in_degrees(), edges.out_degrees()];
            degrees.iter().flatten().copied().max().unwrap_or(0)
        };
        named.map(of_set).max().unwrap_or(0)
    }

    /// The types of the plain edges, ordered by destination; empty if they have none.
    pub fn plain_types(&self) -> Vec<u16> {
        if self.relations() == 0 {
            return Vec::new();
        }
        let places = self.places(EdgeSet::Plain);
        places.map(|place| self.types()[place]).collect()
    }

    /// For each plain edge, the number of plain edges of its type into its destination; empty if edges
    /// have no types.
    pub fn relation_degrees(&self) -> Vec<u32> {
        relation_degrees(self.only(EdgeSet::Plain).indptr(), &self.plain_types())
    }

    /// The edges of a set alone, without self loops; plain edges keep their types. The topology itself
    /// if it has no named sets.
    pub fn only(&self, set: EdgeSet) -> std::borrow::Cow<'_, Self> {
        if self.is_plain() && matches!(set, EdgeSet::Plain | EdgeSet::Looped) {
            return std::borrow::Cow::Borrowed(self);
        }
        let mut indptr = vec![0u64; self.indptr().len()];
        let mut indices = Vec::new();
        let mut target = 0;
        for place in self.places(set) {
            while self.indptr()[target + 1] <= place as u64 {
                target += 1;
            }
            indptr[target + 1] += 1;
            indices.push(self.indices()[place]);
        }
        for v in 1..indptr.len() {
            indptr[v] += indptr[v - 1];
        }
        let edges = Self::untyped(indptr, indices);
        std::borrow::Cow::Owned(match set {
            EdgeSet::Plain | EdgeSet::Looped => {
                edges.with_types(self.relations(), self.plain_types())
            }
            EdgeSet::Named(_) => edges,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::{Partitioner, Range};
    use crate::{GraphData, LocalPart, summarise, write};
    use gnnc_ir::words::types::NamedEdges;
    use std::io::Cursor;

    /// Two types of plain edges, and two sets.
    fn edges() -> Topology {
        let edges = [
            (0, 1, 0),
            (2, 1, 1),
            (2, 1, 2),
            (3, 0, 3),
            (1, 0, 3),
            (0, 2, 2),
            (1, 3, 0),
        ];
        let (topology, _) = Topology::typed(4, 4, edges).unwrap();
        topology
            .with_sets(vec!["up".to_owned(), "down".to_owned()])
            .unwrap()
    }

    #[test]
    fn each_set_has_its_own_edges() {
        let topology = edges();
        assert_eq!(
            (topology.relations(), topology.all_types(), topology.edges()),
            (2, 4, 7)
        );
        let of = |set| {
            let edges = topology.only(set);
            (0..4)
                .map(|v| edges.in_neighbours(v).to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(EdgeSet::Plain), [vec![], vec![0, 2], vec![], vec![1]]);
        assert_eq!(of(EdgeSet::Named(1)), [vec![], vec![2], vec![0], vec![]]);
        assert_eq!(of(EdgeSet::Named(2)), [vec![1, 3], vec![], vec![], vec![]]);
        assert_eq!(of(EdgeSet::Named(3)), vec![Vec::<u32>::new(); 4]);
        assert_eq!(topology.plain_types(), [0, 1, 0]);
        assert_eq!(topology.max_degree(), 2);
        let sizes: Vec<u64> = EdgeSet::all().map(|set| topology.edges_of(set)).collect();
        assert_eq!(sizes[..4], [3, 3, 2, 2]);
    }

    #[test]
    fn parts_keep_the_edges_of_each_set() {
        let data = GraphData::new("sets", edges());
        let workload = summarise(&data, &[(2, &Range)]).unwrap();
        workload.edge_sets.iter().for_each(|set| {
            assert_eq!(
                (set.edges, set.max_degree),
                (2, 2 - u64::from(set.name == "up"))
            )
        });
        let loads = &workload.partition(2, "range").unwrap().parts;
        let named = |part: usize| [1, 2].map(|number| loads[part].named_edges.of(number));
        assert_eq!([named(0), named(1)], [[1, 2], [1, 0]]);
        let parts = LocalPart::build_all(
            &data.topology,
            &Range.partition((&data.topology).into(), 2).unwrap(),
        );
        let parts = parts.unwrap();
        for (part, load) in parts.iter().zip(loads) {
            assert_eq!(Some(part.reach()), load.reach);
            let mut found = NamedEdges::NONE;
            (1..=2).for_each(|n| found.add(n, part.edges_of(EdgeSet::Named(n))));
            assert_eq!(found, load.named_edges);
            assert_eq!(part.edges_of(EdgeSet::Plain), load.edges);
        }
        let down = parts[0].edges(EdgeSet::Named(2));
        let sources: Vec<u32> = down
            .in_csr
            .indices
            .iter()
            .map(|u| parts[0].global[*u as usize])
            .collect();
        assert_eq!((sources, down.types.len()), (vec![1, 3], 0));
        assert_eq!(parts[0].edges(EdgeSet::Plain).types, [0, 1]);
    }

    #[test]
    fn sets_survive_a_file() {
        let data = GraphData::new("sets", edges());
        let bytes = write::npz(&data, Cursor::new(Vec::new()))
            .unwrap()
            .into_inner();
        let options = crate::LoadOptions::default();
        let (read, dropped) = crate::read::npz::read("sets", Cursor::new(bytes), &options).unwrap();
        assert_eq!((read.topology, dropped.not_used.len()), (data.topology, 0));
    }

    #[test]
    fn impossible_sets_are_refused() {
        let text = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            EdgeSets::new(names, 4).unwrap_err().to_string()
        };
        assert!(text(&["a", "b", "c", "d"]).contains("at least one more for the other edges"));
        assert!(text(&["a", "a"]).contains("names that differ"));
        assert!(text(&[""]).contains("names that differ"));
        assert!(text(&["a", "b", "c", "d", "e", "f", "g", "h"]).contains("at most 7"));
        assert!(
            edges()
                .with_reverses()
                .unwrap_err()
                .to_string()
                .contains("up, down")
        );
    }
}
