//! Messages between processes by NCCL.
//!
//! The communicator does not block: every call that NCCL puts off is waited for with a limit, and
//! what went wrong at the other end is asked for while a stream is waited for. After an error the
//! communicator has failed, and whoever has it gives it up, which ends what is under way on the device; captured
//! work has to be destroyed before. In the end the communicator is finished, so that what is on its way arrives.
//!
//! NCCL refuses several processes on one GPU unless each says that it is on a machine of its own:
//! the environment variable `NCCL_HOSTID`, different for each process, does. They then talk over
//! sockets.

use super::calls::missing;
use super::rendezvous::{self, Fact, ID, Processes};
use super::{Live, LiveOptions};
use crate::device::gpu::driver::{DriverError, Message};
use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::{ncclComm_t, ncclUniqueId};
use gnnc_codegen::cuda::libraries::{Found, LibraryError, Part};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

const SUCCESS: c_int = 0;
/// What was put off and is not done yet.
const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
const BYTES: c_int = 1;
/// A setting that is left to NCCL.
const UNDEFINED: c_int = c_int::MIN;
/// How long the others are waited for in the end.
const CLOSING: Duration = Duration::from_secs(5);
/// Between two questions whether something is done.
const PAUSE: Duration = Duration::from_micros(50);

/// `ncclConfig_t` as of 2.18; later versions take it and set what it lacks to their defaults.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    least_ctas: c_int,
    most_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

/// The functions, with the types of `nccl.h`. Results are numbers: later versions have more of them.
#[derive(Clone, Copy)]
struct Functions {
    unique_id: unsafe extern "C" fn(*mut ncclUniqueId) -> c_int,
    init: unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut Config) -> c_int,
    async_error: unsafe extern "C" fn(ncclComm_t, *mut c_int) -> c_int,
    abort: unsafe extern "C" fn(ncclComm_t) -> c_int,
    finalize: unsafe extern "C" fn(ncclComm_t) -> c_int,
    destroy: unsafe extern "C" fn(ncclComm_t) -> c_int,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(ncclComm_t) -> *const c_char,
}

impl Functions {
    fn of(nccl: &Found) -> Result<Self, LibraryError> {
        Ok(Self {
            unique_id: nccl.symbol(c"ncclGetUniqueId")?,
            init: nccl.symbol(c"ncclCommInitRankConfig")?,
            async_error: nccl.symbol(c"ncclCommGetAsyncError")?,
            abort: nccl.symbol(c"ncclCommAbort")?,
            finalize: nccl.symbol(c"ncclCommFinalize")?,
            destroy: nccl.symbol(c"ncclCommDestroy")?,
            group_start: nccl.symbol(c"ncclGroupStart")?,
            group_end: nccl.symbol(c"ncclGroupEnd")?,
            send: nccl.symbol(c"ncclSend")?,
            receive: nccl.symbol(c"ncclRecv")?,
            error_string: nccl.symbol(c"ncclGetErrorString")?,
            last_error: nccl.symbol(c"ncclGetLastError")?,
        })
    }
}

/// This process's end of the connections to all others.
pub struct Communicator {
    functions: Functions,
    /// Null after it was given up.
    communicator: ncclComm_t,
    patience: Duration,
    failed: bool,
}

impl Live {
    /// Connects this process with those that it trains with, if there are any and they agree on `facts`.
    ///
    /// # Errors
    /// [`DriverError::Missing`] without NCCL; processes that do not come or differ.
    pub fn connect(&mut self, options: &LiveOptions, facts: &[Fact]) -> Result<(), DriverError> {
        if let Some(processes) = &options.processes {
            self.context.enter()?;
            let connected = Communicator::connect(processes, facts, &options.folders)?;
            self.communicator = Some(connected);
        }
        Ok(())
    }
}

impl Communicator {
    /// Connects the processes, if they agree on `facts`. The context of the GPU is the current one.
    ///
    /// # Errors
    /// No library; processes that do not come or differ; what NCCL refuses.
    pub fn connect(
        processes: &Processes,
        facts: &[Fact],
        folders: &[PathBuf],
    ) -> Result<Self, DriverError> {
        let nccl = Part::Nccl.load(folders).map_err(missing)?;
        let mut made = Self {
            functions: Functions::of(&nccl).map_err(missing)?,
            communicator: ptr::null_mut(),
            patience: processes.patience,
            failed: false,
        };
        if processes.rank == 0 {
            let id = made.unique_id()?;
            // The file is there until all are connected.
            let _invited = rendezvous::lead(processes, &id, facts)?;
            made.init(processes, id)?;
        } else {
            let id = rendezvous::follow(processes, facts)?;
            made.init(processes, id)?;
        }
        Ok(made)
    }

    fn unique_id(&self) -> Result<[u8; ID], DriverError> {
        let mut id = ncclUniqueId { internal: [0; ID] };
        // SAFETY: the function writes the identifier.
        let status = unsafe { (self.functions.unique_id)(&mut id) };
        self.check("ncclGetUniqueId", status)?;
        Ok(id.internal.map(|c| c as u8))
    }

    fn init(&mut self, processes: &Processes, id: [u8; ID]) -> Result<(), DriverError> {
        let id = ncclUniqueId {
            internal: id.map(|byte| byte as c_char),
        };
        let mut config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21_800,
            blocking: 0,
            cga_cluster_size: UNDEFINED,
            least_ctas: UNDEFINED,
            most_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
        };
        let (rank, ranks) = (processes.rank as c_int, processes.ranks as c_int);
        // SAFETY: the structure is one that NCCL knows, and it writes the communicator.
        let status =
            unsafe { (self.functions.init)(&mut self.communicator, ranks, id, rank, &mut config) };
        self.done("ncclCommInitRankConfig", status)
            .map_err(|error| {
                let DriverError::Call { call, message } = error else {
                    return error;
                };
                let hint = "several processes on one GPU need a different NCCL_HOSTID each; \
                        NCCL_DEBUG=INFO says more";
                DriverError::Call {
                    call,
                    message: format!("{message}; {hint}"),
                }
            })
    }

    /// Puts messages on a stream, all at once.
    ///
    /// # Errors
    /// Whatever NCCL refuses; an error of an earlier exchange; the communicator has then failed.
    pub fn exchange(
        &mut self,
        stream: CUstream,
        sent: &[Message],
        received: &[Message],
    ) -> Result<(), DriverError> {
        self.look()?;
        let functions = self.functions;
        let communicator = self.communicator;
        // SAFETY: a group may hold any number of calls.
        let begun = unsafe { (functions.group_start)() };
        self.check("ncclGroupStart", begun)?;
        let mut first = Ok(());
        for (messages, send) in [(sent, true), (received, false)] {
            for message in messages.iter().filter(|message| message.bytes > 0) {
                let (at, bytes) = (message.at.0 as *mut c_void, message.bytes as usize);
                let peer = message.peer as c_int;
                // SAFETY: the caller says that the bytes are there.
                let (call, status) = unsafe {
                    match send {
                        true => (
                            "ncclSend",
                            (functions.send)(at, bytes, BYTES, peer, communicator, stream),
                        ),
                        false => (
                            "ncclRecv",
                            (functions.receive)(at, bytes, BYTES, peer, communicator, stream),
                        ),
                    }
                };
                if status != IN_PROGRESS {
                    first = first.and_then(|()| self.check(call, status));
                }
            }
        }
        // A group that was begun has to be ended, whatever was in it.
        // SAFETY: it was begun above.
        let ended = unsafe { (functions.group_end)() };
        let done = first.and_then(|()| self.done("ncclGroupEnd", ended));
        done.inspect_err(|_| self.fail())
    }

    /// Asks for errors of what is under way.
    ///
    /// # Errors
    /// One that NCCL found, such as a process that is gone; the communicator has then failed.
    pub fn look(&mut self) -> Result<(), DriverError> {
        self.alive()?;
        let status = self.state();
        if status == IN_PROGRESS {
            return Ok(());
        }
        self.check("an exchange with another process", status)
            .inspect_err(|_| self.fail())
    }

    /// How long other processes are waited for.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Notes that it is to be given up.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Whether it is to be given up.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Lets what is on its way to other processes arrive, and ends the connection; gives it up if it has failed or
    /// that takes too long. No captured work is left.
    pub fn close(&mut self) {
        if self.communicator.is_null() {
            return;
        }
        let patience = std::mem::replace(&mut self.patience, CLOSING);
        let finished = !self.failed && {
            // SAFETY: made by `init`.
            let status = unsafe { (self.functions.finalize)(self.communicator) };
            self.done("ncclCommFinalize", status).is_ok()
        };
        self.patience = patience;
        match finished {
            true => {
                // SAFETY: finished above, destroyed once. Nobody is left to be told if it fails.
                unsafe { (self.functions.destroy)(self.communicator) };
                self.communicator = ptr::null_mut();
            }
            false => self.abort(),
        }
    }

    /// Gives the communicator up, which ends what is under way. No captured work is left.
    pub fn abort(&mut self) {
        if !self.communicator.is_null() {
            // SAFETY: made by `init`, given up once. Nobody is left to be told if it fails.
            unsafe { (self.functions.abort)(self.communicator) };
            self.communicator = ptr::null_mut();
        }
    }

    fn alive(&self) -> Result<(), DriverError> {
        match self.communicator.is_null() {
            false => Ok(()),
            true => Err(DriverError::Call {
                call: "an exchange with another process",
                message: "the connection was closed after an error; start the processes again"
                    .to_owned(),
            }),
        }
    }

    /// Waits until a call that was put off is done.
    fn done(&mut self, call: &'static str, mut status: c_int) -> Result<(), DriverError> {
        let begin = Instant::now();
        while status == IN_PROGRESS {
            if begin.elapsed() > self.patience {
                self.fail();
                return Err(DriverError::Call {
                    call,
                    message: format!(
                        "not done after {} s; check that all ranks run",
                        self.patience.as_secs()
                    ),
                });
            }
            std::thread::sleep(PAUSE);
            status = self.state();
        }
        self.check(call, status)
    }

    fn state(&self) -> c_int {
        let mut state = SUCCESS;
        // SAFETY: the communicator was made by `init`.
        let status = unsafe { (self.functions.async_error)(self.communicator, &mut state) };
        if status == SUCCESS { state } else { status }
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), DriverError> {
        if status == SUCCESS {
            return Ok(());
        }
        let text = |words: *const c_char| match words.is_null() {
            true => String::new(),
            // SAFETY: both functions below return strings that stay.
            false => unsafe { CStr::from_ptr(words) }
                .to_string_lossy()
                .into_owned(),
        };
        // SAFETY: a null communicator is allowed.
        let [what, last] = unsafe {
            [
                text((self.functions.error_string)(status)),
                text((self.functions.last_error)(self.communicator)),
            ]
        };
        let message = format!("{what} {}", last.trim());
        Err(DriverError::Call {
            call,
            message: message.trim().to_owned(),
        })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Only one that was never used, or is closed already.
        self.abort();
    }
}
