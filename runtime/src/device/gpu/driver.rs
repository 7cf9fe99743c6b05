//! The interface to a GPU: memory, streams, events, launches, products, messages.
//!
//! All work on a stream happens in stream order; streams wait for each other only through events.
//! Implementations make no decisions: a real GPU, a recorder of calls, and an emulation on the CPU
//! all receive the same calls.

pub use crate::error::DriverError;
use gnnc_ir::words::storage::Storage;
use std::fmt;

/// An address in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on.
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// An address in host memory that the device can copy to and from directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress(pub u64);

impl HostAddress {
    /// The address `bytes` further on.
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// A queue of work, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

/// A position in a stream's work, by index. An event that was never recorded counts as reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(pub u32);

/// An entry point of a loaded module, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function(pub u32);

/// Captured work, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Captured(pub u32);

/// Bytes of device memory that some work reads or writes. A real device ignores this; a checking
/// driver uses it to find accesses that streams and events do not order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The first byte.
    pub at: Address,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether they are written.
    pub written: bool,
}

/// One launch of an entry point with one-dimensional blocks.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The entry point.
    pub function: Function,
    /// Blocks in each dimension.
    pub grid: [u32; 2],
    /// Threads per block.
    pub block: u32,
    /// The arguments in order: addresses and integers, 8 bytes each.
    pub arguments: &'a [u64],
    /// What it reads and writes.
    pub touched: &'a [Touched],
}

/// A row-major matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The first element.
    pub at: Address,
    /// Elements from one row to the next.
    pub stride: u64,
}

/// Epilogue of a product: what happens to the result before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProductEnd {
    /// A row, stored like the result, that is added to every row of it.
    pub bias: Option<Address>,
    /// Whether negative values then become 0.
    pub relu: bool,
}

/// A dense product `out = a b`, `a^T b` or `a b^T`. `out` is `rows` by `columns`; sums over `inner`
/// are in 32 bits.
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
    /// The result; overwritten even if `inner` is 0.
    pub out: Matrix,
    /// Rows of the result.
    pub rows: u64,
    /// Length of the summed dimension.
    pub inner: u64,
    /// Columns of the result.
    pub columns: u64,
    /// Storage of both factors.
    pub factors: Storage,
    /// Storage of the result: that of the factors, or 32 bits.
    pub result: Storage,
    /// The epilogue; ignored if `inner` is 0.
    pub end: Option<ProductEnd>,
}

/// One end of a message between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank at the other end.
    pub peer: u32,
    /// The first byte, at this end.
    pub at: Address,
    /// Number of bytes.
    pub bytes: u64,
}

/// A GPU. Calls that take a stream may return before the work is done. Any later call may report an
/// error of that work, at the latest [`Driver::synchronize`].
pub trait Driver: Send {
    /// Name of the device and its architecture: `NVIDIA H200, sm_90`.
    fn name(&self) -> String;

    /// Whether the driver uses [`Launch::touched`]; otherwise callers leave it empty.
    fn checks(&self) -> bool {
        false
    }

    /// Bytes of free memory.
    ///
    /// # Errors
    /// Like all calls of this trait: if a call failed, or the device is gone.
    fn free_bytes(&mut self) -> Result<u64, DriverError>;

    /// Uninitialized memory, aligned to 256 bytes.
    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverError>;

    /// Frees memory, which no stream may use any more.
    fn release(&mut self, at: Address) -> Result<(), DriverError>;

    /// Compiles a translation unit of CUDA C and finds its entry points, in order. Each takes the
    /// given number of 8-byte arguments: addresses and integers.
    fn load(&mut self, text: &str, entries: &[(&str, usize)])
    -> Result<Vec<Function>, DriverError>;

    /// A new stream. If blocks of several kernels could start, those on an `urgent` stream go
    /// first.
    fn stream(&mut self, urgent: bool) -> Result<Stream, DriverError>;

    /// A new event; a `timed` one records the time it is reached.
    fn event(&mut self, timed: bool) -> Result<Event, DriverError>;

    /// Places an event after the work on a stream; replaces its earlier position.
    fn record(&mut self, event: Event, on: Stream) -> Result<(), DriverError>;

    /// Makes a stream wait for an event's latest recording.
    fn wait(&mut self, on: Stream, event: Event) -> Result<(), DriverError>;

    /// Launches a kernel.
    fn launch(&mut self, on: Stream, launch: &Launch) -> Result<(), DriverError>;

    /// Whether [`Driver::multiply`] includes the epilogue of this product; if not, a kernel applies
    /// it.
    fn ends(&mut self, on: Stream, product: &Product) -> Result<bool, DriverError>;

    /// A dense product.
    fn multiply(&mut self, on: Stream, product: &Product) -> Result<(), DriverError>;

    /// Copies bytes within device memory; the ranges do not overlap.
    fn copy(
        &mut self,
        on: Stream,
        from: Address,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Sets bytes to 0.
    fn clear(&mut self, on: Stream, at: Address, bytes: u64) -> Result<(), DriverError>;

    /// Copies bytes to the device; `from` may be reused when this returns.
    fn upload(&mut self, on: Stream, from: &[u8], to: Address) -> Result<(), DriverError>;

    /// Waits for the stream and copies bytes from the device.
    fn download(&mut self, on: Stream, from: Address, to: &mut [u8]) -> Result<(), DriverError>;

    /// Zeroed host memory that [`Driver::fetch`] and [`Driver::store`] copy from and to.
    fn host_memory(&mut self, bytes: u64) -> Result<HostAddress, DriverError>;

    /// Copies bytes from host memory, in stream order.
    fn fetch(
        &mut self,
        on: Stream,
        from: HostAddress,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Copies bytes to host memory, in stream order.
    fn store(
        &mut self,
        on: Stream,
        from: Address,
        to: HostAddress,
        bytes: u64,
    ) -> Result<(), DriverError>;

    /// Reads bytes of [`Driver::host_memory`]; no enqueued work may still write them.
    fn read_host(&mut self, from: HostAddress, to: &mut [u8]) -> Result<(), DriverError>;

    /// Writes bytes of [`Driver::host_memory`]; no enqueued work may still use them.
    fn write_host(&mut self, from: &[u8], to: HostAddress) -> Result<(), DriverError>;

    /// Sends and receives messages between processes, all at once.
    fn exchange(
        &mut self,
        on: Stream,
        sent: &[Message],
        received: &[Message],
    ) -> Result<(), DriverError>;

    /// Starts capturing: work enqueued on `on`, and on streams that wait for its events, is
    /// recorded instead of run. [`Driver::upload`], [`Driver::download`] and
    /// [`Driver::synchronize`] are forbidden meanwhile.
    fn capture(&mut self, on: Stream) -> Result<(), DriverError>;

    /// Ends [`Driver::capture`]; events must have joined all streams to `on` again.
    fn captured(&mut self, on: Stream) -> Result<Captured, DriverError>;

    /// Runs captured work.
    fn replay(&mut self, on: Stream, what: Captured) -> Result<(), DriverError>;

    /// Waits until all work on a stream is done.
    fn synchronize(&mut self, on: Stream) -> Result<(), DriverError>;

    /// Seconds between two timed events, both already reached.
    fn seconds(&mut self, from: Event, to: Event) -> Result<f64, DriverError>;
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
