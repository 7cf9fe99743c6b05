//! Single kernels outside of any program, for measurements and for comparing a GPU with the
//! interpreter.

use super::driver::{Address, Driver, DriverError, Event, Function, Launch, Stream, Touched};
use gnnc_codegen::cuda::{Hubs, Parameter, Size, Source, by_degree, generate, module};
use gnnc_codegen::verify::SpecError;
use gnnc_ir::kernel::Kernel;
use gnnc_ir::kernel::Walk;

/// Kernels per translation unit: compilation time grows faster than the text.
const KERNELS: usize = 64;

/// Why a kernel did not run.
#[derive(Debug, thiserror::Error)]
pub enum SingleError {
    /// The specification is invalid.
    #[error("invalid kernel: {0}")]
    Invalid(#[from] SpecError),
    /// The GPU call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no kernel with this index, or it has other operands.
    #[error("found {found}, expected {expected}")]
    Arrays {
        /// What was passed in.
        found: String,
        /// What the kernel takes.
        expected: String,
    },
}

/// Kernels loaded on a device.
#[derive(Debug)]
pub struct Loaded {
    kernels: Vec<Ready>,
}

#[derive(Debug)]
struct Ready {
    source: Source,
    walk: Walk,
    /// Entry points with their names.
    functions: Vec<(String, Function)>,
}

/// The arrays a kernel runs on; see [`gnnc_codegen::args::KernelArgs`].
#[derive(Clone, Debug, Default)]
pub struct Arrays<'a> {
    /// First edge of each row.
    pub indptr: &'a [u64],
    /// The vertex at the other end of each edge.
    pub indices: &'a [u32],
    /// Positions of edges in the other order.
    pub positions: &'a [u32],
    /// Global id of each row.
    pub ids: &'a [u32],
    /// The row list.
    pub list: &'a [u32],
    /// The inputs.
    pub inputs: Vec<&'a [f32]>,
    /// Initial contents of the outputs; results have the same lengths.
    pub outputs: Vec<&'a [f32]>,
    /// The run-time scalars.
    pub scalars: &'a [f32],
    /// The key of each mask.
    pub keys: &'a [u64],
    /// Number of rows the kernel runs over, starting at 0.
    pub rows: u64,
    /// Most edges of a row that is not a hub.
    pub hub_edges: u64,
}

/// A kernel with its arrays on a device.
#[derive(Debug)]
pub struct Single {
    stream: Stream,
    timed: [Event; 2],
    arguments: Vec<u64>,
    launches: Vec<(Function, [u32; 2], u32)>,
    touched: Vec<Touched>,
    outputs: Vec<(Address, usize)>,
    memory: Vec<Address>,
}

impl Loaded {
    /// Compiles kernels and loads them, a batch at a time.
    ///
    /// # Errors
    /// An invalid specification, or an error of the device.
    pub fn new(driver: &mut dyn Driver, kernels: &[Kernel]) -> Result<Self, SingleError> {
        let mut loaded = Vec::new();
        for some in kernels.chunks(KERNELS) {
            let number = |n: usize| loaded.len() + n;
            let source = |(n, kernel)| generate(kernel, &format!("k{}", number(n)));
            let sources = some.iter().enumerate().map(source);
            let sources = sources.collect::<Result<Vec<Source>, SpecError>>()?;
            let entry = |source: &Source| {
                let arguments = source.parameters.len();
                let entries = source.schedule.entries().map(str::to_owned);
                entries
                    .map(|name| (name, arguments))
                    .collect::<Vec<(String, usize)>>()
            };
            let entries: Vec<(String, usize)> = sources.iter().flat_map(entry).collect();
            let names: Vec<(&str, usize)> = entries
                .iter()
                .map(|(name, n)| (name.as_str(), *n))
                .collect();
            let functions = driver.load(&module(&sources), &names)?;
            let mut functions = entries.into_iter().map(|(name, _)| name).zip(functions);
            for (source, kernel) in sources.into_iter().zip(some) {
                let count = source.schedule.entries().count();
                loaded.push(Ready {
                    functions: functions.by_ref().take(count).collect(),
                    walk: Walk::of(&kernel.body),
                    source,
                });
            }
        }
        Ok(Self { kernels: loaded })
    }

    /// Copies the arrays of one kernel to the device.
    ///
    /// # Errors
    /// Arrays that do not fit, or an error of the device.
    pub fn single(
        &self,
        driver: &mut dyn Driver,
        number: usize,
        arrays: &Arrays,
    ) -> Result<Single, SingleError> {
        let wrong = |found: String, expected: String| SingleError::Arrays { found, expected };
        let ready = self.kernels.get(number).ok_or_else(|| {
            let found = format!("kernel {number}");
            wrong(found, format!("less than {}", self.kernels.len()))
        })?;
        let (stream, timed) = (
            driver.stream(false)?,
            [driver.event(true)?, driver.event(true)?],
        );
        let mut single = Single {
            stream,
            timed,
            arguments: Vec::new(),
            launches: Vec::new(),
            touched: Vec::new(),
            outputs: Vec::new(),
            memory: Vec::new(),
        };
        match single.fill(driver, ready, arrays) {
            Ok(()) => Ok(single),
            Err(error) => {
                // Report the first error, not this one.
                let _ = single.release(driver);
                Err(error)
            }
        }
    }
}

impl Single {
    fn fill(
        &mut self,
        driver: &mut dyn Driver,
        ready: &Ready,
        arrays: &Arrays,
    ) -> Result<(), SingleError> {
        let source = &ready.source;
        let hubs = Hubs::of(arrays.indptr, 0..arrays.rows as usize, arrays.hub_edges);
        let edges = arrays.indptr.get(arrays.rows as usize).copied();
        let size = Size {
            rows: arrays.rows,
            edges: match ready.walk {
                Walk::Rows => 0,
                _ => edges.unwrap_or(0),
            },
            chunks: hubs.chunk_rows.len() as u64,
            hubs: hubs.rows.len() as u64,
        };
        let outputs = arrays.outputs.iter().map(|floats| floats.len());
        let outputs: Vec<usize> = outputs.collect();
        let scratch = source.schedule.scratch_floats(&size) * 4;
        for parameter in &source.parameters {
            let value = match *parameter {
                Parameter::Indptr => self.read(driver, &bytes_of(arrays.indptr))?,
                Parameter::Indices => self.read(driver, &bytes_of(arrays.indices))?,
                Parameter::Positions => self.read(driver, &bytes_of(arrays.positions))?,
                Parameter::Ids => self.read(driver, &bytes_of(arrays.ids))?,
                Parameter::List => self.read(driver, &bytes_of(arrays.list))?,
                Parameter::Scalars => self.read(driver, &bytes_of(arrays.scalars))?,
                Parameter::Keys => self.read(driver, &bytes_of(arrays.keys))?,
                Parameter::Begin => 0,
                Parameter::End => size.rows,
                Parameter::Input(n) => {
                    let input = operand(&arrays.inputs, n, "inputs")?;
                    self.read(driver, &bytes_of(input))?
                }
                Parameter::Output(n) => {
                    let output = bytes_of(operand(&arrays.outputs, n, "outputs")?);
                    let at = self.memory(driver, output.len() as u64, true)?;
                    driver.upload(self.stream, &output, at)?;
                    self.outputs.push((at, outputs[usize::from(n)]));
                    at.0
                }
                Parameter::HubEdges => arrays.hub_edges,
                Parameter::Order => self.order(driver, source, arrays)?,
                Parameter::HubRows => self.read(driver, &bytes_of(&hubs.rows))?,
                Parameter::HubCount => size.hubs,
                Parameter::FirstChunks => self.read(driver, &bytes_of(&hubs.first_chunks))?,
                Parameter::ChunkRows => self.read(driver, &bytes_of(&hubs.chunk_rows))?,
                Parameter::ChunkEdges => self.read(driver, &bytes_of(&hubs.chunk_edges))?,
                Parameter::ChunkCount => size.chunks,
                Parameter::Scratch => self.memory(driver, scratch, true)?.0,
                Parameter::PartialItems => source.schedule.partial_items(&size),
                Parameter::PartialCount => source.schedule.partials(&size),
            };
            self.arguments.push(value);
        }
        for launch in source.schedule.launches(&size) {
            let named = ready
                .functions
                .iter()
                .find(|(name, _)| *name == launch.entry);
            if let Some((_, function)) = named {
                self.launches.push((*function, launch.grid, launch.block));
            }
        }
        Ok(())
    }

    /// The order of rows, or null.
    fn order(
        &mut self,
        driver: &mut dyn Driver,
        source: &Source,
        arrays: &Arrays,
    ) -> Result<u64, SingleError> {
        if !source.schedule.ordered() {
            return Ok(0);
        }
        let order = by_degree(arrays.indptr, 0..arrays.rows as usize, arrays.hub_edges);
        match order.is_empty() {
            true => Ok(0),
            false => self.read(driver, &bytes_of(&order)),
        }
    }

    /// Memory with these bytes, for kernels to read. An empty array also gets an address.
    fn read(&mut self, driver: &mut dyn Driver, bytes: &[u8]) -> Result<u64, SingleError> {
        let at = self.memory(driver, bytes.len() as u64, false)?;
        driver.upload(self.stream, bytes, at)?;
        Ok(at.0)
    }

    fn memory(
        &mut self,
        driver: &mut dyn Driver,
        bytes: u64,
        written: bool,
    ) -> Result<Address, SingleError> {
        let at = driver.allocate(bytes.max(1))?;
        self.memory.push(at);
        if bytes > 0 {
            self.touched.push(Touched { at, bytes, written });
        }
        Ok(at)
    }

    /// Enqueues the kernel on its stream.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn enqueue(&self, driver: &mut dyn Driver) -> Result<(), DriverError> {
        for &(function, grid, block) in &self.launches {
            let launch = Launch {
                function,
                grid,
                block,
                arguments: &self.arguments,
                touched: &self.touched,
            };
            driver.launch(self.stream, &launch)?;
        }
        Ok(())
    }

    /// Runs the kernel `times` times in a row, and returns the seconds of one run.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn seconds(&self, driver: &mut dyn Driver, times: u32) -> Result<f64, DriverError> {
        let [begin, end] = self.timed;
        driver.record(begin, self.stream)?;
        for _ in 0..times {
            self.enqueue(driver)?;
        }
        driver.record(end, self.stream)?;
        driver.synchronize(self.stream)?;
        Ok(driver.seconds(begin, end)? / f64::from(times.max(1)))
    }

    /// The outputs.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn outputs(&self, driver: &mut dyn Driver) -> Result<Vec<Vec<f32>>, DriverError> {
        let mut outputs = Vec::new();
        for &(at, floats) in &self.outputs {
            let mut bytes = vec![0; floats * 4];
            driver.download(self.stream, at, &mut bytes)?;
            let (quads, _) = bytes.as_chunks::<4>();
            outputs.push(quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect());
        }
        Ok(outputs)
    }

    /// Frees the memory.
    ///
    /// # Errors
    /// Any error of the device.
    pub fn release(self, driver: &mut dyn Driver) -> Result<(), DriverError> {
        driver.synchronize(self.stream)?;
        self.memory.iter().try_for_each(|at| driver.release(*at))
    }
}

fn operand<'a>(operands: &[&'a [f32]], n: u16, what: &str) -> Result<&'a [f32], SingleError> {
    let found = operands.get(usize::from(n)).copied();
    found.ok_or_else(|| SingleError::Arrays {
        found: format!("{} {what}", operands.len()),
        expected: format!("more than {n}"),
    })
}

/// A number in the GPU's representation.
trait Number: Copy {
    fn put(self, bytes: &mut Vec<u8>);
}

impl Number for f32 {
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Number for u32 {
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Number for u64 {
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

fn bytes_of<T: Number>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|number| number.put(&mut bytes));
    bytes
}
