//! Blocks of pinned host memory for offloaded tensors, and asynchronous copies between them and the
//! GPU. The pages stay in place, so that the GPU can copy on its own.

use super::calls::{check, words};
use crate::device::gpu::driver::{Address, DriverError, HostAddress};
use cudarc::driver::result::{free_host, malloc_host, memcpy_dtoh_async, memcpy_htod_async};
use cudarc::driver::sys::CUstream;
use std::collections::BTreeMap;

/// Bytes of each block, by address.
#[derive(Debug, Default)]
pub struct Pinned(BTreeMap<u64, u64>);

impl Pinned {
    /// A zeroed block.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn allocate(&mut self, bytes: u64) -> Result<HostAddress, DriverError> {
        // SAFETY: this only allocates memory; it is written below before anything reads it.
        let block = unsafe { malloc_host(bytes.max(1) as usize, 0) };
        let block = block.map_err(|error| DriverError::HostMemory {
            bytes,
            message: words(error),
        })?;
        // SAFETY: exactly the bytes just allocated.
        unsafe { block.cast::<u8>().write_bytes(0, bytes as usize) };
        self.0.insert(block as u64, bytes);
        Ok(HostAddress(block as u64))
    }

    /// Enqueues a copy to the device on a stream.
    ///
    /// # Errors
    /// If the bytes were not allocated here, or the driver refuses.
    pub fn fetch(
        &self,
        stream: CUstream,
        from: HostAddress,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError> {
        self.inside("cuMemcpyHtoDAsync", from, bytes)?;
        // SAFETY: inside a block; whoever enqueues work answers for other uses of the bytes.
        unsafe {
            let source = std::slice::from_raw_parts(from.0 as *const u8, bytes as usize);
            check("cuMemcpyHtoDAsync", memcpy_htod_async(to.0, source, stream))
        }
    }

    /// Enqueues a copy from the device on a stream.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub fn store(
        &self,
        stream: CUstream,
        from: Address,
        to: HostAddress,
        bytes: u64,
    ) -> Result<(), DriverError> {
        self.inside("cuMemcpyDtoHAsync", to, bytes)?;
        // SAFETY: as for `fetch`.
        unsafe {
            let target = std::slice::from_raw_parts_mut(to.0 as *mut u8, bytes as usize);
            check(
                "cuMemcpyDtoHAsync",
                memcpy_dtoh_async(target, from.0, stream),
            )
        }
    }

    /// Reads bytes of a block; no enqueued work may use them.
    ///
    /// # Errors
    /// If the bytes were not allocated here.
    pub fn read(&self, from: HostAddress, to: &mut [u8]) -> Result<(), DriverError> {
        self.inside("a look at the host's memory", from, to.len() as u64)?;
        // SAFETY: inside a block, and nothing writes it according to the caller.
        to.copy_from_slice(unsafe { std::slice::from_raw_parts(from.0 as *const u8, to.len()) });
        Ok(())
    }

    /// Writes bytes of a block; no enqueued work may use them.
    ///
    /// # Errors
    /// If the bytes were not allocated here.
    pub fn write(&mut self, from: &[u8], to: HostAddress) -> Result<(), DriverError> {
        self.inside("a change of the host's memory", to, from.len() as u64)?;
        // SAFETY: inside a block, and nothing else uses it according to the caller.
        let target = unsafe { std::slice::from_raw_parts_mut(to.0 as *mut u8, from.len()) };
        target.copy_from_slice(from);
        Ok(())
    }

    fn inside(&self, call: &'static str, at: HostAddress, bytes: u64) -> Result<(), DriverError> {
        let before = self.0.range(..=at.0).next_back();
        match before {
            Some((begin, length)) if at.0 - begin + bytes <= *length => Ok(()),
            _ => Err(DriverError::Call {
                call,
                message: format!(
                    "{bytes} bytes at {:#x} of the host were not allocated: a bug, please report it",
                    at.0
                ),
            }),
        }
    }

    /// Frees all blocks; nothing may use them any more.
    pub fn release(&mut self) {
        for block in std::mem::take(&mut self.0).into_keys() {
            // SAFETY: made by `allocate`, freed once. Nobody is left to report a failure to.
            let _ = unsafe { free_host(block as *mut std::ffi::c_void) };
        }
    }
}
