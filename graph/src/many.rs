//! Files of many graphs, as one graph: the graphs beside each other, and a further vertex for each,
//! which has edges from the graph's vertices. Labels and splits belong to these vertices.

use crate::{Features, GraphData, GraphError, Labels, Topology, Values};
use gnnc_ir::words::spelling::counted;
use std::borrow::Cow;

/// The name of the edges from the vertices of each graph to the vertex that stands for the graph.
pub const GRAPHS: &str = "graphs";

/// Adds a vertex for each graph to the vertices of many. `graph_of` is the graph of each vertex, from
/// 0 to below `graphs`; labels and splits have a row for each graph.
///
/// # Errors
/// As many numbers as vertices are expected, each below `graphs`, and edges within graphs only; named
/// sets of edges, and too many types of edges, are refused.
pub fn join(mut data: GraphData, graph_of: &[u32], graphs: u32) -> Result<GraphData, GraphError> {
    const AT: &str = "graphs";
    let wrong = |found: String, expected: &str| GraphError::Unsupported {
        at: AT.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    let vertices = data.vertices();
    if graph_of.len() != vertices as usize {
        return Err(GraphError::WrongLength {
            at: AT.to_owned(),
            unit: "vertices",
            found: graph_of.len() as u64,
            expected: vertices.into(),
        });
    }
    let rows = [
        ("labels", data.labels.rows()),
        ("train_mask", Some(data.train.len())),
        ("val_mask", Some(data.val.len())),
        ("test_mask", Some(data.test.len())),
    ];
    for (at, found) in rows {
        if let Some(found) = found.filter(|found| *found != graphs as usize) {
            return Err(GraphError::Unsupported {
                at: at.to_owned(),
                found: format!("an array of {}", counted(found, "row")),
                expected: format!("{graphs}, one for each graph"),
            });
        }
    }
    let expected = "many graphs whose edges have at most types";
    data.topology.refuse_sets(AT, expected)?;
    if let Some(edge) = data
        .topology
        .listed()
        .iter()
        .find(|edge| graph_of[edge.source as usize] != graph_of[edge.target as usize])
    {
        let found = format!(
            "an edge from vertex {} of graph {} to vertex {} of graph {}",
            edge.source,
            graph_of[edge.source as usize],
            edge.target,
            graph_of[edge.target as usize]
        );
        return Err(wrong(found, "edges within each graph"));
    }
    let edges = data.topology.edges() as usize;
    data.topology = with_members(&data.topology, graph_of, graphs)?;
    let width = data.edge_features.columns as usize;
    let members = data.topology.edges() as usize - edges;
    data.edge_features
        .values
        .resize((edges + members) * width, 0.0);
    data.features = with_rows(data.features, vertices as usize, graphs as usize);
    data.labels = behind(data.labels, vertices as usize);
    for mask in [&mut data.train, &mut data.val, &mut data.test] {
        *mask = mask_behind(std::mem::take(mask), vertices as usize);
    }
    data.subjects = graphs;
    Ok(data)
}

/// The topology with a vertex for each graph.
fn with_members(
    topology: &Topology,
    graph_of: &[u32],
    graphs: u32,
) -> Result<Topology, GraphError> {
    let vertices = topology.vertices();
    let kinds = topology.all_types().max(1);
    let all = crate::topology::check_vertices(
        "graphs",
        u128::from(vertices) + u128::from(graphs),
        topology.edges(),
    )?;
    let own = topology.listed().into_iter();
    let own = own.map(|edge| (edge.source, edge.target, edge.kind));
    let members = (0..vertices).zip(graph_of);
    let members = members.map(|(v, graph)| (v, vertices + graph, kinds as u16));
    let (joined, _) = Topology::typed(all, kinds + 1, own.chain(members))?;
    joined.with_sets(vec![GRAPHS.to_owned()])
}

/// Labels behind those of `vertices` vertices, which are unknown.
pub(crate) fn behind(labels: Labels, vertices: usize) -> Labels {
    match labels {
        Labels::None => Labels::None,
        Labels::Single(own) => {
            let unknown = std::iter::repeat_n(-1, vertices);
            Labels::Single(unknown.chain(own).collect())
        }
        Labels::Values { width, values } => {
            let unknown = std::iter::repeat_n(f32::NAN, vertices * width as usize);
            let values = unknown.chain(values).collect();
            Labels::Values { width, values }
        }
    }
}

/// A mask behind that of `vertices` vertices, none of which is in it.
pub(crate) fn mask_behind(mask: Vec<bool>, vertices: usize) -> Vec<bool> {
    let others = std::iter::repeat_n(false, vertices);
    others.chain(mask).collect()
}

/// Features with `more` rows of zeros behind `rows` rows.
pub(crate) fn with_rows(features: Features, rows: usize, more: usize) -> Features {
    match features {
        Features::None => Features::None,
        Features::Dense {
            columns, values, ..
        } => {
            let mut all = values.as_slice().to_vec();
            all.resize((rows + more) * columns as usize, 0.0);
            Features::Dense {
                rows: rows + more,
                columns,
                values: Values::from(all),
            }
        }
        Features::Sparse {
            columns,
            mut indptr,
            indices,
            values,
        } => {
            let last = indptr.last().copied().unwrap_or(0);
            indptr.resize(rows + more + 1, last);
            Features::Sparse {
                columns,
                indptr,
                indices,
                values,
            }
        }
    }
}

impl GraphData {
    /// The vertices that predictions are about: those that stand for graphs or pairs, if there are any,
    /// or else all.
    pub fn subjects(&self) -> std::ops::Range<u32> {
        match self.subjects {
            0 => 0..self.vertices(),
            subjects => self.vertices() - subjects..self.vertices(),
        }
    }

    /// What labels and predictions are about, in messages.
    pub(crate) fn unit(&self) -> &'static str {
        let has_graphs = self.topology.set_names().iter().any(|name| name == GRAPHS);
        match (self.subjects, has_graphs) {
            (0, _) => "vertex",
            (_, true) => "graph",
            (_, false) => "pair",
        }
    }

    /// The id of a vertex, or of what it stands for, in the data that it comes from.
    pub fn id_of(&self, vertex: u32) -> Cow<'_, str> {
        match self.ids.get(vertex as usize) {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(vertex.saturating_sub(self.subjects().start).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::EdgeSet;

    fn two_graphs() -> GraphData {
        let (topology, _) = Topology::from_edges(5, [(0, 1), (1, 0), (3, 4)]).unwrap();
        let mut data = GraphData::new("two", topology);
        data.features = Features::dense(5, 1, vec![1.0; 5]);
        data.labels = Labels::Single(vec![1, 0, 1]);
        (data.train, data.val) = (vec![true, false, false], vec![false, true, false]);
        data.test = vec![false, false, true];
        data
    }

    #[test]
    fn each_graph_gets_a_vertex() {
        let joined = join(two_graphs(), &[0, 0, 1, 2, 2], 3).unwrap();
        assert_eq!(joined.validate(), []);
        assert_eq!((joined.vertices(), joined.subjects()), (8, 5..8));
        let members = joined.topology.only(EdgeSet::Named(1));
        let of: Vec<&[u32]> = (5..8).map(|v| members.in_neighbours(v)).collect();
        assert_eq!(of, [&[0, 1][..], &[2], &[3, 4]]);
        assert_eq!(joined.topology.only(EdgeSet::Plain).edges(), 3);
        assert_eq!(
            joined.labels,
            Labels::Single(vec![-1, -1, -1, -1, -1, 1, 0, 1])
        );
        assert_eq!(
            (joined.id_of(6), joined.train[5], joined.features.rows()),
            ("1".into(), true, Some(8))
        );
    }

    #[test]
    fn graphs_that_do_not_fit_are_refused() {
        let text = |graph_of: &[u32]| join(two_graphs(), graph_of, 3).unwrap_err().to_string();
        assert!(
            text(&[0, 1, 1, 2, 2])
                .contains("an edge from vertex 1 of graph 1 to vertex 0 of graph 0")
        );
        assert!(text(&[0, 0, 1]).contains("vertices"));
    }
}
