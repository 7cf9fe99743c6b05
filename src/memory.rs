//! The program's allocator: memory that the machine refuses ends a command with a message and exit code 2,
//! where Rust would abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, and an end in order where it has nothing left.
pub struct Allocator;

/// Whether reports are for programs.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on the message is an object on standard output.
pub fn report_as_json() {
    JSON.store(true, Ordering::Relaxed);
}

// SAFETY: all calls are passed on to the system's allocator with the arguments that came.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promised.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        refused(size);
    }
    memory
}

/// Says that memory is lacking and ends the process, without taking memory.
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
    // The text is shorter than its place.
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
    // SAFETY: the bytes are there; `_exit` runs nothing that would take memory.
    unsafe {
        libc::write(stream, text.as_ptr().cast(), length);
        libc::_exit(2)
    }
}
