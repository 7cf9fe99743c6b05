//! An MPI library, found when a run needs it. Open MPI, MPICH with its relatives, and libraries with the standard
//! interface (MPI 5.0, chapter 20) differ in their handles and constants; their functions are the same.
//!
//! Handles are machine words here. A library whose handles are 32 bits wide reads and writes the lower half.

use super::WorldError;
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Names an MPI library to use instead of those that are found.
const VARIABLE: &str = "GNNC_MPI_LIBRARY";

/// A handle of a communicator, data type, request or message.
pub(super) type Handle = usize;

/// What a call says of a message. Room for the largest one.
pub(super) type Status = [c_int; 8];

/// Settings of Open MPI, which matter for TCP.
const TCP: [(&CStr, &CStr); 3] = [
    // Streams (1), also from where a message lies (8). By default the receiver of a long message asks for its parts one after
    // the other, and its questions queue behind what it sends itself. So two processes that send each other a megabyte take
    // turns.
    (c"OMPI_MCA_btl_tcp_flags", c"9"),
    // MPI moves messages only when it is called, and by default it then hands the system three parts of 128 KiB at most.
    (c"OMPI_MCA_btl_tcp_max_send_size", c"1048576"),
    (c"OMPI_MCA_pml_ob1_send_pipeline_depth", c"32"),
];

/// Longest text of an error.
const MOST_TEXT: usize = 8192;

/// The constants of a library.
#[derive(Clone, Copy, Debug)]
struct Constants {
    world: Handle,
    float: Handle,
    errors_return: Handle,
    /// Name of the attribute with the largest tag.
    largest_tag: c_int,
    /// Calls from several threads, one at a time.
    serialized: c_int,
}

const MPICH: Constants = Constants {
    world: 0x4400_0000,
    float: 0x4c00_040a,
    errors_return: 0x5400_0001,
    largest_tag: 0x6440_0001,
    serialized: 2,
};

const STANDARD: Constants = Constants {
    world: 0x101,
    float: 0x210,
    errors_return: 0x143,
    largest_tag: 501,
    serialized: 2048,
};

/// A loaded library. Its calls must not be made at the same time.
pub(super) struct Library {
    name: String,
    constants: Constants,
    init_thread: unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int,
    comm_rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_get_attr: unsafe extern "C" fn(Handle, c_int, *mut *const c_int, *mut c_int) -> c_int,
    set_errhandler: unsafe extern "C" fn(Handle, Handle) -> c_int,
    isend:
        unsafe extern "C" fn(*const f32, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int,
    irecv:
        unsafe extern "C" fn(*mut f32, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int,
    improbe:
        unsafe extern "C" fn(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status) -> c_int,
    imrecv: unsafe extern "C" fn(*mut f32, c_int, Handle, *mut Handle, *mut Handle) -> c_int,
    get_count: unsafe extern "C" fn(*const Status, Handle, *mut c_int) -> c_int,
    test: unsafe extern "C" fn(*mut Handle, *mut c_int, *mut Status) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    /// Stays loaded as long as its functions are used.
    _loaded: Loaded,
}

/// A message that has arrived and that nobody else will get.
pub(super) struct Arrived {
    message: Handle,
    pub(super) floats: usize,
}

impl Library {
    /// The library that `GNNC_MPI_LIBRARY` names, or else the first one found that fits the launcher.
    ///
    /// # Errors
    /// None can be loaded, or it lacks a function.
    pub(super) fn load(by_open_mpi: bool) -> Result<Self, WorldError> {
        for (setting, value) in TCP {
            // What the user has set stays. Without memory for it, the library's own setting does.
            // SAFETY: both are strings. Besides this thread there is the one that waits for signals, which reads no
            // environment.
            unsafe { libc::setenv(setting.as_ptr(), value.as_ptr(), 0) };
        }
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let names = match named {
            Some(name) => vec![PathBuf::from(name)],
            None => candidates(by_open_mpi),
        };
        let mut refused = Vec::new();
        for name in &names {
            // SAFETY: loading runs the library's constructors, which MPI libraries make for that.
            match unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(loaded) => return Self::new(loaded, name),
                Err(error) => {
                    let why = std::error::Error::source(&error).map(ToString::to_string);
                    refused.push(why.unwrap_or_else(|| format!("{}: {error}", name.display())));
                }
            }
        }
        Err(WorldError::NoLibrary {
            reasons: refused.join("; "),
        })
    }

    fn new(loaded: Loaded, name: &Path) -> Result<Self, WorldError> {
        let file = name.file_name().unwrap_or_default().to_string_lossy();
        let standard = file.starts_with("libmpi_abi");
        let name = name.display().to_string();
        macro_rules! function {
            ($symbol:literal) => {{
                // SAFETY: the standard says how the function is declared.
                let found = unsafe { loaded.get($symbol.as_bytes()) };
                *found.map_err(|_| WorldError::NotMpi {
                    library: name.clone(),
                    symbol: $symbol,
                })?
            }};
        }
        let address = |symbol: &str| -> Option<Handle> {
            // SAFETY: only the address is used.
            let found = unsafe { loaded.get::<*const c_void>(symbol.as_bytes()) };
            found.ok().map(|found| found.as_raw_ptr() as Handle)
        };
        let open_mpi = (
            address("ompi_mpi_comm_world"),
            address("ompi_mpi_float"),
            address("ompi_mpi_errors_return"),
        );
        let constants = match open_mpi {
            _ if standard => STANDARD,
            (Some(world), Some(float), Some(errors_return)) => Constants {
                world,
                float,
                errors_return,
                largest_tag: 0,
                serialized: 2,
            },
            _ => MPICH,
        };
        Ok(Self {
            constants,
            init_thread: function!("MPI_Init_thread"),
            comm_rank: function!("MPI_Comm_rank"),
            comm_size: function!("MPI_Comm_size"),
            comm_get_attr: function!("MPI_Comm_get_attr"),
            set_errhandler: function!("MPI_Comm_set_errhandler"),
            isend: function!("MPI_Isend"),
            irecv: function!("MPI_Irecv"),
            improbe: function!("MPI_Improbe"),
            imrecv: function!("MPI_Imrecv"),
            get_count: function!("MPI_Get_count"),
            test: function!("MPI_Test"),
            error_string: function!("MPI_Error_string"),
            finalize: function!("MPI_Finalize"),
            name,
            _loaded: loaded,
        })
    }

    /// The file that it was loaded from.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Joins the processes that were started together. Returns the number of this one, and how many there are.
    pub(super) fn start(&self) -> Result<(u32, u32), WorldError> {
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        let Constants {
            world, serialized, ..
        } = self.constants;
        // SAFETY: the pointers may be written; null stands for no arguments.
        unsafe {
            let none = std::ptr::null_mut();
            self.checked(
                "MPI_Init_thread",
                (self.init_thread)(none, none.cast(), serialized, &mut provided),
            )?;
            // Without it, a failed call ends the process.
            let errors_return = self.constants.errors_return;
            self.checked(
                "MPI_Comm_set_errhandler",
                (self.set_errhandler)(world, errors_return),
            )?;
            self.checked("MPI_Comm_rank", (self.comm_rank)(world, &mut rank))?;
            self.checked("MPI_Comm_size", (self.comm_size)(world, &mut size))?;
        }
        if provided < serialized {
            return Err(WorldError::Threads {
                library: self.name.clone(),
            });
        }
        Ok((rank as u32, size as u32))
    }

    /// The largest tag that messages may have.
    pub(super) fn largest_tag(&self) -> Result<u32, WorldError> {
        let (mut value, mut found) = (std::ptr::null(), 0);
        let Constants {
            world, largest_tag, ..
        } = self.constants;
        // SAFETY: the attribute of the world is a pointer to a number, or is not found.
        unsafe {
            self.checked(
                "MPI_Comm_get_attr",
                (self.comm_get_attr)(world, largest_tag, &mut value, &mut found),
            )?;
            // What the standard promises at least.
            Ok(match found != 0 && !value.is_null() {
                true => u32::try_from(*value).unwrap_or(0),
                false => 32_767,
            })
        }
    }

    /// Begins to send a message.
    ///
    /// # Safety
    /// The message stays where it is, unchanged, until [`Library::is_done`] says so of the request.
    pub(super) unsafe fn send(
        &self,
        to: u32,
        tag: u32,
        message: &[f32],
    ) -> Result<Handle, WorldError> {
        let (count, mut request) = (self.count(message.len())?, 0);
        let Constants { world, float, .. } = self.constants;
        let begin = message.as_ptr();
        // SAFETY: as the caller promised.
        let code = unsafe {
            (self.isend)(
                begin,
                count,
                float,
                to as c_int,
                tag as c_int,
                world,
                &mut request,
            )
        };
        self.checked("MPI_Isend", code)?;
        Ok(request)
    }

    /// Begins to receive the next message from a process with a tag. It is an error if it is longer than `to`.
    ///
    /// # Safety
    /// Nothing else uses `to` until [`Library::is_received`] says that the request is done.
    pub(super) unsafe fn receive(
        &self,
        from: u32,
        tag: u32,
        to: &mut [f32],
    ) -> Result<Handle, WorldError> {
        let (count, mut request) = (self.count(to.len())?, 0);
        let Constants { world, float, .. } = self.constants;
        let begin = to.as_mut_ptr();
        // SAFETY: as the caller promised.
        let code = unsafe {
            (self.irecv)(
                begin,
                count,
                float,
                from as c_int,
                tag as c_int,
                world,
                &mut request,
            )
        };
        self.checked("MPI_Irecv", code)?;
        Ok(request)
    }

    /// The floats of a message that [`Library::receive`] began to receive, if all of it is there; its request then no
    /// longer exists.
    pub(super) fn is_received(&self, request: &mut Handle) -> Result<Option<usize>, WorldError> {
        let status = self.ended(request)?;
        status.map(|status| self.floats(&status)).transpose()
    }

    /// The floats of a message.
    fn floats(&self, status: &Status) -> Result<usize, WorldError> {
        let mut count = 0;
        // SAFETY: the pointers may be read and written.
        let code = unsafe { (self.get_count)(status, self.constants.float, &mut count) };
        self.checked("MPI_Get_count", code)?;
        usize::try_from(count).map_err(|_| self.failed("MPI_Get_count", 0))
    }

    /// The next message from a process with a tag, if it has arrived.
    pub(super) fn arrived(&self, from: u32, tag: u32) -> Result<Option<Arrived>, WorldError> {
        let (mut found, mut message, mut status) = (0, 0, Status::default());
        // SAFETY: the pointers may be written.
        let code = unsafe {
            (self.improbe)(
                from as c_int,
                tag as c_int,
                self.constants.world,
                &mut found,
                &mut message,
                &mut status,
            )
        };
        self.checked("MPI_Improbe", code)?;
        if found == 0 {
            return Ok(None);
        }
        let floats = self.floats(&status)?;
        Ok(Some(Arrived { message, floats }))
    }

    /// Begins to copy a message.
    ///
    /// # Safety
    /// `to` has room for it, and nothing else uses it until [`Library::is_done`] says so of the request.
    pub(super) unsafe fn take(
        &self,
        mut arrived: Arrived,
        to: &mut [f32],
    ) -> Result<Handle, WorldError> {
        let (count, mut request) = (self.count(arrived.floats)?, 0);
        let begin = to.as_mut_ptr();
        // SAFETY: as the caller promised.
        let code = unsafe {
            (self.imrecv)(
                begin,
                count,
                self.constants.float,
                &mut arrived.message,
                &mut request,
            )
        };
        self.checked("MPI_Imrecv", code)?;
        Ok(request)
    }

    /// Whether a request is done, which then no longer exists.
    pub(super) fn is_done(&self, request: &mut Handle) -> Result<bool, WorldError> {
        self.ended(request).map(|status| status.is_some())
    }

    /// What is said of a request's message if the request is done.
    fn ended(&self, request: &mut Handle) -> Result<Option<Status>, WorldError> {
        let (mut done, mut status) = (0, Status::default());
        // SAFETY: the pointers may be written.
        let code = unsafe { (self.test)(request, &mut done, &mut status) };
        self.checked("MPI_Test", code)?;
        Ok((done != 0).then_some(status))
    }

    /// Leaves the other processes; waits until they do so, too.
    pub(super) fn finish(&self) {
        // SAFETY: no other call follows. If it fails, there is nothing left to do.
        unsafe { (self.finalize)() };
    }

    fn count(&self, floats: usize) -> Result<c_int, WorldError> {
        c_int::try_from(floats).map_err(|_| WorldError::Long { floats })
    }

    fn checked(&self, call: &'static str, code: c_int) -> Result<(), WorldError> {
        match code {
            0 => Ok(()),
            _ => Err(self.failed(call, code)),
        }
    }

    fn failed(&self, call: &'static str, code: c_int) -> WorldError {
        let (mut text, mut length) = (vec![0 as c_char; MOST_TEXT], 0);
        // SAFETY: the text is longer than the longest of any library, and ends with a zero.
        let reason = unsafe {
            (self.error_string)(code, text.as_mut_ptr(), &mut length);
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        };
        WorldError::Call { call, reason }
    }
}

/// Files to try, those of the launcher's library first: by name, and beside the launchers in the path.
fn candidates(by_open_mpi: bool) -> Vec<PathBuf> {
    let open_mpi = ["libmpi.so.40", "libmpi.so.80"];
    let mpich = ["libmpi.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0"];
    let names = match by_open_mpi {
        true => [&open_mpi[..], &mpich[..]].concat(),
        false => [&mpich[..], &open_mpi[..]].concat(),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let with_launcher = |folder: &PathBuf| folder.join("mpiexec").is_file();
    let folders = std::env::split_paths(&path).filter(with_launcher);
    let mut beside: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let libraries = folder.join("../lib");
        beside.extend(names.iter().map(|name| libraries.join(name)));
    }
    beside.retain(|file| file.is_file());
    let plain = names.iter().map(PathBuf::from);
    beside.into_iter().chain(plain).collect()
}
