//! The program's allocator: if the machine refuses memory, the command ends with a message and exit code 2
//! instead of an abort. That holds for memory that the C library asks for itself, too.

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

/// What the C library needs at most for what it aborts without, such as the destructor of a thread's variable.
const OF_THE_LIBRARY: usize = 128 << 10;

/// Reports aborts that come from a lack of memory like every other lack of memory.
///
/// The C library aborts where it cannot allocate for itself. Other aborts stay what they are.
pub fn report_aborts() {
    let handler: extern "C" fn(libc::c_int) = aborted;
    // SAFETY: the handler calls only functions that are safe in signal handlers.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
}

extern "C" fn aborted(_: libc::c_int) {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping touches no memory in use.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            OF_THE_LIBRARY,
            protection,
            flags,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        refused(OF_THE_LIBRARY);
    }
    // SAFETY: both may be called in signal handlers. The signal ends the process after this handler.
    unsafe {
        libc::signal(libc::SIGABRT, libc::SIG_DFL);
        libc::raise(libc::SIGABRT);
    }
}

/// Reports panics that come from a lack of memory like every other lack of memory.
///
/// The standard library panics in a new thread where it cannot map the stack on which the thread handles signals.
pub fn report_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str();
        if said.is_some_and(|said| said.contains("alternative stack")) {
            refused(libc::SIGSTKSZ);
        }
        usual(panic);
    }));
}

/// Whether a thread has begun to report the lack of memory.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Reports the lack of memory and ends the process, without allocating. Other threads that then lack memory wait until the
/// process ends.
#[cold]
fn refused(size: usize) -> ! {
    while REPORTED.swap(true, Ordering::Relaxed) {
        // SAFETY: a call without arguments, which may be made in signal handlers.
        unsafe { libc::pause() };
    }
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
