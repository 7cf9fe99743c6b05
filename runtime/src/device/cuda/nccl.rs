//! Messages between processes, by NCCL.
//!
//! The communicator is nonblocking: calls that NCCL defers are polled up to a time limit, and while
//! waiting for a stream the communicator is polled for errors at the other end. After an error the
//! communicator has failed; its owner aborts it, which ends its work on the device. Captured work
//! must be destroyed first. At the end the communicator is finalized, so that messages in flight
//! still arrive.
//!
//! NCCL refuses several processes on one GPU unless each claims a machine of its own, by a
//! different value of the environment variable `NCCL_HOSTID`. They then talk over sockets.

use super::calls::missing;
use super::rendezvous::{self, ID, Processes};
use super::{Live, LiveOptions};
use crate::device::gpu::driver::{DriverError, Message};
use crate::facts::Fact;
use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::{ncclComm_t, ncclUniqueId};
use gnnc_codegen::cuda::libraries::{Found, LibraryError, Part};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

const SUCCESS: c_int = 0;
/// Status of a deferred call that is not done yet.
const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
const BYTES: c_int = 1;
/// Leaves a setting to NCCL.
const UNDEFINED: c_int = c_int::MIN;
/// How long to wait for the others at the end.
const CLOSING: Duration = Duration::from_secs(5);
/// Pause between polls.
const PAUSE: Duration = Duration::from_micros(50);

/// `ncclConfig_t` as of 2.18; later versions accept it and use defaults for missing settings.
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

/// The functions, with the types of `nccl.h`. Results are integers, because later versions have
/// more of them.
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
    /// Null after an abort.
    communicator: ncclComm_t,
    patience: Duration,
    failed: bool,
}

impl Live {
    /// Connects this process with those it trains with, if any, provided they agree on `facts`.
    ///
    /// # Errors
    /// [`DriverError::Missing`] without NCCL; if processes do not show up or differ.
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
    /// Connects the processes, provided they agree on `facts`. The GPU's context is current.
    ///
    /// # Errors
    /// If the library is missing, processes do not show up or differ, or NCCL refuses.
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
            // The file exists until all are connected.
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
        // SAFETY: NCCL knows this version of the structure, and writes the communicator.
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

    /// Enqueues messages on a stream, all at once.
    ///
    /// # Errors
    /// Any error of NCCL, or of an earlier exchange; the communicator has then failed.
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
                // SAFETY: the caller vouches for the bytes.
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
        // A group that was started must be ended, whatever it contains.
        // SAFETY: it was started above.
        let ended = unsafe { (functions.group_end)() };
        let done = first.and_then(|()| self.done("ncclGroupEnd", ended));
        done.inspect_err(|_| self.fail())
    }

    /// Polls for errors of work in progress.
    ///
    /// # Errors
    /// An error NCCL found, such as a process that is gone; the communicator has then failed.
    pub fn look(&mut self) -> Result<(), DriverError> {
        self.alive()?;
        let status = self.state();
        if status == IN_PROGRESS {
            return Ok(());
        }
        self.check("an exchange with another process", status)
            .inspect_err(|_| self.fail())
    }

    /// How long to wait for other processes.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Marks the communicator as failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Whether the communicator has failed and should be aborted.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Lets messages in flight arrive and ends the connection; aborts if the communicator has
    /// failed or this takes too long. Captured work must be gone.
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
                // SAFETY: finalized above, destroyed once. Nobody is left to report a failure to.
                unsafe { (self.functions.destroy)(self.communicator) };
                self.communicator = ptr::null_mut();
            }
            false => self.abort(),
        }
    }

    /// Aborts the communicator, which ends work in progress. Captured work must be gone.
    pub fn abort(&mut self) {
        if !self.communicator.is_null() {
            // SAFETY: made by `init`, aborted once. Nobody is left to report a failure to.
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

    /// Waits until a deferred call is done.
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
            // SAFETY: both functions below return permanent strings.
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
        // Only if it was never used, or is already closed.
        self.abort();
    }
}
