//! Data about the whole graph that every rank keeps, if columns are cut instead of rows; or about the vertices of its group,
//! if groups of ranks divide the vertices.

use crate::RuntimeError;
use crate::chunks::{ChunkNeeds, ChunkRows};
use crate::part::{Edges, Needs, Ways};
use gnnc_graph::parts::{Parts, WholeGraph};
use gnnc_graph::{
    GraphData, GraphError, Kept, LocalEdges, LocalPart, Partition, RowOrder, Topology,
};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::{Among, Program, RankSizes};
use gnnc_ir::words::types::BySet;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Data read by kernels over all vertices and by redistributions; empty if a program has neither.
/// The ranks of one machine, or of one group, share it.
#[derive(Default)]
pub(crate) struct Whole {
    /// Its numbers of edges, which are known even if its edges are elsewhere.
    pub(crate) graph: WholeGraph,
    /// Edges by edge set; `None` for sets that no kernel walks. Rows are global ids, or those of the group.
    pub(crate) edges: BySet<Option<Edges>>,
    /// The id of the vertex of each row: of every vertex, in order, or of those of the group, then of its halo.
    pub(crate) ids: Vec<u32>,
    /// For each rank, the rows that are its own vertices, in the order of its rows; none for ranks of other groups.
    pub(crate) owned: Vec<Vec<u32>>,
    /// For each group that owns halo rows of this one, these rows; ascending.
    pub(crate) halo_of: Vec<(u32, Range<usize>)>,
    /// For each group that reads rows of this one, these rows; ascending.
    pub(crate) send: Vec<(u32, Vec<u32>)>,
    /// The group's part of the graph, if groups divide the vertices.
    pub(crate) group: Option<LocalPart>,
    /// The chunks that kernels run over, and the rows moved with each.
    pub(crate) chunks: ChunkRows,
}

impl Whole {
    /// Extracts from the graph what the programs need. `owned` says, if one needs it, which vertices each rank owns.
    ///
    /// # Errors
    /// If kernels walk edges, and there are too many for their integer type; or an error of `owned`.
    pub(crate) fn new<'a>(
        programs: impl Iterator<Item = &'a Program>,
        topology: &Topology,
        graph: WholeGraph,
        owned: impl FnOnce() -> Result<Vec<Vec<u32>>, GraphError>,
    ) -> Result<Self, GraphError> {
        let needed = Needed::by(programs);
        let mut whole = Self {
            graph,
            ..Self::default()
        };
        for (set, ways) in needed.walked() {
            let edges = LocalEdges::whole(topology, set)?;
            *whole.edges.of_mut(set) = Some(Edges::new(edges, ways, topology.relations()));
        }
        if needed.ids {
            whole.ids = (0..topology.vertices()).collect();
        }
        if needed.owned {
            whole.owned = owned()?;
        }
        whole.chunks = ChunkRows::new(&needed.chunks, topology, &whole.owned);
        Ok(whole)
    }

    /// Extracts from a group's part of the graph what the programs need. `parts` are those of all ranks, of which
    /// consecutive ones make up a group.
    pub(crate) fn of_group<'a>(
        programs: impl Iterator<Item = &'a Program>,
        group: LocalPart,
        graph: WholeGraph,
        parts: &[LocalPart],
    ) -> Self {
        let needed = Needed::by(programs);
        let mut edges = BySet::default();
        for (set, ways) in needed.walked() {
            *edges.of_mut(set) = Some(Edges::new(group.edges(set), ways, graph.relations));
        }
        let mut rows: Vec<(u32, u32)> = (group.global[..group.inner].iter().copied())
            .zip(0..)
            .collect();
        rows.sort_unstable();
        let row = |v: &u32| {
            let found = rows.binary_search_by_key(v, |(vertex, _)| *vertex).ok()?;
            Some(rows[found].1)
        };
        let own = |part: &LocalPart| part.global[..part.inner].iter().filter_map(row).collect();
        Self {
            edges,
            ids: group.global.clone(),
            owned: parts.iter().map(own).collect(),
            halo_of: group.halo_of.clone(),
            send: group.send.clone(),
            chunks: ChunkRows::default(),
            group: Some(group),
            graph,
        }
    }

    /// The vertices whose columns ranks divide, in the order of their rows: all, or those of the group.
    pub(crate) fn vertices(&self, data: &GraphData) -> Cow<'_, [u32]> {
        match &self.group {
            Some(group) => Cow::Borrowed(&group.global[..group.inner]),
            None => (0..data.vertices()).collect(),
        }
    }

    /// Adds the numbers of these vertices and edges to those of a rank of a graph with so many vertices.
    pub(crate) fn count(&self, vertices: u64, sizes: &mut RankSizes) {
        let named = 1..self.graph.edges.len() as u8;
        match &self.group {
            Some(group) => {
                sizes.vertices = group.inner as u64;
                sizes.elsewhere = vertices - sizes.vertices;
                sizes.all_halo = group.halo() as u64;
                sizes.all_edges = group.edges_of(EdgeSet::Plain);
                for number in named {
                    let edges = group.edges_of(EdgeSet::Named(number));
                    sizes.all_named_edges.add(number, edges);
                }
            }
            None => {
                sizes.vertices = vertices;
                sizes.all_edges = self.graph.edges.first().copied().unwrap_or(0);
                for number in named {
                    sizes
                        .all_named_edges
                        .add(number, self.graph.edges[usize::from(number)]);
                }
            }
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let edges = self.edges.values().flatten().map(Edges::bytes);
        let owned = self.owned.iter().map(Vec::len);
        let sent = self.send.iter().map(|(_, rows)| rows.len());
        let rows = self.ids.len() + owned.sum::<usize>() + sent.sum::<usize>();
        edges.sum::<usize>() + 4 * rows + self.chunks.bytes()
    }
}

/// The data about all vertices: one for all ranks, or one for each group of ranks.
pub(crate) struct Wholes(Vec<Arc<Whole>>);

impl Wholes {
    pub(crate) fn new(
        programs: &[Arc<Program>],
        data: &GraphData,
        partition: &Partition,
        graph: WholeGraph,
        (locals, folder): (&[LocalPart], Option<&Parts>),
    ) -> Result<Self, RuntimeError> {
        let of_all = || programs.iter().map(AsRef::as_ref);
        let grouped = of_all().find(|program| program.in_groups());
        let Some(program) = grouped else {
            let owned = || match folder {
                Some(folder) => folder.owned(partition),
                None => {
                    let own = |part: &LocalPart| part.global[..part.inner].to_vec();
                    Ok(locals.iter().map(own).collect())
                }
            };
            let whole = Whole::new(of_all(), &data.topology, graph, owned)?;
            return Ok(Self(vec![Arc::new(whole)]));
        };
        let groups = partition.groups(program.group_ranks(Among::Slices))?;
        let parts = LocalPart::build(&data.topology, &groups, Kept::default(), RowOrder::ByDegree)?;
        let parts = parts.into_iter();
        let whole = |group| Arc::new(Whole::of_group(of_all(), group, graph.clone(), locals));
        Ok(Self(parts.map(whole).collect()))
    }

    /// Numbers of the whole graph.
    pub(crate) fn graph(&self) -> &WholeGraph {
        &self.0[0].graph
    }

    /// That of a rank.
    pub(crate) fn of(&self, program: &Program, rank: u32) -> &Arc<Whole> {
        let group = match program.in_groups() {
            true => program.group(rank, Among::Copies).place(rank),
            false => 0,
        };
        &self.0[group as usize]
    }
}

/// What the programs of a session read of all vertices.
struct Needed {
    edges: BySet<Ways>,
    ids: bool,
    owned: bool,
    chunks: ChunkNeeds,
}

impl Needed {
    fn by<'a>(programs: impl Iterator<Item = &'a Program>) -> Self {
        let mut all = Self {
            edges: BySet::default(),
            ids: false,
            owned: false,
            chunks: ChunkNeeds::default(),
        };
        for needs in programs.map(Needs::of) {
            for (set, needed) in needs.all_edges.each() {
                let ways = all.edges.of_mut(set);
                *ways = ways.or(*needed);
            }
            all.ids |= needs.ids;
            all.owned |= needs.owned;
            all.chunks.add(&needs.chunks);
        }
        all
    }

    /// The sets whose edges are walked, and how.
    fn walked(&self) -> impl Iterator<Item = (EdgeSet, Ways)> {
        let each = self.edges.each().map(|(set, ways)| (set, *ways));
        each.filter(|(_, ways)| ways.walked)
    }
}
