//! The device and the data copied to it once.

use super::code::Code;
use super::driver::{Address, Driver, DriverError, Launch, Stream, Touched};
use super::listed::OfBatches;
use crate::RuntimeError;
use crate::fault::Fault;
use crate::part::lists::{List, Numbers};
use gnnc_codegen::cuda::library::Entry;
use gnnc_codegen::cuda::schedule::BLOCK;
use std::collections::BTreeMap;

/// The device of a process.
pub(super) struct Gpu {
    pub(super) driver: Box<dyn Driver>,
    /// Whether the driver wants to know what launches touch.
    pub(super) checks: bool,
    /// The stream on which all ranks begin and end.
    pub(super) main: Stream,
    pub(super) code: Code,
    lists: Lists,
    pub(super) of_batches: OfBatches,
}

/// Addresses of lists, by name: one copy per rank, or a single one for the ranks that share the list.
struct Lists {
    at: BTreeMap<(u32, List), Address>,
    /// Number of consecutive ranks that share lists: those of a group, or all.
    sharers: u32,
}

const NOT_THERE: Fault = Fault::Missing("a list on the device that was never copied there");

impl Lists {
    fn find(&self, rank: u32, list: List) -> Option<Address> {
        self.at.get(&self.key(rank, list)).copied()
    }

    fn insert(&mut self, rank: u32, list: List, at: Address) {
        let key = self.key(rank, list);
        self.at.insert(key, at);
    }

    fn key(&self, rank: u32, list: List) -> (u32, List) {
        match list.shared() {
            true => (rank / self.sharers.max(1), list),
            false => (rank, list),
        }
    }
}

/// Numbers that are copied bit for bit. They have no padding.
pub(super) trait Plain: Copy {}

impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for i32 {}
impl Plain for f32 {}

/// Numbers as bytes.
pub(super) fn bytes<T: Plain>(numbers: &[T]) -> &[u8] {
    // SAFETY: the numbers have no padding, and every bit pattern is valid for bytes.
    unsafe { numbers.align_to() }.1
}

impl Gpu {
    /// The device with the code of some programs, of which so many consecutive ranks share lists.
    pub(super) fn new(
        mut driver: Box<dyn Driver>,
        code: Code,
        sharers: u32,
    ) -> Result<Self, RuntimeError> {
        let main = driver.stream(false)?;
        Ok(Self {
            checks: driver.checks(),
            driver,
            main,
            code,
            lists: Lists {
                at: BTreeMap::new(),
                sharers,
            },
            of_batches: OfBatches::default(),
        })
    }

    /// Copies numbers to newly allocated memory. Without numbers, returns address 0, which nothing
    /// reads.
    pub(super) fn put_list<T: Plain>(&mut self, numbers: &[T]) -> Result<Address, DriverError> {
        if numbers.is_empty() {
            return Ok(Address::default());
        }
        let bytes = bytes(numbers);
        let at = self.driver.allocate(bytes.len() as u64)?;
        self.driver.upload(self.main, bytes, at)?;
        Ok(at)
    }

    /// Copies a rank's list to the device, unless it is already there.
    pub(super) fn keep(
        &mut self,
        rank: u32,
        list: List,
        numbers: Numbers,
    ) -> Result<(), DriverError> {
        if self.lists.find(rank, list).is_some() {
            return Ok(());
        }
        let at = match numbers {
            Numbers::Rows(rows) => self.put_list(rows)?,
            Numbers::Places(places) => self.put_list(places)?,
        };
        self.lists.insert(rank, list, at);
        Ok(())
    }

    /// Address of a rank's list.
    ///
    /// # Errors
    /// If the list was never copied.
    pub(super) fn at(&self, rank: u32, list: List) -> Result<Address, Fault> {
        self.lists.find(rank, list).ok_or(NOT_THERE)
    }

    /// Launches a library entry point over `items` items.
    pub(super) fn library(
        &mut self,
        on: Stream,
        entry: Entry,
        items: u64,
        arguments: &[u64],
        touched: &[Touched],
    ) -> Result<(), DriverError> {
        let launch = Launch {
            function: self.code.library(entry),
            grid: [entry.blocks(items), 1],
            block: BLOCK,
            arguments,
            touched,
        };
        match launch.grid[0] {
            0 => Ok(()),
            _ => self.driver.launch(on, &launch),
        }
    }
}

/// Bytes that are read.
pub(super) fn read(at: Address, bytes: u64) -> Touched {
    Touched {
        at,
        bytes,
        written: false,
    }
}

/// Bytes that are written.
pub(super) fn written(at: Address, bytes: u64) -> Touched {
    Touched {
        at,
        bytes,
        written: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::lists::Over;

    #[test]
    fn lists_are_found_by_rank_and_name() {
        let mut lists = Lists {
            at: BTreeMap::new(),
            sharers: 2,
        };
        let (own, all) = (List::Ids(Over::Own), List::Ids(Over::All));
        lists.insert(1, own, Address(256));
        lists.insert(1, all, Address(512));
        assert_eq!(lists.find(1, own), Some(Address(256)));
        // Neither another rank's list nor address 0, which a kernel would read.
        assert_eq!(lists.find(0, own), None);
        assert_eq!(lists.find(1, List::Sent(Over::Own, 0)), None);
        // Copied once for the ranks of a group.
        assert_eq!(lists.find(0, all), Some(Address(512)));
        assert_eq!(lists.find(2, all), None);
    }
}
