//! NVRTC, NVIDIA's compiler as a library: CUDA C to PTX and machine code, without a GPU.
//!
//! It comes with the CUDA toolkit and as the PyPI package `nvidia-cuda-nvrtc`, which
//! `scripts/nvrtc.sh` fetches. [`super::libraries`] says where it is looked for.

pub use super::libraries::wheel_folders;
use super::libraries::{Found, LibraryError, Part};
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;

/// Compiler options, apart from the architecture.
///
/// Diagnostic 177 reports unused variables: the operands decide which of `h` and `c` a kernel uses.
/// `--fmad=false` rounds each product and sum separately: a value that two kernels compute, as for
/// gradients of maxima, has to be equal in both.
pub const OPTIONS: [&str; 4] = [
    "--std=c++17",
    "--ptxas-options=-v",
    "--diag-suppress=177",
    "--fmad=false",
];

/// Why compilation failed.
#[derive(Debug, thiserror::Error)]
pub enum NvrtcError {
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The text does not compile, which is a defect of this crate.
    #[error("NVRTC refused a generated kernel ({error}); please report it (gnnc emit cuda)\n{log}")]
    Refused {
        /// NVRTC's name for the error.
        error: String,
        /// The compiler's messages.
        log: String,
    },
    /// The text, its name or the architecture contains a zero byte.
    #[error("{what} holds a zero byte")]
    Zero {
        /// Which argument.
        what: &'static str,
    },
}

/// Resources of one entry point on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The entry point.
    pub entry: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spilled registers: stored to memory, and loaded from it.
    pub spills: [u32; 2],
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
}

/// A compiled translation unit.
#[derive(Clone, Debug)]
pub struct Binary {
    /// PTX, which drivers compile.
    pub ptx: Vec<u8>,
    /// Machine code.
    pub cubin: Vec<u8>,
    /// The compiler's messages.
    pub log: String,
    /// The resources of every entry point, parsed from the messages.
    pub usage: Vec<Usage>,
}

/// The loaded library.
#[derive(Debug)]
pub struct Nvrtc {
    library: Found,
    file: String,
}

impl Nvrtc {
    /// Loads the library from the first of `folders` that has it, or from the system's folders; see
    /// [`Part::load`].
    ///
    /// # Errors
    /// If it is not found; the error lists the places searched.
    pub fn load(folders: &[PathBuf]) -> Result<Self, NvrtcError> {
        let library = Part::Nvrtc.load(folders)?;
        library.require(&[c"nvrtcGetCUBIN", c"nvrtcGetCUBINSize"])?;
        Ok(Self {
            file: library.file().display().to_string(),
            library,
        })
    }

    /// The file that was loaded.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Major and minor version.
    pub fn version(&self) -> [i32; 2] {
        self.library.version()
    }

    /// Compiles a translation unit for an architecture such as `sm_90`.
    ///
    /// # Errors
    /// If the text does not compile; the error includes the compiler's messages.
    pub fn compile(&self, text: &str, name: &str, arch: &str) -> Result<Binary, NvrtcError> {
        let zero = |what| move |_| NvrtcError::Zero { what };
        let text = CString::new(text).map_err(zero("the text"))?;
        let name = CString::new(name).map_err(zero("the name"))?;
        if arch.contains('\0') {
            return Err(NvrtcError::Zero {
                what: "the architecture",
            });
        }
        let program =
            result::create_program(&text, Some(&name)).map_err(|e| refused(e, String::new()))?;
        let mut options = vec![format!("-arch={arch}")];
        options.extend(OPTIONS.map(str::to_owned));
        // SAFETY: the program, text and name are alive.
        let status = unsafe { result::compile_program(program, &options) };
        let binary = results(program, status);
        // SAFETY: the program exists and is not used again.
        let destroyed = unsafe { result::destroy_program(program) };
        destroyed.map_err(|e| refused(e, String::new()))?;
        binary
    }
}

fn results(
    program: sys::nvrtcProgram,
    status: Result<(), result::NvrtcError>,
) -> Result<Binary, NvrtcError> {
    // SAFETY: the program exists and was compiled.
    let (log, ptx) = unsafe {
        let log = result::get_program_log(program).map_err(|e| refused(e, String::new()))?;
        let log = String::from_utf8_lossy(&bytes(&log)).into_owned();
        let log = log.trim_end_matches('\0').to_owned();
        status.map_err(|e| refused(e, log.clone()))?;
        (log, result::get_ptx(program))
    };
    Ok(Binary {
        ptx: bytes(&ptx.map_err(|e| refused(e, String::new()))?),
        cubin: cubin(program).map_err(|e| refused(e, String::new()))?,
        usage: usage(&log),
        log,
    })
}

/// Machine code, which cudarc does not wrap.
fn cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut length = 0;
    // SAFETY: the program exists and was compiled.
    unsafe { sys::nvrtcGetCUBINSize(program, &mut length) }.result()?;
    let mut code = vec![0u8; length];
    // SAFETY: the buffer has the size NVRTC reported.
    unsafe { sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()) }.result()?;
    Ok(code)
}

fn bytes(chars: &[c_char]) -> Vec<u8> {
    chars.iter().map(|&c| c as u8).collect()
}

fn refused(error: result::NvrtcError, log: String) -> NvrtcError {
    // SAFETY: the function returns a constant string.
    let words = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(error.0)) };
    NvrtcError::Refused {
        error: words.to_string_lossy().into_owned(),
        log,
    }
}

/// Parses the output of `ptxas -v` for every entry point.
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
}
