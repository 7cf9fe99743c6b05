//! A rank's share of the data.

use crate::RuntimeError;
use gnnc_graph::{Csr, Features, GraphData, Labels, LocalPart};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::{Body, End};
use gnnc_ir::program::{Instr, Product, Program, RankSizes};
use std::ops::Range;

/// Arcs and rows of a piece of work; part of no result.
const PIECE: u64 = 4096;

/// What a rank keeps of the data graph. Rows are its own vertices, then its halo.
pub(crate) struct Part {
    /// Own vertices.
    pub(crate) inner: usize,
    /// Global id of each local row.
    pub(crate) global: Vec<u32>,
    /// The halo rows of each rank that owns some, by rank.
    pub(crate) halo_of: Vec<(u32, Range<usize>)>,
    /// The own rows that each rank reads that reads some, by rank.
    pub(crate) send: Vec<(u32, Vec<u32>)>,
    /// Arcs by edge set, where a kernel walks them.
    arcs: [Option<Arcs>; 2],
    /// Non-zeros of the own feature rows, if the program reads them.
    pub(crate) features: Option<FeatureRows>,
    /// Labels of the own vertices.
    pub(crate) labels: Labels,
    /// Training, validation and test vertices among the own ones.
    pub(crate) splits: [Vec<bool>; 3],
    /// Training vertices of the whole graph.
    pub(crate) train_total: u64,
    /// How large all this is.
    pub(crate) sizes: RankSizes,
}

/// Rows of indices, with the bounds of pieces of about equal work.
pub(crate) struct Walkable {
    pub(crate) csr: Csr,
    pub(crate) pieces: Vec<u64>,
}

/// Arcs seen from both ends.
pub(crate) struct Arcs {
    pub(crate) by_destination: Walkable,
    /// With the position of each arc by destination.
    pub(crate) by_source: Option<(Walkable, Vec<u32>)>,
}

/// Places of the non-zeros of the own feature rows.
pub(crate) struct FeatureRows {
    pub(crate) by_row: Walkable,
    /// With the position of each non-zero by row.
    pub(crate) by_column: Option<(Walkable, Vec<u32>)>,
    /// Features of a vertex.
    pub(crate) columns: u32,
}

impl Walkable {
    fn new(csr: Csr) -> Self {
        let pieces = pieces(&csr.indptr);
        Self { csr, pieces }
    }
}

impl Part {
    /// Takes from the graph what the rank needs to run the program.
    pub(crate) fn new(
        local: LocalPart,
        data: &GraphData,
        program: &Program,
    ) -> Result<Self, RuntimeError> {
        let mut needs = Needs::default();
        for instrs in [&program.setup, &program.step, &program.eval] {
            needs.collect(instrs, program);
        }
        let mut sizes = RankSizes {
            inner: local.inner as u64,
            halo: local.halo() as u64,
            ..RankSizes::default()
        };
        let own = &local.global[..local.inner];
        sizes.edges = own
            .iter()
            .map(|&v| data.topology.in_neighbours(v).len() as u64)
            .sum();
        sizes.feature_nonzeros = own
            .iter()
            .map(|&v| data.features.stored_in_row(v as usize))
            .sum();
        let features = program
            .sparse_features
            .then(|| feature_rows(data, own, needs.feature_columns));
        let arcs = [EdgeSet::Plain, EdgeSet::Looped].map(|set| {
            let [walked, by_source] = needs.arcs[index(set)];
            walked.then(|| {
                let arcs = local.arcs(set);
                Arcs {
                    by_destination: Walkable::new(arcs.in_csr),
                    by_source: by_source.then(|| (Walkable::new(arcs.out_csr), arcs.positions)),
                }
            })
        });
        let pick = |mask: &[bool]| {
            own.iter()
                .map(|&v| mask.get(v as usize).copied().unwrap_or(false))
                .collect()
        };
        Ok(Self {
            inner: local.inner,
            arcs,
            features,
            labels: own_labels(data, own)?,
            splits: [pick(&data.train), pick(&data.val), pick(&data.test)],
            train_total: data.train.iter().filter(|&&t| t).count() as u64,
            sizes,
            global: local.global,
            halo_of: local.halo_of,
            send: local.send,
        })
    }

    /// Bytes of all this.
    pub(crate) fn bytes(&self) -> u64 {
        let walkable =
            |w: &Walkable| 8 * (w.csr.indptr.len() + w.pieces.len()) + 4 * w.csr.indices.len();
        let other_way = |both: &Option<(Walkable, Vec<u32>)>| {
            both.as_ref()
                .map_or(0, |(w, positions)| walkable(w) + 4 * positions.len())
        };
        let arcs = self
            .arcs
            .iter()
            .flatten()
            .map(|arcs| walkable(&arcs.by_destination) + other_way(&arcs.by_source));
        let features = self
            .features
            .as_ref()
            .map_or(0, |f| walkable(&f.by_row) + other_way(&f.by_column));
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Multi { values, .. } => 4 * values.len(),
        };
        let rows =
            4 * (self.global.len() + self.send.iter().map(|(_, rows)| rows.len()).sum::<usize>());
        let splits = self.splits.iter().map(Vec::len).sum::<usize>();
        (arcs.sum::<usize>() + features + labels + rows + splits) as u64
    }

    /// The arcs of a set, if a kernel walks them.
    pub(crate) fn arcs(&self, set: EdgeSet) -> Option<&Arcs> {
        self.arcs[index(set)].as_ref()
    }
}

impl Arcs {
    /// The arcs grouped by an end, and their positions by destination where they differ.
    pub(crate) fn by(&self, end: End) -> Option<(&Walkable, &[u32])> {
        match end {
            End::Dst => Some((&self.by_destination, &[])),
            End::Src => self
                .by_source
                .as_ref()
                .map(|(walkable, positions)| (walkable, &positions[..])),
        }
    }
}

fn index(set: EdgeSet) -> usize {
    match set {
        EdgeSet::Plain => 0,
        EdgeSet::Looped => 1,
    }
}

/// Which views of the data a program walks.
#[derive(Default)]
struct Needs {
    /// By edge set: whether its arcs are walked, and whether by source too.
    arcs: [[bool; 2]; 2],
    feature_columns: bool,
}

impl Needs {
    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            match instr {
                Instr::Launch(launch) => self.kernel(program, launch.kernel.0),
                Instr::MatMul {
                    finish: Some(launch),
                    ..
                } => self.kernel(program, launch.kernel.0),
                Instr::SparseMatMul {
                    product: Product::Tn,
                    ..
                } => self.feature_columns = true,
                Instr::Repeat { body, .. } => self.collect(body, program),
                _ => {}
            }
        }
    }

    fn kernel(&mut self, program: &Program, kernel: u32) {
        let Some(kernel) = program.kernels.get(kernel as usize) else {
            return;
        };
        if let Some(set) = kernel.body.edge_set() {
            let needs = &mut self.arcs[index(set)];
            needs[0] = true;
            needs[1] |= matches!(kernel.body, Body::Gather { to: End::Src, .. });
        }
    }
}

fn feature_rows(data: &GraphData, own: &[u32], by_column: bool) -> FeatureRows {
    let columns = data.features.columns();
    let mut csr = Csr {
        indptr: vec![0],
        indices: Vec::new(),
    };
    for &v in own {
        match &data.features {
            Features::None => {}
            Features::Dense { .. } => csr.indices.extend(0..columns),
            Features::Sparse {
                indptr, indices, ..
            } => {
                let (begin, end) = (indptr[v as usize] as usize, indptr[v as usize + 1] as usize);
                csr.indices.extend_from_slice(&indices[begin..end]);
            }
        }
        csr.indptr.push(csr.indices.len() as u64);
    }
    let by_column = by_column.then(|| {
        let (transposed, positions) = csr.transposed(columns as usize);
        (Walkable::new(transposed), positions)
    });
    FeatureRows {
        by_row: Walkable::new(csr),
        by_column,
        columns,
    }
}

fn own_labels(data: &GraphData, own: &[u32]) -> Result<Labels, RuntimeError> {
    let short = |found: usize| RuntimeError::Data {
        graph: data.name.clone(),
        found: format!("{found} label values"),
        expected: format!("labels for {} vertices", data.vertices()),
    };
    let vertices = data.vertices() as usize;
    match &data.labels {
        Labels::None => Ok(Labels::None),
        Labels::Single(labels) if labels.len() == vertices => Ok(Labels::Single(
            own.iter().map(|&v| labels[v as usize]).collect(),
        )),
        Labels::Multi { classes, values } if values.len() == vertices * *classes as usize => {
            let width = *classes as usize;
            let row = |&v: &u32| &values[v as usize * width..(v as usize + 1) * width];
            Ok(Labels::Multi {
                classes: *classes,
                values: own.iter().flat_map(row).copied().collect(),
            })
        }
        Labels::Single(labels) => Err(short(labels.len())),
        Labels::Multi { values, .. } => Err(short(values.len())),
    }
}

/// Bounds of pieces of about equal numbers of entries and rows.
fn pieces(indptr: &[u64]) -> Vec<u64> {
    let rows = indptr.len().saturating_sub(1);
    let work = |row: usize| indptr[row] + row as u64;
    let count = work(rows).div_ceil(PIECE).max(1);
    let mut bounds = vec![0];
    for k in 1..count {
        let target = (u128::from(k) * u128::from(work(rows)) / u128::from(count)) as u64;
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = (low + high) / 2;
            if work(middle) < target {
                low = middle + 1
            } else {
                high = middle
            }
        }
        if low as u64 > bounds[bounds.len() - 1] {
            bounds.push(low as u64);
        }
    }
    if rows as u64 > bounds[bounds.len() - 1] {
        bounds.push(rows as u64);
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_all_rows_evenly(degrees in prop::collection::vec(0u64..3000, 0..200)) {
            let mut indptr = vec![0];
            for d in &degrees {
                indptr.push(indptr[indptr.len() - 1] + d);
            }
            let bounds = pieces(&indptr);
            prop_assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0, degrees.len() as u64));
            for pair in bounds.windows(2) {
                prop_assert!(pair[0] < pair[1]);
                let work = indptr[pair[1] as usize] - indptr[pair[0] as usize] + pair[1] - pair[0];
                prop_assert!(work <= PIECE + 3001);
            }
        }
    }
}
