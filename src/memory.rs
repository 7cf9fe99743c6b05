//! The program's allocator: if the machine refuses memory, the command ends with a message and exit code 2
//! instead of an abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, with an orderly exit when memory runs out.
pub struct Allocator;

/// Whether the message is JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Makes the message a JSON object on standard output from now on.
pub fn report_as_json() {
    JSON.store(true, Ordering::Relaxed);
}

// SAFETY: all calls go to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        refused(size);
    }
    memory
}

/// Reports the lack of memory and ends the process, without allocating.
#[cold]
fn refused(size: usize) -> ! {
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let json = JSON.load(Ordering::Relaxed);
    let (before, after) = if json {
        (
            "{\"error\": {\"kind\": \"memory\", \"message\": \"",
            "\", \"exit_code\": 2}}\n",
        )
    } else {
        ("error: ", "\n")
    };
    // The text is shorter than the buffer.
    let _ = write!(
        rest,
        "{before}the machine refused {size} bytes of memory; free some, raise the limit of the process, or ask \
         for less{after}"
    );
    let left = rest.len();
    let stream = if json {
        libc::STDOUT_FILENO
    } else {
        libc::STDERR_FILENO
    };
    let length = text.len() - left;
    // SAFETY: the buffer holds `length` bytes; `_exit` runs nothing that allocates.
    unsafe {
        libc::write(stream, text.as_ptr().cast(), length);
        libc::_exit(2)
    }
}
