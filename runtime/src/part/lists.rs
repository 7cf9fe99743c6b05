//! Names for the number lists that instructions read besides buffers. The CPU reads a list where
//! the rank keeps it, a device reads its copy; both use the same names.

use super::asked::OfBatch;
use super::{Part, Walkable, sliced};
use crate::chunks::Set;

use gnnc_graph::routes::Leg;
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::{End, Walk};
use gnnc_ir::program::{Extent, Launch, Product, Program};
use gnnc_ir::words::types::{Level, Of};

/// A list of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// Global ids of the vertices of rows.
    Ids(Over),
    /// The own rows another rank reads, or those of the group that another group reads; the index counts those that read
    /// any.
    Sent(Over, u32),
    /// The own rows to which another rank adds; the index counts the ranks that add to any.
    Open(u32),
    /// Rows that cross to a node or are passed on there; the index counts the legs.
    Leg(End, Legs, u32),
    /// Ids of a rank's vertices among the moved rows.
    Moved(Option<Set>, u32),
    /// Positions of these among that rank's rows, if not all rows are moved.
    Places(Set, u32),
    /// Rows of a level of all ranks that are a rank's part of the batch at hand.
    OfLevel(u8, u32),
    /// Rows of the batch at hand that belong to a rank, or that it asked for.
    Fetched(OfBatch, u32),
    /// For each vertex of the set at hand, its row among those of all sets.
    InSets,
    /// The first entry of each row of a table, plus one final entry.
    First(Table),
    /// The other end of each entry.
    Ends(Table),
    /// The vertex at the source of each edge of a batch.
    Vertices(Level, EdgeSet),
    /// For each entry, the position of its value, if values are in another order.
    Positions(Table),
}

/// The legs of one kind of a rank's [`Routes`](gnnc_graph::routes::Routes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Legs {
    Crossing,
    Arriving,
    Passed,
    Forwarded,
}

/// Which vertices the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    /// The rank's own, then its halo.
    Own,
    /// All vertices of the graph, or those of the group, then its halo.
    All,
    /// Vertices of a level of the batch at hand; of edges, those into it.
    Level(Level),
}

/// A table of entries by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Edges(Over, EdgeSet, By),
    Features(FeaturesOf, By),
}

/// Which features are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeaturesOf {
    /// All columns of the own vertices.
    OwnRows,
    /// The own columns of all vertices.
    OwnColumns,
}

/// What the rows of a table are: ends of edges, or types. Features count as edges into their
/// vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Destination,
    Source,
    Type,
}

/// The numbers of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numbers<'a> {
    Rows(&'a [u32]),
    Places(&'a [u64]),
}

impl List {
    /// For each vertex of a level, its row in a tensor with rows of all vertices, or of those of a level.
    pub(crate) fn rows_in(other: Option<Level>, of: Of) -> Self {
        match other.map(|level| level.of) {
            Some(Of::Sets) => Self::InSets,
            Some(_) | None if of == Of::Owned => Self::Fetched(OfBatch::Owned, 0),
            Some(Of::One | Of::All | Of::Owned) | None => {
                Self::Ids(Over::Level(Level { number: 0, of }))
            }
        }
    }

    /// The vertices at the sources of the edges that a launch walks, if it reads rows of all of them.
    pub(crate) fn vertices(program: &Program, launch: &Launch, set: EdgeSet) -> Option<Self> {
        let level = launch.rows.level();
        let level = level.filter(|_| launch.reads_vertices(program))?;
        Some(Self::Vertices(level, set))
    }

    /// Whether it is one of the batch at hand.
    pub(crate) fn of_batch(self) -> bool {
        match self {
            Self::Ids(over) => matches!(over, Over::Level(_)),
            Self::First(table) | Self::Ends(table) | Self::Positions(table) => table.of_batch(),
            Self::Vertices(..) | Self::OfLevel(..) | Self::Fetched(..) | Self::InSets => true,
            Self::Sent(..) | Self::Open(_) | Self::Leg(..) | Self::Moved(..) | Self::Places(..) => {
                false
            }
        }
    }

    /// Whether all ranks of a machine, or of a group, share the list.
    pub(crate) fn shared(self) -> bool {
        match self {
            Self::Ids(over)
            | Self::Sent(over, _)
            | Self::First(Table::Edges(over, ..))
            | Self::Ends(Table::Edges(over, ..))
            | Self::Positions(Table::Edges(over, ..)) => over == Over::All,
            Self::Moved(..) | Self::Places(..) => true,
            Self::Open(_)
            | Self::Leg(..)
            | Self::OfLevel(..)
            | Self::Fetched(..)
            | Self::InSets
            | Self::Vertices(..)
            | Self::First(Table::Features(..))
            | Self::Ends(Table::Features(..))
            | Self::Positions(Table::Features(..)) => false,
        }
    }
}

impl Legs {
    const ALL: [Self; 4] = [
        Self::Crossing,
        Self::Arriving,
        Self::Passed,
        Self::Forwarded,
    ];
}

impl Over {
    /// All vertices of the batch in place of those of a level, which are its first ones.
    pub(crate) fn whole(self) -> Self {
        match self {
            Self::Level(level) => Self::Level(Level { number: 0, ..level }),
            Self::Own | Self::All => self,
        }
    }

    /// The rows of an extent.
    pub(crate) fn of(rows: Extent) -> Self {
        match (rows.level(), rows.of_whole_graph()) {
            (Some(level), _) => Self::Level(level),
            (None, true) => Self::All,
            (None, false) => Self::Own,
        }
    }
}

impl Table {
    /// Whether it has edges of the batch at hand.
    pub(crate) fn of_batch(self) -> bool {
        matches!(self, Self::Edges(Over::Level(_), ..))
    }

    /// The edges of a set that a kernel over `rows` walks, if any.
    pub(crate) fn edges(rows: Extent, set: EdgeSet, walk: Walk) -> Option<Self> {
        let by = match walk {
            Walk::Rows => return None,
            Walk::Edges | Walk::EdgesByDestination => By::Destination,
            Walk::EdgesBySource => By::Source,
            Walk::EdgesByType => By::Type,
        };
        let over = match (Over::of(rows), by) {
            (Over::Level(level), By::Source) => Over::Level(level.above()),
            (over, _) => over,
        };
        Some(Self::Edges(over, set, by))
    }

    /// The nonzeros of features that a product walks; a buffer of this extent holds their values.
    pub(crate) fn features(values: Extent, product: Product) -> Self {
        let of = match sliced(values) {
            0 => FeaturesOf::OwnRows,
            _ => FeaturesOf::OwnColumns,
        };
        let by = match product {
            Product::Tn => By::Source,
            Product::Nn | Product::Nt => By::Destination,
        };
        Self::Features(of, by)
    }
}

impl<'a> Numbers<'a> {
    /// The rows, if it is a list of rows.
    pub(crate) fn rows(self) -> Option<&'a [u32]> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Places(_) => None,
        }
    }
}

impl Part {
    /// The numbers of a list, if the rank has it.
    pub(crate) fn list(&self, list: List) -> Option<Numbers<'_>> {
        Some(match list {
            List::Ids(over) => Numbers::Rows(self.ids(over)),
            List::Sent(over, reader) => {
                let send = match over {
                    Over::All => &self.whole.send,
                    Over::Own | Over::Level(_) => &self.send,
                };
                Numbers::Rows(&send.get(reader as usize)?.1)
            }
            List::Open(rank) => Numbers::Rows(&self.open.get(rank as usize)?.1),
            List::Leg(end, legs, n) => Numbers::Rows(&self.legs(end, legs).get(n as usize)?.rows),
            List::Moved(set, rank) => {
                let ids = match set {
                    None => &self.whole.owned,
                    Some(set) => &self.whole.chunks.set(set)?.ids,
                };
                Numbers::Rows(ids.get(rank as usize)?)
            }
            List::Places(set, rank) => {
                Numbers::Rows(self.whole.chunks.set(set)?.rows.get(rank as usize)?)
            }
            List::OfLevel(level, rank) => {
                Numbers::Rows(self.batches.at_hand()?.rows_of(level).get(rank as usize)?)
            }
            List::Fetched(which, rank) => {
                Numbers::Rows(self.batches.at_hand()?.asked().list(which, rank))
            }
            List::Vertices(level, set) => {
                Numbers::Rows(&self.batches.at_hand()?.edges(level, set)?.vertices)
            }
            List::InSets => Numbers::Rows(self.batches.at_hand()?.places_in_sets()),
            List::First(table) => Numbers::Places(&self.table(table)?.0.csr.indptr),
            List::Ends(table) => Numbers::Rows(&self.table(table)?.0.csr.indices),
            List::Positions(table) => Numbers::Rows(self.table(table)?.1),
        })
    }

    /// The legs of one kind; none if exchanges have one tier.
    pub(crate) fn legs(&self, end: End, legs: Legs) -> &[Leg] {
        self.routes(end).map_or(&[], |routes| match legs {
            Legs::Crossing => &routes.crossing,
            Legs::Arriving => &routes.arriving,
            Legs::Passed => &routes.passed,
            Legs::Forwarded => &routes.forwarded,
        })
    }

    /// The rows of [`List::rows_in`]; none without a batch.
    pub(crate) fn rows_in(&self, other: Option<Level>, of: Of) -> &[u32] {
        let list = self.list(List::rows_in(other, of));
        list.and_then(Numbers::rows).unwrap_or(&[])
    }

    /// A table, with the positions of its entries' values if those are in another order.
    pub(crate) fn table(&self, table: Table) -> Option<(&Walkable, &[u32])> {
        match table {
            Table::Edges(over, set, by) => {
                let edges = match over {
                    Over::All => self.whole.edges.of(set).as_ref()?,
                    Over::Own => self.edges.of(set).as_ref()?,
                    Over::Level(layer) => self.batches.at_hand()?.edges(layer, set)?,
                };
                match by {
                    By::Destination => Some((&edges.by_destination, &[])),
                    By::Source => edges.by_source.as_ref().map(both),
                    By::Type => edges.by_type.as_ref().map(|edges| (edges, &[][..])),
                }
            }
            Table::Features(of, by) => {
                let features = self.features[of as usize].as_ref()?;
                match by {
                    By::Destination => Some((&features.by_row, &[])),
                    By::Source => features.by_column.as_ref().map(both),
                    By::Type => None,
                }
            }
        }
    }

    /// The names of all lists that kernels and messages read in place.
    pub(crate) fn lists(&self) -> Vec<List> {
        let mut lists = vec![List::Ids(Over::Own), List::Ids(Over::All)];
        for (over, send) in [(Over::Own, &self.send), (Over::All, &self.whole.send)] {
            lists.extend((0..send.len() as u32).map(|reader| List::Sent(over, reader)));
        }
        lists.extend((0..self.open.len() as u32).map(List::Open));
        for end in [End::Src, End::Dst] {
            for legs in Legs::ALL {
                let count = self.legs(end, legs).len() as u32;
                lists.extend((0..count).map(|n| List::Leg(end, legs, n)));
            }
        }
        let ranks = 0..self.whole.owned.len() as u32;
        lists.extend(ranks.clone().map(|rank| List::Moved(None, rank)));
        for set in self.whole.chunks.sets() {
            let of = |rank| [List::Moved(Some(set), rank), List::Places(set, rank)];
            lists.extend(ranks.clone().flat_map(of));
        }
        for set in EdgeSet::all() {
            for (over, edges) in [(Over::Own, &self.edges), (Over::All, &self.whole.edges)] {
                let [by_destination, by_source] =
                    edges.of(set).as_ref().map_or([false; 2], |a| a.kept);
                for (by, kept) in [
                    (By::Destination, by_destination),
                    (By::Source, by_source),
                    (By::Type, true),
                ] {
                    lists.extend(self.lists_of(Table::Edges(over, set, by), kept));
                }
            }
        }
        for of in [FeaturesOf::OwnRows, FeaturesOf::OwnColumns] {
            for by in [By::Destination, By::Source] {
                lists.extend(self.lists_of(Table::Features(of, by), true));
            }
        }
        lists
    }

    /// The lists the rank has for a table. If entries are fetched, that is only the starts of rows.
    fn lists_of(&self, table: Table, kept: bool) -> impl Iterator<Item = List> {
        let first = self.table(table).map(|_| List::First(table));
        let entries = [List::Ends(table), List::Positions(table)];
        let entries = entries.into_iter().filter(move |_| kept && first.is_some());
        first.into_iter().chain(entries)
    }
}

fn both((walkable, positions): &(Walkable, Vec<u32>)) -> (&Walkable, &[u32]) {
    (walkable, positions)
}
