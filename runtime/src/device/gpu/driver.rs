//! What the executor asks of a GPU: memory, streams, events, launches, products, messages.
//!
//! Everything that is put on a stream happens in the order of the stream; streams wait for each
//! other only by events. Whoever implements this decides nothing: a real GPU, one that writes down
//! what it is told, and one that computes it on the processor are told the same.

pub use crate::error::DriverError;
use gnnc_ir::words::storage::Storage;
use std::fmt;

/// An address in the memory of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address that many bytes further on.
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// An address in the memory of the processor that the device copies to and from by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress(pub u64);

impl HostAddress {
    /// The address that many bytes further on.
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// A queue of work, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

/// A place in a stream's work, by its number. An event that was never recorded is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(pub u32);

/// An entry point of a loaded module, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function(pub u32);

/// Captured work, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Captured(pub u32);

/// Bytes of the device's memory that a piece of work reads or writes. A real device does not need
/// to know; one that checks finds with it what is not ordered by streams and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The first byte.
    pub at: Address,
    /// How many.
    pub bytes: u64,
    /// Whether they are written.
    pub written: bool,
}

/// One launch of an entry point with one-dimensional blocks.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// What is run.
    pub function: Function,
    /// Blocks in both dimensions.
    pub grid: [u32; 2],
    /// Threads of a block.
    pub block: u32,
    /// The arguments in order: addresses and whole numbers, 8 bytes each.
    pub arguments: &'a [u64],
    /// What it reads and writes.
    pub touched: &'a [Touched],
}

/// A matrix by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The first element.
    pub at: Address,
    /// Elements from a row to the next.
    pub stride: u64,
}

/// What happens to a product before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProductEnd {
    /// A row, stored like the result, that is added to all rows of it.
    pub bias: Option<Address>,
    /// Whether what is negative becomes 0, after that.
    pub relu: bool,
}

/// A dense product `out = a b`, `a^T b` or `a b^T`: `out` is `rows` by `columns`, `inner` are summed over, in
/// 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Whether `a` is stored `inner` by `rows`.
    pub a_transposed: bool,
    /// Whether `b` is stored `columns` by `inner`.
    pub b_transposed: bool,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The result; overwritten, also where `inner` is 0.
    pub out: Matrix,
    /// Rows of the result.
    pub rows: u64,
    /// What is summed over.
    pub inner: u64,
    /// Columns of the result.
    pub columns: u64,
    /// How both factors lie in memory.
    pub factors: Storage,
    /// How the result does: like the factors, or in 32 bits.
    pub result: Storage,
    /// What happens before it is written; nothing where `inner` is 0.
    pub end: Option<ProductEnd>,
}

/// One end of a message between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank at the other end.
    pub peer: u32,
    /// The first byte, here.
    pub at: Address,
    /// How many.
    pub bytes: u64,
}

/// A GPU. Calls that take a stream may return before the work is done; an error of that work may be
/// reported by any later call, at the latest by [`Driver::synchronize`].
pub trait Driver: Send {
    /// The device in words, with its architecture: `NVIDIA H200, sm_90`.
    fn name(&self) -> String;

    /// Whether [`Launch::touched`] is looked at; what a launch touches is found out only then.
    fn checks(&self) -> bool {
        false
    }

    /// Bytes of memory that are free.
    ///
    /// # Errors
    /// As all of these: a call that failed, or a device that is gone.
    fn free_bytes(&mut self) -> Result<u64, DriverError>;

    /// Memory, not initialised, at a multiple of 256 bytes.
    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverError>;

    /// Gives memory back; nothing on any stream uses it any more.
    fn release(&mut self, at: Address) -> Result<(), DriverError>;

    /// Compiles a translation unit of CUDA C and finds its entry points, in order. Their arguments are
    /// addresses and whole numbers of 8 bytes, as many as given with each.
    fn load(&mut self, text: &str, entries: &[(&str, usize)])
    -> Result<Vec<Function>, DriverError>;

    /// A new stream. Where there is a choice, blocks of kernels on an `urgent` one start before those of
    /// others.
    fn stream(&mut self, urgent: bool) -> Result<Stream, DriverError>;

    /// A new event; one that is `timed` knows when it was reached.
    fn event(&mut self, timed: bool) -> Result<Event, DriverError>;

    /// Puts an event behind what is on a stream; it forgets where it was before.
    fn record(&mut self, event: Event, on: Stream) -> Result<(), DriverError>;

    /// Lets a stream wait for an event as it was recorded last.
    fn wait(&mut self, on: Stream, event: Event) -> Result<(), DriverError>;

    /// Launches a kernel.
    fn launch(&mut self, on: Stream, launch: &Launch) -> Result<(), DriverError>;

    /// Whether [`Driver::multiply`] computes a product together with its end; a kernel ends it if not.
    fn ends(&mut self, on: Stream, product: &Product) -> Result<bool, DriverError>;

    /// A dense product.
    fn multiply(&mut self, on: Stream, product: &Product) -> Result<(), DriverError>;

    /// Copies bytes inside of the device's memory, which do not overlap.
    fn copy(
        &mut self,
        on: Stream,
        from: Address,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Sets bytes to 0.
    fn clear(&mut self, on: Stream, at: Address, bytes: u64) -> Result<(), DriverError>;

    /// Copies bytes to the device; they are taken when this returns.
    fn upload(&mut self, on: Stream, from: &[u8], to: Address) -> Result<(), DriverError>;

    /// Waits for the stream and copies bytes from the device.
    fn download(&mut self, on: Stream, from: Address, to: &mut [u8]) -> Result<(), DriverError>;

    /// Memory of the processor that [`Driver::fetch`] and [`Driver::store`] copy from and to, all zeros.
    fn host_memory(&mut self, bytes: u64) -> Result<HostAddress, DriverError>;

    /// Copies bytes from the processor's memory, when their turn on the stream comes.
    fn fetch(
        &mut self,
        on: Stream,
        from: HostAddress,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Copies bytes to the processor's memory, when their turn on the stream comes.
    fn store(
        &mut self,
        on: Stream,
        from: Address,
        to: HostAddress,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Copies bytes of [`Driver::host_memory`]; everything on streams that writes them is over.
    fn read_host(&mut self, from: HostAddress, to: &mut [u8]) -> Result<(), DriverError>;

    /// Writes bytes of [`Driver::host_memory`]; everything on streams that uses them is over.
    fn write_host(&mut self, from: &[u8], to: HostAddress) -> Result<(), DriverError>;

    /// Sends and receives between processes, all at once.
    fn exchange(
        &mut self,
        on: Stream,
        sent: &[Message],
        received: &[Message],
    ) -> Result<(), DriverError>;

    /// From now on what is put on `on`, and on streams that wait for its events, is written down and not
    /// done. [`Driver::upload`], [`Driver::download`] and [`Driver::synchronize`] are not allowed meanwhile.
    fn capture(&mut self, on: Stream) -> Result<(), DriverError>;

    /// Ends [`Driver::capture`]; all streams have joined `on` again by events.
    fn captured(&mut self, on: Stream) -> Result<Captured, DriverError>;

    /// Does what was written down.
    fn replay(&mut self, on: Stream, what: Captured) -> Result<(), DriverError>;

    /// Waits until everything on a stream is done.
    fn synchronize(&mut self, on: Stream) -> Result<(), DriverError>;

    /// Seconds from one timed event to another; both are over.
    fn seconds(&mut self, from: Event, to: Event) -> Result<f64, DriverError>;
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
