//! NVRTC, NVIDIA's compiler as a library: CUDA C to PTX and machine code, without a GPU.
//!
//! The library is loaded when it is asked for; nothing of CUDA is needed to build this crate. It
//! comes with the CUDA toolkit and as the PyPI package `nvidia-cuda-nvrtc`, which
//! `scripts/nvrtc.sh` fetches.

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// Names of the library, newest first: 13.0 is the newest whose PTX driver 580 takes.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// Beginning of the name of the library that NVRTC loads by itself, from beside it at best.
const BUILTINS: &str = "libnvrtc-builtins.so";
/// Folders of a Python environment's packages that hold the library.
const WHEELS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];
const SUCCESS: c_int = 0;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetBytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// Why nothing was compiled.
#[derive(Debug, thiserror::Error)]
pub enum NvrtcError {
    /// There is no library.
    #[error(
        "NVRTC is not here: found no {names} in {places}; expected CUDA 12 or 13, which the toolkit or `scripts/nvrtc.sh` installs",
        names = NAMES.join(", ")
    )]
    Missing {
        /// Where it was looked for, with what the system said.
        places: String,
    },
    /// The library lacks a function.
    #[error("{library} is no NVRTC: {message}")]
    Library {
        /// The file.
        library: String,
        /// What the system said.
        message: String,
    },
    /// The text does not compile: a defect of this crate.
    #[error("NVRTC refused a generated kernel ({error}); please report it (gnnc emit cuda)\n{log}")]
    Refused {
        /// NVRTC's name of the error.
        error: String,
        /// The compiler's messages.
        log: String,
    },
    /// A name or an architecture with a zero byte, or a text.
    #[error("{what} holds a zero byte")]
    Zero {
        /// Which argument.
        what: &'static str,
    },
}

/// What one entry point takes of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The entry point.
    pub entry: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of registers that are stored to memory, and loaded from it.
    pub spills: [u32; 2],
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
}

/// A compiled translation unit.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Code for the virtual machine, which drivers compile.
    pub ptx: Vec<u8>,
    /// Machine code.
    pub cubin: Vec<u8>,
    /// The messages of the compiler.
    pub log: String,
    /// What every entry point takes, by the messages.
    pub usage: Vec<Usage>,
}

/// The loaded library.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    /// Kept, because NVRTC looks for it only by name.
    _builtins: Option<Library>,
    file: String,
}

/// The folders in which an environment of Python packages keeps NVRTC. `packages` is the folder
/// that `pip install --target` was given, or a `site-packages`.
pub fn wheel_folders(packages: &Path) -> Vec<PathBuf> {
    WHEELS.iter().map(|wheel| packages.join(wheel)).collect()
}

impl Nvrtc {
    /// Loads the library from the first of `folders` that has it, or from where the system looks.
    ///
    /// # Errors
    /// If there is none, with the places that were looked at.
    pub fn load(folders: &[PathBuf]) -> Result<Self, NvrtcError> {
        let mut places: Vec<String> = Vec::new();
        for folder in folders {
            let Some(path) = NAMES
                .map(|name| folder.join(name))
                .into_iter()
                .find(|p| p.exists())
            else {
                places.push(folder.display().to_string());
                continue;
            };
            let builtins = builtins(folder);
            // SAFETY: NVRTC's libraries do nothing but set up when they are loaded.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Self::checked(library, builtins, path.display().to_string()),
                Err(error) => places.push(format!("{} ({error})", path.display())),
            }
        }
        for name in NAMES {
            // SAFETY: as above.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Self::checked(library, None, name.to_owned());
            }
        }
        places.push("the folders of the system's loader".to_owned());
        Err(NvrtcError::Missing {
            places: places.join(", "),
        })
    }

    fn checked(
        library: Library,
        builtins: Option<Library>,
        file: String,
    ) -> Result<Self, NvrtcError> {
        let nvrtc = Self {
            library,
            _builtins: builtins,
            file,
        };
        nvrtc.version()?;
        Ok(nvrtc)
    }

    /// The file that was loaded.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Major and minor version.
    pub fn version(&self) -> Result<[i32; 2], NvrtcError> {
        let version: Symbol<Version> = self.symbol(c"nvrtcVersion")?;
        let [mut major, mut minor] = [0; 2];
        // SAFETY: the function writes two numbers.
        unsafe { version(&mut major, &mut minor) };
        Ok([major, minor])
    }

    fn symbol<T>(&self, name: &CStr) -> Result<Symbol<'_, T>, NvrtcError> {
        // SAFETY: the types above are those of the functions in `nvrtc.h`.
        unsafe { self.library.get(name.to_bytes_with_nul()) }.map_err(|error| NvrtcError::Library {
            library: self.file.clone(),
            message: error.to_string(),
        })
    }

    /// Compiles a translation unit for an architecture such as `sm_90`.
    ///
    /// # Errors
    /// If the text does not compile; the messages of the compiler are part of the error.
    pub fn compile(&self, text: &str, name: &str, arch: &str) -> Result<Binary, NvrtcError> {
        let zero = |what| move |_| NvrtcError::Zero { what };
        let text = CString::new(text).map_err(zero("the text"))?;
        let name = CString::new(name).map_err(zero("the name"))?;
        let arch = CString::new(format!("-arch={arch}")).map_err(zero("the architecture"))?;
        let create: Symbol<Create> = self.symbol(c"nvrtcCreateProgram")?;
        let compile: Symbol<Compile> = self.symbol(c"nvrtcCompileProgram")?;
        let destroy: Symbol<Destroy> = self.symbol(c"nvrtcDestroyProgram")?;
        let mut program: Program = ptr::null_mut();
        // SAFETY: both strings end in a zero byte, there are no headers.
        let status = unsafe {
            create(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        if status != SUCCESS {
            return Err(self.refused(status, String::new()));
        }
        // Which of `h` and `c` a kernel uses depends on its operands: 177 says that one is unused.
        let options = [
            arch.as_c_str(),
            c"--std=c++17",
            c"--ptxas-options=-v",
            c"--diag-suppress=177",
        ];
        let options = options.map(CStr::as_ptr);
        // SAFETY: the program exists, and so do the options.
        let status = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let result = self.results(program, status);
        // SAFETY: the program exists and is not used any more.
        unsafe { destroy(&mut program) };
        result
    }

    fn results(&self, program: Program, status: c_int) -> Result<Binary, NvrtcError> {
        let log = self.bytes(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog")?;
        let log = String::from_utf8_lossy(&log);
        let log = log.trim_end_matches('\0').to_owned();
        if status != SUCCESS {
            return Err(self.refused(status, log));
        }
        Ok(Binary {
            ptx: self.bytes(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX")?,
            cubin: self.bytes(program, c"nvrtcGetCUBINSize", c"nvrtcGetCUBIN")?,
            usage: usage(&log),
            log,
        })
    }

    fn bytes(&self, program: Program, size: &CStr, get: &CStr) -> Result<Vec<u8>, NvrtcError> {
        let size: Symbol<GetSize> = self.symbol(size)?;
        let get: Symbol<GetBytes> = self.symbol(get)?;
        let mut length = 0;
        // SAFETY: the program exists.
        let status = unsafe { size(program, &mut length) };
        if status != SUCCESS {
            return Err(self.refused(status, String::new()));
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: the buffer has the size that was asked for.
        let status = unsafe { get(program, bytes.as_mut_ptr().cast()) };
        if status != SUCCESS {
            return Err(self.refused(status, String::new()));
        }
        Ok(bytes)
    }

    fn refused(&self, status: c_int, log: String) -> NvrtcError {
        let message: Result<Symbol<ErrorString>, _> = self.symbol(c"nvrtcGetErrorString");
        let error = match message {
            // SAFETY: the function returns a constant string.
            Ok(message) => unsafe { CStr::from_ptr(message(status)) }
                .to_string_lossy()
                .into_owned(),
            Err(_) => format!("error {status}"),
        };
        NvrtcError::Refused { error, log }
    }
}

/// The library that belongs to the one in `folder`.
fn builtins(folder: &Path) -> Option<Library> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(BUILTINS))
        })
        .collect();
    files.sort();
    // SAFETY: the library holds data.
    unsafe { Library::new(files.first()?) }.ok()
}

/// Reads what `ptxas -v` says of every entry point.
fn usage(log: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            usages.push(Usage {
                entry: rest.split('\'').next().unwrap_or_default().to_owned(),
                registers: 0,
                spills: [0; 2],
                shared_bytes: 0,
            });
        }
        let Some(last) = usages.last_mut() else {
            continue;
        };
        let before = |what: &str| {
            let number = line
                .split(what)
                .next()?
                .split([' ', ','])
                .rfind(|w| !w.is_empty())?;
            line.contains(what).then(|| number.parse().ok())?
        };
        last.registers = before(" registers").unwrap_or(last.registers);
        last.shared_bytes = before(" bytes smem").unwrap_or(last.shared_bytes);
        let spills = [" bytes spill stores", " bytes spill loads"].map(before);
        for (spill, found) in last.spills.iter_mut().zip(spills) {
            *spill = found.unwrap_or(*spill);
        }
    }
    usages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_read() {
        let log = "ptxas info    : Compiling entry function 'k0' for 'sm_90'\n\
                   ptxas info    : Function properties for k0\n    \
                   0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 1040 bytes smem, 376 bytes cmem[0]\n";
        let k0 = Usage {
            entry: "k0".into(),
            registers: 40,
            spills: [4, 8],
            shared_bytes: 1040,
        };
        assert_eq!(usage(log), [k0]);
    }

    #[test]
    fn a_missing_library_is_said_with_its_places() {
        let folders = wheel_folders(Path::new("not-there"));
        if let Err(error) = Nvrtc::load(&folders) {
            let text = error.to_string();
            assert!(text.contains("not-there/nvidia/cu13/lib"), "{text}");
            assert!(text.contains("scripts/nvrtc.sh"), "{text}");
        }
    }
}
