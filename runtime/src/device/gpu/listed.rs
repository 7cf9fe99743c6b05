//! Lists of the batch at hand on the device.

use super::device_rank::DeviceRank;
use super::driver::Address;
use super::launch::Stop;
use super::state::{Gpu, Plain, bytes};
use crate::fault::Fault;
use crate::part::batch::Slot;
use crate::part::lists::{List, Numbers, Table};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a list of a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// What instructions read on the processor too.
    List(List),
    /// The rows of a table in the order in which a kernel takes them.
    Order(Table),
    /// A list of the hubs of a table.
    Hubs(Table, OfHubs),
    /// What the rows of logits are compared with.
    Sets,
    Labels,
    Values,
}

/// Which of the lists of hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfHubs {
    Rows,
    FirstChunks,
    ChunkRows,
    ChunkEdges,
}

/// The lists of batches by rank, in memory that later batches reuse.
#[derive(Default)]
pub(super) struct OfBatches(BTreeMap<(u32, Slot, Name), Copied>);

/// A copy on the device.
struct Copied {
    at: Address,
    /// Size of the memory.
    bytes: u64,
    /// Whether the list is empty.
    empty: bool,
    /// The version of the batch's lists that this is a copy of.
    version: u64,
}

impl Name {
    /// Whether messages are packed by the list.
    fn packs(self) -> bool {
        matches!(
            self,
            Self::List(List::Fetched(..) | List::OfLevel(..) | List::Ids(_))
        )
    }
}

impl Copied {
    fn address(&self) -> Address {
        match self.empty {
            true => Address::default(),
            false => self.at,
        }
    }
}

impl OfBatches {
    /// Bytes of memory.
    pub(super) fn bytes(&self, rank: u32) -> u64 {
        let of_rank = self.0.iter().filter(|((of, ..), _)| *of == rank);
        of_rank.map(|(_, copied)| copied.bytes).sum()
    }
}

/// Numbers that are made for a list.
pub(super) fn made<T: Plain>(numbers: Vec<T>) -> Cow<'static, [u8]> {
    bytes(&numbers).to_vec().into()
}

impl DeviceRank {
    /// Address of a list. One of the batch at hand is copied to the device first if it is not there.
    ///
    /// # Errors
    /// If there is no such list, or the device fails.
    pub(super) fn list(&self, gpu: &mut Gpu, list: List) -> Result<Address, Stop> {
        if !list.of_batch() {
            return Ok(gpu.at(self.own.number, list)?);
        }
        let numbers = self.own.part.list(list);
        let numbers = numbers.ok_or(Fault::Missing("a list of the batch"))?;
        self.copied(gpu, Name::List(list), || match numbers {
            Numbers::Rows(rows) => bytes(rows).into(),
            Numbers::Places(places) => bytes(places).into(),
        })
    }

    /// Address of a list of the batch at hand, which is made where the device has none yet. Address 0, which
    /// nothing reads, if it is empty.
    ///
    /// # Errors
    /// If no batch is at hand, or the device fails.
    pub(super) fn copied<'l>(
        &self,
        gpu: &mut Gpu,
        name: Name,
        make: impl FnOnce() -> Cow<'l, [u8]>,
    ) -> Result<Address, Stop> {
        let at_hand = self.own.part.batches.slot_at_hand();
        let (slot, version) = at_hand.ok_or(Fault::Missing("a batch"))?;
        let key = (self.own.number, slot, name);
        let before = gpu.of_batches.0.get(&key);
        if let Some(there) = before.filter(|copied| copied.version == version) {
            return Ok(there.address());
        }
        let (mut at, mut size) = before.map_or_else(Default::default, |c| (c.at, c.bytes));
        let list = make();
        let bytes = list.len() as u64;
        let compute = self.streams.compute;
        // Messages of an earlier batch may still be packed by the list that this one overwrites.
        let larger = bytes > size;
        if size > 0 && (larger || name.packs()) {
            self.wait_for_messages(gpu)?;
        }
        if larger {
            gpu.of_batches.0.remove(&key);
            if size > 0 {
                gpu.driver.synchronize(compute)?;
                gpu.driver.release(at)?;
            }
            size = bytes + bytes / 4;
            at = gpu.driver.allocate(size)?;
        }
        if bytes > 0 {
            gpu.driver.upload(compute, &list, at)?;
        }
        let copied = Copied {
            at,
            bytes: size,
            empty: bytes == 0,
            version,
        };
        let found = copied.address();
        gpu.of_batches.0.insert(key, copied);
        Ok(found)
    }
}
