//! Pinned host memory for synchronous copies.
//!
//! Copies to and from the GPU go through a few slots in turn. A slot is reused once its last copy
//! is done, as its event tells.

use super::calls::check;
use crate::device::gpu::driver::{Address, DriverError};
use cudarc::driver::result::{event, free_host, malloc_host, memcpy_dtoh_async, memcpy_htod_async};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};

/// Bytes per slot.
pub const SLOT: usize = 4 << 20;
/// Number of slots.
const SLOTS: usize = 4;

#[derive(Debug)]
struct Slot {
    bytes: *mut u8,
    /// Recorded after the last copy that used it.
    event: CUevent,
}

/// The slots, created on first use.
#[derive(Debug, Default)]
pub struct Staging {
    slots: Vec<Slot>,
    next: usize,
}

impl Staging {
    /// Enqueues a copy to the device on a stream. `from` may be reused when this returns.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn upload(
        &mut self,
        stream: CUstream,
        from: &[u8],
        to: Address,
    ) -> Result<(), DriverError> {
        for (number, chunk) in from.chunks(SLOT).enumerate() {
            let slot = self.slot()?;
            let to = to.plus((number * SLOT) as u64).0;
            // SAFETY: the slot is as long as a chunk, and nothing uses it any more.
            unsafe {
                let staged = std::slice::from_raw_parts_mut(slot.bytes, chunk.len());
                staged.copy_from_slice(chunk);
                check("cuMemcpyHtoDAsync", memcpy_htod_async(to, staged, stream))?;
                check("cuEventRecord", event::record(slot.event, stream))?;
            }
        }
        Ok(())
    }

    /// Copies from the device; `wait` waits for the work on the stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn download(
        &mut self,
        stream: CUstream,
        from: Address,
        to: &mut [u8],
        mut wait: impl FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        for (number, chunk) in to.chunks_mut(SLOT).enumerate() {
            let slot = self.slot()?;
            let from = from.plus((number * SLOT) as u64).0;
            // SAFETY: the slot is as long as a chunk, and nothing uses it any more. It is read
            // after the copy is done.
            unsafe {
                let staged = std::slice::from_raw_parts_mut(slot.bytes, chunk.len());
                check("cuMemcpyDtoHAsync", memcpy_dtoh_async(staged, from, stream))?;
                wait()?;
                chunk.copy_from_slice(staged);
            }
        }
        if to.is_empty() {
            wait()?;
        }
        Ok(())
    }

    /// The next slot, once it is free.
    fn slot(&mut self) -> Result<&Slot, DriverError> {
        while self.slots.len() < SLOTS {
            let event = event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING);
            let event = check("cuEventCreate", event)?;
            // SAFETY: this only allocates memory; it is written before it is read.
            let bytes = check("cuMemHostAlloc", unsafe { malloc_host(SLOT, 0) });
            match bytes {
                Ok(bytes) => self.slots.push(Slot {
                    bytes: bytes.cast(),
                    event,
                }),
                Err(error) => {
                    // SAFETY: just made; report the first error, not this one.
                    let _ = unsafe { event::destroy(event) };
                    return Err(error);
                }
            }
        }
        self.next = (self.next + 1) % SLOTS;
        let slot = &self.slots[self.next];
        // SAFETY: the event exists. One that was never recorded counts as reached.
        check("cuEventSynchronize", unsafe {
            event::synchronize(slot.event)
        })?;
        Ok(slot)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: made by `slot`, released once. Nobody is left to report a failure to.
            unsafe {
                let _ = event::destroy(slot.event);
                let _ = free_host(slot.bytes.cast());
            }
        }
    }
}
