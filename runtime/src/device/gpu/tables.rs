//! The rows over which kernels are launched: their hubs, and the order in which they are taken.

use super::code::Loaded;
use super::device_rank::DeviceRank;
use super::driver::Address;
use super::launch::{Edges, Stop};
use super::listed::{Name, OfHubs, made};
use super::state::{Gpu, bytes};
use crate::fault::Fault;
use crate::part::batch::Slot;
use crate::part::lists::Table;
use gnnc_codegen::cuda::{Hubs, Size, by_degree};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A range of rows in one launch.
pub(super) struct Section {
    pub(super) loaded: Arc<Loaded>,
    pub(super) rows: Range<u64>,
    pub(super) size: Size,
    pub(super) hubs: HubLists,
    pub(super) order: Address,
}

/// Hubs and row orders of sections, by the table walked and the rows.
pub(super) struct Tables {
    /// Edges from which a row is a hub.
    pub(super) most: u64,
    known: BTreeMap<(Table, u64, u64), HubLists>,
    orders: BTreeMap<(Table, u64, u64), Address>,
    /// The hubs of tables of the batch at hand, and the version of its lists.
    of_batches: BTreeMap<(Slot, Table), (u64, HubLists)>,
}

/// Hubs of a section on the device: how many there are and how many chunks they have, and the addresses of the
/// lists in [`Hubs`].
#[derive(Clone, Copy, Default)]
pub(super) struct HubLists {
    count: u64,
    chunks: u64,
    pub(super) rows: Address,
    pub(super) first_chunks: Address,
    pub(super) chunk_rows: Address,
    pub(super) chunk_edges: Address,
}

impl HubLists {
    /// Copies the lists to the device by `put`, unless there are no hubs.
    fn of(
        hubs: &Hubs,
        mut put: impl FnMut(OfHubs, &[u8]) -> Result<Address, Stop>,
    ) -> Result<Self, Stop> {
        if hubs.rows.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self {
            count: hubs.rows.len() as u64,
            chunks: hubs.chunk_rows.len() as u64,
            rows: put(OfHubs::Rows, bytes(&hubs.rows))?,
            first_chunks: put(OfHubs::FirstChunks, bytes(&hubs.first_chunks))?,
            chunk_rows: put(OfHubs::ChunkRows, bytes(&hubs.chunk_rows))?,
            chunk_edges: put(OfHubs::ChunkEdges, bytes(&hubs.chunk_edges))?,
        })
    }
}

impl Tables {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            known: BTreeMap::new(),
            orders: BTreeMap::new(),
            of_batches: BTreeMap::new(),
        }
    }

    /// The order of rows, copied to the device on first use; null for ascending order.
    fn order(
        &mut self,
        gpu: &mut Gpu,
        (table, indptr): (Table, &[u64]),
        rows: &Range<u64>,
    ) -> Result<Address, Stop> {
        let key = (table, rows.start, rows.end);
        if let Some(known) = self.orders.get(&key) {
            return Ok(*known);
        }
        let at = gpu.put_list(&by_degree(
            indptr,
            rows.start as usize..rows.end as usize,
            self.most,
        ))?;
        self.orders.insert(key, at);
        Ok(at)
    }

    /// The hubs among rows, copied to the device on first use.
    fn of(
        &mut self,
        gpu: &mut Gpu,
        (table, indptr): (Table, &[u64]),
        rows: &Range<u64>,
    ) -> Result<HubLists, Stop> {
        let key = (table, rows.start, rows.end);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let range = rows.start as usize..rows.end as usize;
        let hubs = Hubs::of(indptr, range, self.most);
        let found = HubLists::of(&hubs, |_, list| Ok(gpu.put_list(list)?))?;
        self.known.insert(key, found);
        Ok(found)
    }
}

impl DeviceRank {
    /// Rows over which a kernel that walks these edges is launched at once.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn section(
        &self,
        gpu: &mut Gpu,
        tables: &mut Tables,
        (loaded, edges): (&Arc<Loaded>, Edges),
        rows: Range<u64>,
    ) -> Result<Section, Stop> {
        let first = |row: u64| edges.indptr.get(row as usize).copied().unwrap_or(0);
        let ordered = loaded.source.schedule.ordered();
        let (mut hubs, mut order) = (HubLists::default(), Address::default());
        if let Some(table) = edges.table {
            let walked = (table, edges.indptr);
            let of_batch = table.of_batch();
            hubs = match of_batch {
                true => self.hubs_of_batch(gpu, tables, walked, &rows)?,
                false => tables.of(gpu, walked, &rows)?,
            };
            order = match (ordered, of_batch) {
                (false, _) => Address::default(),
                (true, true) => self.copied(gpu, Name::Order(table), || {
                    let range = rows.start as usize..rows.end as usize;
                    made(by_degree(edges.indptr, range, tables.most))
                })?,
                (true, false) => tables.order(gpu, walked, &rows)?,
            };
        }
        let size = Size {
            rows: rows.end - rows.start,
            edges: first(rows.end) - first(rows.start),
            chunks: hubs.chunks,
            hubs: hubs.count,
        };
        Ok(Section {
            loaded: Arc::clone(loaded),
            rows,
            size,
            hubs,
            order,
        })
    }

    /// The hubs of a table of the batch at hand; `rows` are all of its rows.
    fn hubs_of_batch(
        &self,
        gpu: &mut Gpu,
        tables: &mut Tables,
        (table, indptr): (Table, &[u64]),
        rows: &Range<u64>,
    ) -> Result<HubLists, Stop> {
        let at_hand = self.own.part.batches.slot_at_hand();
        let (slot, version) = at_hand.ok_or(Fault::Missing("a batch"))?;
        if let Some((of, known)) = tables.of_batches.get(&(slot, table))
            && *of == version
        {
            return Ok(*known);
        }
        let range = rows.start as usize..rows.end as usize;
        let hubs = Hubs::of(indptr, range, tables.most);
        let found = HubLists::of(&hubs, |which, list| {
            self.copied(gpu, Name::Hubs(table, which), || Cow::Borrowed(list))
        })?;
        tables.of_batches.insert((slot, table), (version, found));
        Ok(found)
    }
}
