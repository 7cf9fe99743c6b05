//! Memory of the processor that the GPU reads and writes by itself.
//!
//! Copies to and from the GPU go through a few slots of it, in turn. A slot is taken again when
//! the copy that used it last is over, which its event tells.

use super::calls::check;
use crate::device::gpu::driver::{Address, DriverError};
use cudarc::driver::result::{event, free_host, malloc_host, memcpy_dtoh_async, memcpy_htod_async};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};

/// Bytes of a slot.
pub const SLOT: usize = 4 << 20;
/// Slots.
const SLOTS: usize = 4;

#[derive(Debug)]
struct Slot {
    bytes: *mut u8,
    /// After the copy that used it last.
    event: CUevent,
}

/// The slots; made when the first is needed.
#[derive(Debug, Default)]
pub struct Staging {
    slots: Vec<Slot>,
    next: usize,
}

impl Staging {
    /// Puts a copy to the device on a stream. The bytes are taken when this returns.
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

    /// Copies from the device; `wait` waits for what is on the stream.
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
            // SAFETY: the slot is as long as a chunk, and nothing uses it any more; it is read when
            // the copy is over.
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

    /// The slot whose turn it is, free.
    fn slot(&mut self) -> Result<&Slot, DriverError> {
        while self.slots.len() < SLOTS {
            let event = event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING);
            let event = check("cuEventCreate", event)?;
            // SAFETY: memory is asked for; it is written before it is read.
            let bytes = check("cuMemHostAlloc", unsafe { malloc_host(SLOT, 0) });
            match bytes {
                Ok(bytes) => self.slots.push(Slot {
                    bytes: bytes.cast(),
                    event,
                }),
                Err(error) => {
                    // SAFETY: just made; the first error is the one to be told.
                    let _ = unsafe { event::destroy(event) };
                    return Err(error);
                }
            }
        }
        self.next = (self.next + 1) % SLOTS;
        let slot = &self.slots[self.next];
        // SAFETY: the event exists. One that was never recorded is over.
        check("cuEventSynchronize", unsafe {
            event::synchronize(slot.event)
        })?;
        Ok(slot)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: made by `slot`, given back once. Nobody is left to be told if it fails.
            unsafe {
                let _ = event::destroy(slot.event);
                let _ = free_host(slot.bytes.cast());
            }
        }
    }
}
