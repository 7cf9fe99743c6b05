//! A fake GPU that executes requests at once on the processor, and reports where a GPU would be
//! free to reorder them.

#[path = "work.rs"]
mod work;

use super::clocks::{Clocks, Ordering, Word, joined};
use super::host::Host;
use gnnc::runtime::device::gpu::driver::{
    Address, Captured, Driver, DriverError, Event, Function, HostAddress, Launch, Message, Product,
    Stream, Touched,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

/// Alignment of allocations, in bytes.
const ALIGNMENT: usize = 256;

/// Memory of the device.
struct Block {
    bytes: usize,
    /// The uses of each four bytes.
    words: Vec<Word>,
    number: usize,
}

/// Messages waiting to be received.
type Queue = VecDeque<Vec<u8>>;

/// Messages between processes, by sender and receiver.
#[derive(Default)]
pub struct Wires {
    messages: Mutex<BTreeMap<(u32, u32), Queue>>,
    sent: Condvar,
}

/// Requests to a driver and their counts, shared with its creator.
#[derive(Default)]
pub struct Seen {
    /// Number of calls so far that can fail.
    pub calls: u64,
    /// The call that fails, counted from 1.
    pub fails: Option<u64>,
    /// Whether the host refuses to give memory.
    pub no_host_memory: bool,
    /// How often captured work was replayed.
    pub replays: u64,
    /// Work put on streams, if recorded.
    pub listed: Option<Vec<String>>,
}

/// Work on a stream.
#[derive(Clone)]
enum Work {
    Launch(Function, [u32; 2], Vec<u64>, Vec<Touched>),
    Multiply(Product),
    Copy(Address, Address, u64),
    Fetch(HostAddress, Address, u64),
    Store(Address, HostAddress, u64),
    Clear(Address, u64),
    Exchange(Vec<Message>, Vec<Message>),
    Record(Event),
    Wait(Event),
}

/// Captured work.
#[derive(Default)]
struct Capture {
    streams: BTreeSet<Stream>,
    events: BTreeSet<Event>,
    work: Vec<(Stream, Work)>,
}

/// The device.
pub struct Fake {
    seen: Arc<Mutex<Seen>>,
    clocks: Clocks,
    memory: BTreeMap<u64, Block>,
    /// Memory of the host.
    hosts: BTreeMap<u64, Block>,
    modules: Vec<Host>,
    /// Module and entry point of each function.
    functions: Vec<(usize, usize)>,
    capture: Option<(Stream, Capture)>,
    captured: Vec<(Stream, Capture)>,
    rank: u32,
    wires: Arc<Wires>,
}

type Done = Result<(), DriverError>;

fn wrong(call: &'static str, message: impl Into<String>) -> DriverError {
    let message = message.into();
    DriverError::Call { call, message }
}

impl Fake {
    pub fn new(seen: &Arc<Mutex<Seen>>) -> Self {
        Self::among(seen, 0, &Arc::default())
    }

    /// One of several processes with one rank each.
    pub fn among(seen: &Arc<Mutex<Seen>>, rank: u32, wires: &Arc<Wires>) -> Self {
        Self {
            seen: Arc::clone(seen),
            clocks: Clocks::default(),
            memory: BTreeMap::new(),
            hosts: BTreeMap::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            capture: None,
            captured: Vec::new(),
            rank,
            wires: Arc::clone(wires),
        }
    }

    /// Counts a call, and fails if it is the one to fail.
    fn call(&mut self, call: &'static str) -> Done {
        let mut seen = self.seen.lock().unwrap();
        seen.calls += 1;
        match seen.fails {
            Some(n) if n == seen.calls => Err(wrong(call, format!("call {n} was told to"))),
            _ => Ok(()),
        }
    }

    /// Like [`Self::call`], for calls that are illegal during capture.
    fn outside(&mut self, call: &'static str) -> Done {
        self.call(call)?;
        match self.capture {
            Some(_) => Err(wrong(call, "not while work is captured")),
            None => Ok(()),
        }
    }

    /// The block that contains these bytes, and the words that they touch.
    fn block(&self, at: Address, bytes: u64) -> Result<(u64, Range<usize>), String> {
        within(&self.memory, at, bytes)
    }

    /// Copies between the device and the host. Words never written may be copied; they stay so.
    fn copied(
        &mut self,
        on: Stream,
        [from, to]: [u64; 2],
        bytes: u64,
        fetched: bool,
    ) -> Result<(), String> {
        let Self {
            memory,
            hosts,
            clocks,
            ..
        } = self;
        let (sources, targets) = match fetched {
            true => (hosts, memory),
            false => (memory, hosts),
        };
        let (source, read) = within(sources, Address(from), bytes)?;
        let (target, written) = within(targets, Address(to), bytes)?;
        let (source, target) = (sources.get_mut(&source), targets.get_mut(&target));
        let (source, target) = source.zip(target).ok_or("no memory")?;
        clocks.copy(on, &mut source.words[read], &mut target.words[written])?;
        // SAFETY: both lie in blocks that live as long as the driver, and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) };
        Ok(())
    }

    /// Records a use of host memory by the processor itself.
    fn by_host(&mut self, at: HostAddress, bytes: u64, write: bool) -> Result<(), String> {
        let (block, words) = within(&self.hosts, Address(at.0), bytes)?;
        let block = self.hosts.get_mut(&block).ok_or("no memory")?;
        self.clocks.by_host(&mut block.words[words], write)
    }
}

/// The block of a memory that contains these bytes, and the words that they touch.
fn within(
    memory: &BTreeMap<u64, Block>,
    at: Address,
    bytes: u64,
) -> Result<(u64, Range<usize>), String> {
    let before = memory.range(..=at.0).next_back();
    let inside = before.filter(|(begin, block)| at.0 + bytes <= **begin + block.bytes as u64);
    let (begin, _) = inside
        .ok_or_else(|| format!("{bytes} bytes at {at} are not in memory that was allocated"))?;
    let first = (at.0 - begin) as usize;
    let words = first / 4..(first + bytes as usize).div_ceil(4);
    Ok((*begin, words))
}

impl Fake {
    fn touch(&mut self, on: Stream, touched: Touched) -> Result<(), String> {
        if touched.bytes == 0 {
            return Ok(());
        }
        let (block, words) = self.block(touched.at, touched.bytes)?;
        let block = self.memory.get_mut(&block).ok_or("no memory")?;
        self.clocks
            .touch(on, &mut block.words[words], touched.written)
    }

    /// Bytes of device memory.
    fn bytes(&mut self, at: Address, bytes: u64) -> Result<&mut [u8], String> {
        if bytes == 0 {
            return Ok(&mut []);
        }
        self.block(at, bytes)?;
        // SAFETY: the bytes lie in one block, which lives as long as the driver.
        Ok(unsafe { std::slice::from_raw_parts_mut(at.0 as *mut u8, bytes as usize) })
    }

    /// Puts work on a stream, or adds it to the capture.
    fn put(&mut self, call: &'static str, on: Stream, work: Work) -> Done {
        self.call(call)?;
        let Some((_, capture)) = &mut self.capture else {
            return self.perform(on, &work).map_err(|e| wrong(call, e));
        };
        if let Work::Wait(event) = work {
            if !capture.events.contains(&event) {
                return Err(wrong(call, "the event is not one of the captured work"));
            }
            capture.streams.insert(on);
        }
        if !capture.streams.contains(&on) {
            return Err(wrong(call, "the stream is none of those that are captured"));
        }
        if let Work::Record(event) = work {
            capture.events.insert(event);
        }
        capture.work.push((on, work));
        Ok(())
    }
}

impl Driver for Fake {
    fn name(&self) -> String {
        "the processor".to_owned()
    }

    fn checks(&self) -> bool {
        true
    }

    fn free_bytes(&mut self) -> Result<u64, DriverError> {
        self.outside("free_bytes")?;
        Ok(1 << 30)
    }

    fn host_memory(&mut self, bytes: u64) -> Result<HostAddress, DriverError> {
        self.outside("host_memory")?;
        if self.seen.lock().unwrap().no_host_memory {
            let message = "none left".to_owned();
            return Err(DriverError::HostMemory { bytes, message });
        }
        let (at, mut block) = block(bytes, 0, self.hosts.len());
        // Zeros.
        block.words.iter_mut().for_each(Word::begin);
        self.hosts.insert(at, block);
        Ok(HostAddress(at))
    }

    fn fetch(&mut self, on: Stream, from: HostAddress, to: Address, bytes: u64) -> Done {
        self.put("fetch", on, Work::Fetch(from, to, bytes))
    }

    fn store(&mut self, on: Stream, from: Address, to: HostAddress, bytes: u64) -> Done {
        self.put("store", on, Work::Store(from, to, bytes))
    }

    fn read_host(&mut self, from: HostAddress, to: &mut [u8]) -> Done {
        self.outside("read_host")?;
        let used = self.by_host(from, to.len() as u64, false);
        used.map_err(|e| wrong("read_host", e))?;
        // SAFETY: the bytes lie in one block.
        to.copy_from_slice(unsafe { std::slice::from_raw_parts(from.0 as *const u8, to.len()) });
        Ok(())
    }

    fn write_host(&mut self, from: &[u8], to: HostAddress) -> Done {
        self.outside("write_host")?;
        let used = self.by_host(to, from.len() as u64, true);
        used.map_err(|e| wrong("write_host", e))?;
        // SAFETY: as above.
        let target = unsafe { std::slice::from_raw_parts_mut(to.0 as *mut u8, from.len()) };
        target.copy_from_slice(from);
        Ok(())
    }

    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverError> {
        self.outside("allocate")?;
        // Makes reads before writes visible.
        let (at, block) = block(bytes, 0xff, self.memory.len());
        self.memory.insert(at, block);
        Ok(Address(at))
    }

    fn release(&mut self, at: Address) -> Done {
        self.outside("release")?;
        let block = self.memory.remove(&at.0);
        let block = block.ok_or_else(|| wrong("release", "no such memory"))?;
        free(at.0, &block);
        Ok(())
    }

    fn load(
        &mut self,
        text: &str,
        entries: &[(&str, usize)],
    ) -> Result<Vec<Function>, DriverError> {
        self.outside("load")?;
        let host = Host::load(text, entries).map_err(DriverError::Code)?;
        let (module, first) = (self.modules.len(), self.functions.len() as u32);
        self.modules.push(host);
        self.functions
            .extend((0..entries.len()).map(|n| (module, n)));
        Ok((first..first + entries.len() as u32)
            .map(Function)
            .collect())
    }

    fn stream(&mut self, _urgent: bool) -> Result<Stream, DriverError> {
        self.outside("stream")?;
        self.clocks.stream().map_err(|e| wrong("stream", e))
    }

    fn event(&mut self, timed: bool) -> Result<Event, DriverError> {
        self.call("event")?;
        Ok(self.clocks.event(timed))
    }

    fn record(&mut self, event: Event, on: Stream) -> Done {
        self.put("record", on, Work::Record(event))
    }

    fn wait(&mut self, on: Stream, event: Event) -> Done {
        self.put("wait", on, Work::Wait(event))
    }

    fn launch(&mut self, on: Stream, launch: &Launch) -> Done {
        if launch.grid.contains(&0) || launch.block != 256 {
            return Err(wrong("launch", "an empty grid, or another block"));
        }
        let (function, grid) = (launch.function, launch.grid);
        let (arguments, touched) = (launch.arguments.to_vec(), launch.touched.to_vec());
        self.put(
            "launch",
            on,
            Work::Launch(function, grid, arguments, touched),
        )
    }

    fn ends(&mut self, _on: Stream, product: &Product) -> Result<bool, DriverError> {
        Ok(work::ends(product))
    }

    fn multiply(&mut self, on: Stream, product: &Product) -> Done {
        self.put("multiply", on, Work::Multiply(*product))
    }

    fn copy(&mut self, on: Stream, from: Address, to: Address, bytes: u64) -> Done {
        self.put("copy", on, Work::Copy(from, to, bytes))
    }

    fn clear(&mut self, on: Stream, at: Address, bytes: u64) -> Done {
        self.put("clear", on, Work::Clear(at, bytes))
    }

    fn upload(&mut self, on: Stream, from: &[u8], to: Address) -> Done {
        self.outside("upload")?;
        let touched = Touched {
            at: to,
            bytes: from.len() as u64,
            written: true,
        };
        self.clocks.work(on, "upload".to_owned());
        self.touch(on, touched).map_err(|e| wrong("upload", e))?;
        let bytes = self.bytes(to, from.len() as u64);
        bytes.map_err(|e| wrong("upload", e))?.copy_from_slice(from);
        Ok(())
    }

    fn download(&mut self, on: Stream, from: Address, to: &mut [u8]) -> Done {
        self.outside("download")?;
        let touched = Touched {
            at: from,
            bytes: to.len() as u64,
            written: false,
        };
        self.clocks.work(on, "download".to_owned());
        self.touch(on, touched).map_err(|e| wrong("download", e))?;
        self.clocks.synchronize(on);
        let bytes = self.bytes(from, to.len() as u64);
        to.copy_from_slice(bytes.map_err(|e| wrong("download", e))?);
        Ok(())
    }

    fn exchange(&mut self, on: Stream, sent: &[Message], received: &[Message]) -> Done {
        self.put(
            "exchange",
            on,
            Work::Exchange(sent.to_vec(), received.to_vec()),
        )
    }

    fn capture(&mut self, on: Stream) -> Done {
        self.outside("capture")?;
        let capture = Capture {
            streams: BTreeSet::from([on]),
            ..Capture::default()
        };
        self.capture = Some((on, capture));
        Ok(())
    }

    fn captured(&mut self, on: Stream) -> Result<Captured, DriverError> {
        self.call("captured")?;
        let (began, capture) =
            (self.capture.take()).ok_or_else(|| wrong("captured", "nothing is captured"))?;
        let order = capture.work.iter().map(|(stream, work)| match work {
            Work::Record(event) => Ordering::Record(*event, *stream),
            Work::Wait(event) => Ordering::Wait(*stream, *event),
            _ => Ordering::Work(*stream),
        });
        if began != on || !joined(on, order) {
            return Err(wrong("captured", "not all streams have joined the first"));
        }
        for event in &capture.events {
            self.clocks.forget(*event);
        }
        self.captured.push((on, capture));
        Ok(Captured(self.captured.len() as u32 - 1))
    }

    fn replay(&mut self, on: Stream, what: Captured) -> Done {
        self.outside("replay")?;
        self.seen.lock().unwrap().replays += 1;
        let (main, capture) = &self.captured[what.0 as usize];
        let (main, streams, work) = (*main, capture.streams.clone(), capture.work.clone());
        let events = capture.events.clone();
        self.clocks.follow(main, on);
        for stream in &streams {
            self.clocks.follow(*stream, main);
        }
        for (stream, work) in &work {
            self.perform(*stream, work)
                .map_err(|e| wrong("replay", e))?;
        }
        self.clocks.follow(on, main);
        events
            .into_iter()
            .for_each(|event| self.clocks.forget(event));
        Ok(())
    }

    fn synchronize(&mut self, on: Stream) -> Done {
        self.outside("synchronize")?;
        self.clocks.synchronize(on);
        Ok(())
    }

    fn seconds(&mut self, from: Event, to: Event) -> Result<f64, DriverError> {
        self.outside("seconds")?;
        self.clocks
            .seconds(from, to)
            .map_err(|e| wrong("seconds", e))
    }
}

/// Memory filled with a byte.
fn block(bytes: u64, byte: u8, number: usize) -> (u64, Block) {
    let bytes = (bytes as usize).max(1).next_multiple_of(4);
    let layout = Layout::from_size_align(bytes, ALIGNMENT).unwrap();
    // SAFETY: the size is not 0.
    let at = unsafe { alloc_zeroed(layout) };
    // SAFETY: the memory was just allocated.
    unsafe { at.write_bytes(byte, bytes) };
    let block = Block {
        bytes,
        words: vec![Word::default(); bytes / 4],
        number,
    };
    (at as u64, block)
}

fn free(at: u64, block: &Block) {
    let layout = Layout::from_size_align(block.bytes, ALIGNMENT).unwrap();
    // SAFETY: allocated with this layout, and not in use any more.
    unsafe { dealloc(at as *mut u8, layout) };
}

impl Drop for Fake {
    fn drop(&mut self) {
        let all = self.memory.iter().chain(&self.hosts);
        all.for_each(|(at, block)| free(*at, block));
    }
}
