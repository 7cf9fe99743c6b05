//! Small data graphs that exercise lowering: isolated vertices, one-way edges, few non-zero
//! features.

use gnnc::graph::generate::{Attributes, PlantedPartition};
use gnnc::graph::{EdgeFeatures, Features, GraphData, Labels, ListedEdge, Topology};

/// How to generate a graph.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Vertices.
    pub vertices: u32,
    /// Edges before some are removed.
    pub edges: u64,
    /// Whether some edges lack their reverse.
    pub directed: bool,
    /// Whether one feature in eight is non-zero.
    pub sparse: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// Types of edges.
pub const RELATIONS: u32 = 5;

/// Input features per vertex.
pub const FEATURES: u32 = 12;

/// A planted partition with three classes; every eleventh vertex has no neighbors.
pub fn planted(shape: Shape) -> GraphData {
    let mut data = PlantedPartition {
        vertices: shape.vertices,
        edges: shape.edges,
        homophily: 0.7,
        attributes: Attributes {
            features: FEATURES,
            classes: 3,
            ..Attributes::default()
        },
        seed: shape.seed,
    }
    .generate()
    .unwrap();
    let lonely = |v: u32| v % 11 == 4;
    let kept = |u: u32, v: u32| !shape.directed || u < v || !(u + 2 * v).is_multiple_of(3);
    let edges = (0..shape.vertices).flat_map(|v| {
        let sources = data.topology.in_neighbours(v).iter();
        sources.map(move |&u| (u, v))
    });
    let edges = edges.filter(|&(u, v)| !lonely(u) && !lonely(v) && kept(u, v));
    // Some edges also exist with another type.
    let typed = edges.flat_map(|(u, v)| {
        let kind = ((3 * u + v) % RELATIONS) as u16;
        let twice = (u + v)
            .is_multiple_of(9)
            .then_some((u, v, (kind + 1) % RELATIONS as u16));
        std::iter::once((u, v, kind)).chain(twice)
    });
    data.topology = Topology::typed(shape.vertices, RELATIONS, typed).unwrap().0;
    assert!(data.topology.in_degrees().contains(&0));
    if shape.sparse {
        let rows = shape.vertices as usize;
        let mut values = data.features.values().to_vec();
        for (n, value) in values.iter_mut().enumerate() {
            // Some rows are empty.
            let (row, column) = (n / FEATURES as usize, n % FEATURES as usize);
            if (row * 5 + column * 3) % 8 != 0 || row % 13 == 2 {
                *value = 0.0;
            }
        }
        data.features = Features::dense(rows, FEATURES, values).in_best_storage();
        assert!(matches!(data.features, Features::Sparse { .. }));
    }
    // The last features are as good as those of types.
    data.vertex_types = ["a", "b", "c"].into_iter().collect();
    with_edge_features(data)
}

/// The same graph with one type for each vertex, whose columns replace the last features if these are dense.
pub fn with_vertex_types(mut data: GraphData) -> GraphData {
    const TYPES: usize = 3;
    if let Features::Dense { .. } = data.features {
        let (rows, columns) = (data.vertices() as usize, data.features.columns());
        let mut values = data.features.values().to_vec();
        for (v, row) in values.chunks_mut(columns as usize).enumerate() {
            for (kind, value) in row.iter_mut().rev().take(TYPES).enumerate() {
                *value = f32::from(u8::from(v % 5 % TYPES == kind));
            }
        }
        data.features = Features::dense(rows, columns, values);
    }
    data
}

/// The same graph with two numbers of any size as labels, unknown where a vertex is not trained.
pub fn with_numbers(mut data: GraphData) -> GraphData {
    let splits = [&data.train, &data.val, &data.test];
    let number = |v: usize, known: bool| match known {
        true if is_gap(v) => [f32::NAN, v as f32 * 0.125 - 4.0],
        true => [(v as f32 * 0.7).sin() * 3.0, v as f32 * 0.125 - 4.0],
        false => [f32::NAN; 2],
    };
    let known = |v: usize| splits.iter().any(|split| split[v]);
    let values = (0..data.vertices() as usize).flat_map(|v| number(v, known(v)));
    data.labels = Labels::Values {
        width: 2,
        values: values.collect(),
    };
    data
}

/// The same graph with two features of each edge, which differ by type and in both directions.
pub fn with_edge_features(mut data: GraphData) -> GraphData {
    let of = |edge: &ListedEdge| {
        let (u, v, kind) = (edge.source, edge.target, f32::from(edge.kind));
        [
            0.2 + ((u * 3 + v * 7) % 11) as f32 / 11.0,
            0.5 * kind - ((u + 2 * v) % 5) as f32 / 4.0,
        ]
    };
    let values = data.topology.listed().iter().flat_map(of).collect();
    data.edge_features = EdgeFeatures { columns: 2, values };
    data
}

/// Whether a label is unknown: one of some vertices, never all of a vertex.
fn is_gap(place: usize) -> bool {
    place % 7 == 3
}

/// The same graph with two bits of the vertex's class as labels instead of the class, and another.
pub fn with_several_labels(mut data: GraphData) -> GraphData {
    let Labels::Single(labels) = &data.labels else {
        panic!("the graph has labels: {:?}", data.labels)
    };
    let values = labels
        .iter()
        .zip(0..)
        .flat_map(|(&label, v)| [label > 0, label != 1, v % 2 == 0])
        .map(|bit| f32::from(u8::from(bit)))
        .enumerate()
        .map(|(place, label)| if is_gap(place) { f32::NAN } else { label })
        .collect();
    data.labels = Labels::Values { width: 3, values };
    data
}
