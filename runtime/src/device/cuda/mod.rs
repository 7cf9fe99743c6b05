//! An NVIDIA GPU, through the driver API, cuBLAS and NCCL.
//!
//! Everything lives in the primary context of one device; calls may come from any one thread. Every
//! answer of a library is checked; failures become a [`DriverError`] with the function's name and
//! the library's words. Dropping the driver releases everything it created.

mod calls;
mod epilogue;
mod gpus;
mod guards;
mod nccl;
mod pinned;
mod products;
mod rendezvous;
mod staging;

pub use gpus::{Gpu, gpu, gpus};
pub use rendezvous::Processes;

use super::gpu::driver::{
    Address, Captured, Driver, DriverError, Event, Function, HostAddress, Launch, Message, Product,
    Stream,
};
use calls::{check, compiling, missing, unknown};
use cudarc::driver::result::{self, event, graph, module, stream};
use cudarc::driver::sys::{
    self, CUevent, CUevent_flags, CUevent_wait_flags, CUfunction, CUgraphExec,
    CUgraphInstantiate_flags, CUmodule, CUresult, CUstream, CUstreamCaptureMode,
};
use gnnc_codegen::cuda::cubin::Cubins;
use gnnc_codegen::cuda::libraries::Part;
use gnnc_codegen::cuda::nvrtc::Nvrtc;
use gnnc_files::Cache;
use gpus::Context;
use guards::finish;
use nccl::Communicator;
use pinned::Pinned;
use products::Products;
use staging::Staging;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::path::PathBuf;

/// Which GPU to open, and where its libraries are.
#[derive(Clone, Debug, Default)]
pub struct LiveOptions {
    /// The GPU's index.
    pub gpu: u32,
    /// Folders to search for libraries before those of the system; see
    /// [`gnnc_codegen::cuda::libraries::folders`].
    pub folders: Vec<PathBuf>,
    /// Cache of machine code, if any.
    pub cache: Option<Cache>,
    /// The processes to train with, if any.
    pub processes: Option<Processes>,
}

/// A stream and its product library.
#[derive(Debug)]
struct Queue {
    stream: CUstream,
    products: Option<Products>,
}

/// An event, and the capture in which it was last recorded.
#[derive(Debug)]
struct Mark {
    event: CUevent,
    capture: Option<u32>,
}

#[derive(Debug)]
struct Entry {
    function: CUfunction,
    arguments: usize,
}

/// A GPU. Fields are dropped in order: the context last.
pub struct Live {
    communicator: Option<Communicator>,
    queues: Vec<Queue>,
    marks: Vec<Mark>,
    modules: Vec<CUmodule>,
    entries: Vec<Entry>,
    graphs: Vec<CUgraphExec>,
    /// Number of the current capture; earlier ones have smaller numbers.
    capturing: Option<u32>,
    /// The stream on which it began.
    captured_on: CUstream,
    captures: u32,
    /// Bytes of each allocation, by address.
    memory: BTreeMap<u64, u64>,
    pinned: Pinned,
    staging: Staging,
    cubins: Cubins,
    context: Context,
}

// SAFETY: the pointers are handles of the driver, which any thread may use while the context is its
// current one; every call first makes it so. Two threads never use a handle at once, because calls
// borrow the driver mutably.
unsafe impl Send for Live {}

impl Live {
    /// Opens a GPU and loads the libraries needed to use it.
    ///
    /// # Errors
    /// [`DriverError::Missing`] if a library or the GPU is missing.
    pub fn open(options: &LiveOptions) -> Result<Self, DriverError> {
        let context = Context::new(options.gpu, &options.folders)?;
        let nvrtc = Nvrtc::load(&options.folders).map_err(compiling)?;
        for part in [Part::Cublas, Part::CublasLt] {
            part.load(&options.folders).map_err(missing)?;
        }
        Ok(Self {
            communicator: None,
            queues: Vec::new(),
            marks: Vec::new(),
            modules: Vec::new(),
            entries: Vec::new(),
            graphs: Vec::new(),
            capturing: None,
            captured_on: std::ptr::null_mut(),
            captures: 0,
            memory: BTreeMap::new(),
            pinned: Pinned::default(),
            staging: Staging::default(),
            cubins: Cubins::new(nvrtc, options.cache.clone()),
            context,
        })
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.context.gpu
    }

    /// Bytes currently allocated.
    pub fn allocated_bytes(&self) -> u64 {
        self.memory.values().sum()
    }

    /// Number of translation units that were compiled, and of those found on disk.
    pub fn compiled(&self) -> [u64; 2] {
        [self.cubins.compiled(), self.cubins.found()]
    }

    fn queue(&self, on: Stream) -> Result<CUstream, DriverError> {
        let queue = self.queues.get(on.0 as usize);
        let queue = queue.ok_or_else(|| unknown("a call on a stream", "stream", on.0))?;
        self.context.enter()?;
        Ok(queue.stream)
    }

    fn mark(&self, event: Event) -> Result<&Mark, DriverError> {
        let mark = self.marks.get(event.0 as usize);
        mark.ok_or_else(|| unknown("a call with an event", "event", event.0))
    }

    /// Refuses calls that are forbidden during a capture.
    fn not_capturing(&self, call: &'static str) -> Result<(), DriverError> {
        match self.capturing {
            None => Ok(()),
            Some(_) => Err(DriverError::Call {
                call,
                message: "work is being captured: a bug, please report it".to_owned(),
            }),
        }
    }
}

impl Driver for Live {
    fn name(&self) -> String {
        format!("{}, {}", self.context.gpu.name, self.context.gpu.arch)
    }

    fn free_bytes(&mut self) -> Result<u64, DriverError> {
        self.context.enter()?;
        let (free, _) = check("cuMemGetInfo", result::mem_get_info())?;
        Ok(free as u64)
    }

    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverError> {
        self.context.enter()?;
        // SAFETY: this only allocates memory. The driver aligns to at least 256 bytes, and refuses
        // to allocate 0 bytes.
        match unsafe { result::malloc_sync(bytes.max(1) as usize) } {
            Ok(address) => {
                self.memory.insert(address, bytes);
                Ok(Address(address))
            }
            Err(error) if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = self.free_bytes()?;
                Err(DriverError::Memory { bytes, free })
            }
            Err(error) => check("cuMemAlloc", Err(error)),
        }
    }

    fn release(&mut self, at: Address) -> Result<(), DriverError> {
        self.context.enter()?;
        if self.memory.remove(&at.0).is_none() {
            return Err(DriverError::Call {
                call: "cuMemFree",
                message: format!("nothing was allocated at {at}: a bug, please report it"),
            });
        }
        // SAFETY: allocated above, freed once, and unused according to the caller.
        check("cuMemFree", unsafe { result::free_sync(at.0) })
    }

    fn load(
        &mut self,
        text: &str,
        entries: &[(&str, usize)],
    ) -> Result<Vec<Function>, DriverError> {
        self.context.enter()?;
        let arch = self.context.gpu.arch.clone();
        let cubin = self.cubins.machine_code(text, &arch).map_err(compiling)?;
        // SAFETY: the bytes are machine code from NVRTC; the driver copies them.
        let loaded = unsafe { module::load_data(cubin.as_ptr().cast()) };
        let loaded = check("cuModuleLoadData", loaded)?;
        self.modules.push(loaded);
        let mut found = Vec::new();
        for (name, arguments) in entries {
            let name = CString::new(*name).map_err(|_| {
                DriverError::Code(format!("the entry point {name:?} holds a zero byte"))
            })?;
            // SAFETY: the module is loaded. Load the code onto the device now, since its first
            // launch may happen during a capture.
            let function = unsafe {
                let function = check("cuModuleGetFunction", module::get_function(loaded, name))?;
                check("cuFuncLoad", sys::cuFuncLoad(function).result())?;
                function
            };
            found.push(Function(self.entries.len() as u32));
            self.entries.push(Entry {
                function,
                arguments: *arguments,
            });
        }
        Ok(found)
    }

    fn stream(&mut self, urgent: bool) -> Result<Stream, DriverError> {
        self.context.enter()?;
        let range = stream::get_priority_range();
        let (least, greatest) = check("cuCtxGetStreamPriorityRange", range)?;
        let queue = check(
            "cuStreamCreateWithPriority",
            stream::create_with_priority(
                stream::StreamKind::NonBlocking,
                if urgent { greatest } else { least },
            ),
        )?;
        self.queues.push(Queue {
            stream: queue,
            products: None,
        });
        Ok(Stream(self.queues.len() as u32 - 1))
    }

    fn event(&mut self, timed: bool) -> Result<Event, DriverError> {
        self.context.enter()?;
        let flags = match timed {
            true => CUevent_flags::CU_EVENT_DEFAULT,
            false => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        self.marks.push(Mark {
            event: check("cuEventCreate", event::create(flags))?,
            capture: None,
        });
        Ok(Event(self.marks.len() as u32 - 1))
    }

    fn record(&mut self, event: Event, on: Stream) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        let mark = self.mark(event)?;
        // SAFETY: event and stream exist.
        check("cuEventRecord", unsafe { event::record(mark.event, queue) })?;
        self.marks[event.0 as usize].capture = self.capturing;
        Ok(())
    }

    fn wait(&mut self, on: Stream, event: Event) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        let mark = self.mark(event)?;
        // Anything recorded before the capture was done when it began, see `capture`; the driver
        // refuses to wait for it.
        if self.capturing.is_some() && mark.capture != self.capturing {
            return Ok(());
        }
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and stream exist.
        let answer = unsafe { stream::wait_event(queue, mark.event, flags) };
        check("cuStreamWaitEvent", answer)
    }

    fn launch(&mut self, on: Stream, launch: &Launch) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        let entry = self.entries.get(launch.function.0 as usize);
        let entry =
            entry.ok_or_else(|| unknown("cuLaunchKernel", "function", launch.function.0))?;
        if entry.arguments != launch.arguments.len() {
            return Err(DriverError::Code(format!(
                "found {} arguments of a launch, expected {}: a bug, please report it",
                launch.arguments.len(),
                entry.arguments
            )));
        }
        let [across, down] = launch.grid;
        if across == 0 || down == 0 {
            return Ok(());
        }
        let pointer = |argument: &u64| std::ptr::from_ref(argument).cast_mut().cast::<c_void>();
        let mut pointers: Vec<*mut c_void> = launch.arguments.iter().map(pointer).collect();
        // SAFETY: there are as many arguments as the entry point has, each of 8 bytes, and they are
        // read before this returns; the caller vouches for their meaning.
        let answer = unsafe {
            result::launch_kernel(
                entry.function,
                (across, down, 1),
                (launch.block, 1, 1),
                0,
                queue,
                &mut pointers,
            )
        };
        check("cuLaunchKernel", answer)
    }

    fn ends(&mut self, on: Stream, product: &Product) -> Result<bool, DriverError> {
        let stream = self.queue(on)?;
        Products::of(&mut self.queues[on.0 as usize].products, stream)?.ends(product)
    }

    fn multiply(&mut self, on: Stream, product: &Product) -> Result<(), DriverError> {
        let stream = self.queue(on)?;
        Products::of(&mut self.queues[on.0 as usize].products, stream)?.multiply(stream, product)
    }

    fn copy(
        &mut self,
        on: Stream,
        from: Address,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for the bytes.
        let answer = unsafe { result::memcpy_dtod_async(to.0, from.0, bytes as usize, queue) };
        check("cuMemcpyDtoDAsync", answer)
    }

    fn clear(&mut self, on: Stream, at: Address, bytes: u64) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for the bytes.
        let answer = unsafe { result::memset_d8_async(at.0, 0, bytes as usize, queue) };
        check("cuMemsetD8Async", answer)
    }

    fn upload(&mut self, on: Stream, from: &[u8], to: Address) -> Result<(), DriverError> {
        self.not_capturing("an upload")?;
        let queue = self.queue(on)?;
        self.staging.upload(queue, from, to)
    }

    fn download(&mut self, on: Stream, from: Address, to: &mut [u8]) -> Result<(), DriverError> {
        self.not_capturing("a download")?;
        let queue = self.queue(on)?;
        let communicator = &mut self.communicator;
        let wait = || finish(communicator, queue);
        let answer = self.staging.download(queue, from, to, wait);
        self.told(answer)
    }

    fn host_memory(&mut self, bytes: u64) -> Result<HostAddress, DriverError> {
        self.context.enter()?;
        self.pinned.allocate(bytes)
    }

    fn fetch(
        &mut self,
        on: Stream,
        from: HostAddress,
        to: Address,
        bytes: u64,
    ) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        self.pinned.fetch(queue, from, to, bytes)
    }

    fn store(
        &mut self,
        on: Stream,
        from: Address,
        to: HostAddress,
        bytes: u64,
    ) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        self.pinned.store(queue, from, to, bytes)
    }

    fn read_host(&mut self, from: HostAddress, to: &mut [u8]) -> Result<(), DriverError> {
        self.pinned.read(from, to)
    }

    fn write_host(&mut self, from: &[u8], to: HostAddress) -> Result<(), DriverError> {
        self.pinned.write(from, to)
    }

    fn exchange(
        &mut self,
        on: Stream,
        sent: &[Message],
        received: &[Message],
    ) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        match &mut self.communicator {
            Some(communicator) => {
                let answer = communicator.exchange(queue, sent, received);
                self.told(answer)
            }
            None => Err(DriverError::Call {
                call: "an exchange with another process",
                message: "there is no other process: a bug, please report it".to_owned(),
            }),
        }
    }

    fn capture(&mut self, on: Stream) -> Result<(), DriverError> {
        self.not_capturing("cuStreamBeginCapture")?;
        for number in 0..self.queues.len() as u32 {
            self.synchronize(Stream(number))?;
        }
        let queue = self.queue(on)?;
        // Relaxed, because the first product of a stream allocates.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream exists.
        let answer = unsafe { stream::begin_capture(queue, mode) };
        check("cuStreamBeginCapture", answer)?;
        self.captures += 1;
        self.capturing = Some(self.captures);
        self.captured_on = queue;
        Ok(())
    }

    fn captured(&mut self, on: Stream) -> Result<Captured, DriverError> {
        let queue = self.queue(on)?;
        // Whatever the answer, the capture is over.
        self.capturing = None;
        // SAFETY: the stream exists. The graph is not needed after instantiation.
        let launchable = unsafe {
            let captured = check("cuStreamEndCapture", stream::end_capture(queue))?;
            let flags = CUgraphInstantiate_flags(0);
            let launchable = check("cuGraphInstantiate", graph::instantiate(captured, flags));
            check("cuGraphDestroy", graph::destroy(captured))?;
            launchable?
        };
        self.graphs.push(launchable);
        Ok(Captured(self.graphs.len() as u32 - 1))
    }

    fn replay(&mut self, on: Stream, what: Captured) -> Result<(), DriverError> {
        let queue = self.queue(on)?;
        let graph = self.graphs.get(what.0 as usize);
        let graph = graph.ok_or_else(|| unknown("cuGraphLaunch", "captured work", what.0))?;
        // SAFETY: graph and stream exist.
        check("cuGraphLaunch", unsafe { graph::launch(*graph, queue) })
    }

    fn synchronize(&mut self, on: Stream) -> Result<(), DriverError> {
        self.not_capturing("cuStreamSynchronize")?;
        let queue = self.queue(on)?;
        let answer = finish(&mut self.communicator, queue);
        self.told(answer)
    }

    fn seconds(&mut self, from: Event, to: Event) -> Result<f64, DriverError> {
        self.context.enter()?;
        let (from, to) = (self.mark(from)?.event, self.mark(to)?.event);
        // SAFETY: both events exist.
        let milliseconds = check("cuEventElapsedTime", unsafe { event::elapsed(from, to) })?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}
