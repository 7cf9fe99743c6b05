//! The chunks that whole-graph kernels run over, and the rows moved with each chunk.

use gnnc_graph::{Chunks, Topology};
use gnnc_ir::kernel::End;
use gnnc_ir::program::Moved;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which chunks and sets of rows programs need.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkNeeds {
    /// Number of chunks, the largest if programs disagree.
    pub(crate) count: Option<u32>,
    /// Whether each kind of row set is needed: rows of chunks, rows new to a reduction to
    /// destinations, rows new to one to sources.
    sets: [bool; 3],
}

/// A set of rows: its kind, in the order of [`ChunkNeeds::sets`], and its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Set {
    kind: usize,
    chunk: u32,
}

impl Set {
    /// The set of rows of a chunk that are moved; `None` if all are.
    pub(crate) fn of(moved: Moved) -> Option<Self> {
        let (kind, chunk) = match moved {
            Moved::All | Moved::Level(_) => return None,
            Moved::Rows(chunk) => (0, chunk.index),
            Moved::New(End::Dst, chunk) => (1, chunk.index),
            Moved::New(End::Src, chunk) => (2, chunk.index),
        };
        Some(Self { kind, chunk })
    }
}

impl ChunkNeeds {
    /// Adds a set of moved rows.
    pub(crate) fn moved(&mut self, moved: Moved) {
        self.count = self.count.max(moved.chunk().map(|chunk| chunk.of));
        if let Some(set) = Set::of(moved) {
            self.sets[set.kind] = true;
        }
    }

    /// Adds the needs of another program.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count = self.count.max(other.count);
        let sets = self.sets.iter_mut().zip(other.sets);
        sets.for_each(|(all, one)| *all |= one);
    }
}

/// The chunks of a graph; empty if no program has any.
#[derive(Debug, Default)]
pub(crate) struct ChunkRows {
    rows: Vec<Range<u32>>,
    sets: BTreeMap<Set, SetRows>,
}

/// A set of vertices, grouped by the rank that owns them.
#[derive(Debug, Default)]
pub(crate) struct SetRows {
    /// For each rank, the ids of its vertices in the set.
    pub(crate) ids: Vec<Vec<u32>>,
    /// For each rank, the positions of these vertices among its own.
    pub(crate) rows: Vec<Vec<u32>>,
}

impl ChunkRows {
    /// Cuts the graph and finds each rank's rows in every set. `owned` has the ids of each rank's
    /// vertices, in the order of its rows.
    pub(crate) fn new(needs: &ChunkNeeds, topology: &Topology, owned: &[Vec<u32>]) -> Self {
        let Some(count) = needs.count else {
            return Self::default();
        };
        let chunks = Chunks::new(topology, count);
        let mut place = vec![(0, 0); topology.vertices() as usize];
        for (rank, ids) in owned.iter().enumerate() {
            for (row, &v) in ids.iter().enumerate() {
                place[v as usize] = (rank, row as u32);
            }
        }
        let mut sets = BTreeMap::new();
        for kind in (0..3).filter(|&kind| needs.sets[kind]) {
            for chunk in 0..chunks.count() {
                let mut found = SetRows {
                    ids: vec![Vec::new(); owned.len()],
                    rows: vec![Vec::new(); owned.len()],
                };
                let mut add = |v: u32| {
                    let (rank, row) = place[v as usize];
                    found.ids[rank].push(v);
                    found.rows[rank].push(row);
                };
                match kind {
                    0 => chunks.rows(chunk).for_each(&mut add),
                    kind => {
                        let to = if kind == 1 { End::Dst } else { End::Src };
                        chunks.new_to(to, chunk).iter().copied().for_each(&mut add);
                    }
                }
                sets.insert(Set { kind, chunk }, found);
            }
        }
        Self {
            rows: (0..chunks.count()).map(|n| chunks.rows(n)).collect(),
            sets,
        }
    }

    /// Number of chunks; 0 if no program has any.
    pub(crate) fn count(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The vertices of a chunk.
    pub(crate) fn rows(&self, chunk: u32) -> Range<u64> {
        let rows = self.rows.get(chunk as usize).cloned().unwrap_or_default();
        u64::from(rows.start)..u64::from(rows.end)
    }

    /// The rows of a set, if any program moves it.
    pub(crate) fn set(&self, set: Set) -> Option<&SetRows> {
        self.sets.get(&set)
    }

    /// All sets that programs move.
    pub(crate) fn sets(&self) -> impl Iterator<Item = Set> {
        self.sets.keys().copied()
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let vertices = |set: &SetRows| set.ids.iter().map(Vec::len).sum::<usize>();
        8 * self.rows.len() + 8 * self.sets.values().map(vertices).sum::<usize>()
    }
}
