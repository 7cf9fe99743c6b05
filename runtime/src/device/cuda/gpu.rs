//! The device with what was copied to it once.

use super::code::Code;
use super::driver::{Address, Driver, DriverError, Launch, Stream, Touched};
use crate::RuntimeError;
use crate::executor::Fault;
use gnnc_codegen::cuda::library::Entry;
use gnnc_codegen::cuda::schedule::BLOCK;
use std::collections::BTreeMap;

/// The device of a process.
pub(super) struct Gpu {
    pub(super) driver: Box<dyn Driver>,
    /// Whether the driver wants to know what launches touch.
    pub(super) checks: bool,
    /// Where ranks begin and end together.
    pub(super) main: Stream,
    pub(super) code: Code,
    mirror: Mirror,
}

/// Lists of the processor's memory that lie on the device too, by their addresses. Ranks keep them unchanged
/// for as long as the device.
#[derive(Default)]
struct Mirror(BTreeMap<usize, Copied>);

struct Copied {
    end: usize,
    at: Address,
}

const NOT_THERE: Fault = Fault::Missing("a list on the device that was never copied there");

impl Mirror {
    /// Where a list that is not empty lies, if it does.
    fn find<T: Plain>(&self, list: &[T]) -> Option<Address> {
        let begin = list.as_ptr() as usize;
        let end = begin + size_of_val(list);
        let (first, copied) = self.0.range(..=begin).next_back()?;
        let offset = (begin - first) as u64;
        (end <= copied.end).then(|| copied.at.plus(offset))
    }
}

/// Numbers that are copied as they are.
pub(super) trait Plain: Copy {
    fn push(self, bytes: &mut Vec<u8>);
}

macro_rules! plain {
    ($($kind:ty),*) => {
        $(impl Plain for $kind {
            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

plain!(u32, u64, i32, f32);

/// Numbers as bytes.
pub(super) fn bytes<T: Plain>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|number| number.push(&mut bytes));
    bytes
}

impl Gpu {
    pub(super) fn new(mut driver: Box<dyn Driver>, code: Code) -> Result<Self, RuntimeError> {
        let main = driver.stream(false)?;
        Ok(Self {
            checks: driver.checks(),
            driver,
            main,
            code,
            mirror: Mirror::default(),
        })
    }

    /// Copies a list to the device, unless it is there.
    pub(super) fn keep<T: Plain>(&mut self, list: &[T]) -> Result<(), DriverError> {
        if list.is_empty() || self.mirror.find(list).is_some() {
            return Ok(());
        }
        let bytes = bytes(list);
        let at = self.driver.allocate(bytes.len() as u64)?;
        self.driver.upload(self.main, &bytes, at)?;
        let begin = list.as_ptr() as usize;
        let end = begin + bytes.len();
        self.mirror.0.insert(begin, Copied { end, at });
        Ok(())
    }

    /// Where a list, or a part of one, lies on the device; 0 for an empty one, of which nothing is read.
    ///
    /// # Errors
    /// The list was never copied.
    pub(super) fn at<T: Plain>(&self, list: &[T]) -> Result<Address, Fault> {
        if list.is_empty() {
            return Ok(Address::default());
        }
        self.mirror.find(list).ok_or(NOT_THERE)
    }

    /// Launches an entry point of the library over so many items.
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

    #[test]
    fn parts_of_lists_are_found_and_others_are_not() {
        let (list, other) = ([1u32, 2, 3, 4, 5], [1u32, 2]);
        let mut mirror = Mirror::default();
        let begin = list.as_ptr() as usize;
        let copied = Copied {
            end: begin + size_of_val(&list),
            at: Address(1024),
        };
        mirror.0.insert(begin, copied);
        assert_eq!(mirror.find(&list), Some(Address(1024)));
        assert_eq!(mirror.find(&list[2..4]), Some(Address(1032)));
        // Not address 0, which a kernel would read.
        assert_eq!(mirror.find(&other), None);
    }
}
