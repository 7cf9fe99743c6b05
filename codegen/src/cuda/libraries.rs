//! NVIDIA's libraries: where to look for them, which are there, which are missing.
//!
//! gnnc builds and starts without CUDA. A library is loaded on request, once per process, and stays
//! loaded. Python packages keep libraries in folders unknown to the system's loader
//! (`nvidia/cu13/lib`). Such a library is loaded by path before cudarc asks for it by name, so the
//! loader answers with that one.
//!
//! cudarc asks for unversioned names first. If the system's loader finds one (a toolkit in its
//! path), that library wins whatever the folders hold; [`Found::file`] tells which one it is.

use libloading::Library;
use libloading::os::unix::{self, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folders in a Python environment's packages that hold libraries.
const WHEELS: [&str; 5] = [
    "nvidia/cu13/lib",
    "nvidia/cuda_nvrtc/lib",
    "nvidia/cuda_runtime/lib",
    "nvidia/cublas/lib",
    "nvidia/nccl/lib",
];

/// One of NVIDIA's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The driver API.
    Driver,
    /// The compiler.
    Nvrtc,
    /// Matrix products.
    Cublas,
    /// Matrix products with epilogues.
    CublasLt,
    /// Messages between GPUs.
    Nccl,
}

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The library was not found.
    #[error(
        "{part} is not here: found no {names} in {places}; expected {expected}; name another folder \
         with --cuda-libraries or GNNC_CUDA_LIBRARIES",
        part = part.name(),
        names = part.names().join(", "),
        expected = part.expected()
    )]
    Missing {
        /// Which one.
        part: Part,
        /// Where it was looked for, with the system's messages.
        places: String,
    },
    /// The library lacks a function.
    #[error("{file} lacks the function {symbol}: found version {version}, expected {expected}", expected = part.expected())]
    Old {
        /// Which one.
        part: Part,
        /// The file.
        file: String,
        /// The missing function.
        symbol: String,
        /// The version the library reports.
        version: String,
    },
}

/// A library that was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    part: Part,
    library: &'static Library,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Driver,
        Self::Nvrtc,
        Self::Cublas,
        Self::CublasLt,
        Self::Nccl,
    ];

    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "the NVIDIA driver",
            Self::Nvrtc => "NVRTC",
            Self::Cublas => "cuBLAS",
            Self::CublasLt => "cuBLASLt",
            Self::Nccl => "NCCL",
        }
    }

    /// File names, best first. Within CUDA 13, 13.0 is best: the newest version whose code driver
    /// 580 accepts.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Driver => &["libcuda.so.1", "libcuda.so"],
            Self::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            Self::Cublas => &["libcublas.so.13", "libcublas.so.12", "libcublas.so"],
            Self::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
            Self::Nccl => &["libnccl.so.2", "libnccl.so"],
        }
    }

    /// What is expected, and what installs it.
    fn expected(self) -> &'static str {
        match self {
            Self::Driver => "the driver of CUDA 12.8 or newer (570 or newer) and an NVIDIA GPU",
            Self::Nvrtc => {
                "that of CUDA 12 or 13, which the toolkit, `scripts/nvrtc.sh` or the PyPI package \
                 nvidia-cuda-nvrtc installs"
            }
            Self::Cublas | Self::CublasLt => {
                "that of CUDA 12 or 13, which the toolkit or the PyPI package nvidia-cublas installs"
            }
            Self::Nccl => {
                "2.18 or newer, which the PyPI package nvidia-nccl-cu13 (or -cu12) installs"
            }
        }
    }

    /// Prefixes of the libraries that this one loads itself, by name only.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Nvrtc => &["libnvrtc-builtins.so"],
            Self::Cublas => &["libcublasLt.so"],
            Self::Driver | Self::CublasLt | Self::Nccl => &[],
        }
    }

    /// Loads the library from the first of `folders` that has it, or from the system's folders. A
    /// library this process has already loaded is returned again.
    ///
    /// # Errors
    /// If it is not found; the error lists the places searched.
    pub fn load(self, folders: &[PathBuf]) -> Result<Found, LibraryError> {
        let (first, mut places) = self.preload(folders);
        let library = match self {
            Self::Nccl => nccl(first),
            _ => {
                // Keep it loaded: cudarc gets the same library by name.
                std::mem::forget(first);
                self.of_cudarc()
            }
        };
        let part = self;
        library
            .map(|library| Found { part, library })
            .ok_or_else(|| {
                places.push("the folders of the system's loader".to_owned());
                LibraryError::Missing {
                    part,
                    places: places.join(", "),
                }
            })
    }

    /// Loads by path the library cudarc later asks for by name. Returns it and the places that did
    /// not have it.
    fn preload(self, folders: &[PathBuf]) -> (Option<Library>, Vec<String>) {
        let mut places = Vec::new();
        for folder in folders {
            let mut paths = self.names().iter().map(|name| folder.join(name));
            let Some(path) = paths.find(|path| path.exists()) else {
                places.push(folder.display().to_string());
                continue;
            };
            for needed in self.needs().iter().filter_map(|name| begins(folder, name)) {
                // If this fails, the library that needs it reports it later.
                std::mem::forget(open(needed.as_os_str()));
            }
            match open(path.as_os_str()) {
                Ok(library) => return (Some(library), places),
                Err(error) => places.push(format!("{} ({error})", path.display())),
            }
        }
        (None, places)
    }

    /// The library cudarc calls, if it finds one. cudarc ends the process if asked to call a
    /// library it cannot find.
    fn of_cudarc(self) -> Option<&'static Library> {
        use cudarc::{cublas, cublaslt, driver, nvrtc};
        // SAFETY: NVIDIA's libraries only initialize themselves when loaded.
        unsafe {
            match self {
                Self::Driver => driver::sys::is_culib_present().then(|| driver::sys::culib()),
                Self::Nvrtc => nvrtc::sys::is_culib_present().then(|| nvrtc::sys::culib()),
                Self::Cublas => cublas::sys::is_culib_present().then(|| cublas::sys::culib()),
                Self::CublasLt => cublaslt::sys::is_culib_present().then(|| cublaslt::sys::culib()),
                Self::Nccl => None,
            }
        }
    }
}

impl Found {
    /// The file, as the system's loader reports it.
    pub fn file(&self) -> PathBuf {
        let symbol = match self.part {
            Part::Driver => c"cuInit",
            Part::Nvrtc => c"nvrtcVersion",
            Part::Cublas => c"cublasCreate_v2",
            Part::CublasLt => c"cublasLtCreate",
            Part::Nccl => c"ncclGetVersion",
        };
        let unknown = || PathBuf::from(self.part.names()[0]);
        let Ok(address) = self.symbol::<*const c_void>(symbol) else {
            return unknown();
        };
        // SAFETY: zeros are valid for every field of this structure.
        let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the function looks up an address and fills in the structure.
        let known = unsafe { libc::dladdr(address, &mut about) } != 0 && !about.dli_fname.is_null();
        if !known {
            return unknown();
        }
        // SAFETY: the loader keeps the name as long as the library, which stays loaded.
        let name = unsafe { CStr::from_ptr(about.dli_fname) };
        PathBuf::from(OsStr::from_bytes(name.to_bytes()))
    }

    /// Major and minor version.
    pub fn version(&self) -> [i32; 2] {
        let [mut number, mut minor]: [c_int; 2] = [0; 2];
        // SAFETY: the functions have these types and write integers.
        unsafe {
            match self.part {
                Part::Nvrtc => {
                    cudarc::nvrtc::sys::nvrtcVersion(&mut number, &mut minor);
                    return [number, minor];
                }
                Part::Cublas => {
                    use cudarc::cublas::sys::{
                        cublasGetProperty, libraryPropertyType_t as Property,
                    };
                    cublasGetProperty(Property::MAJOR_VERSION, &mut number);
                    cublasGetProperty(Property::MINOR_VERSION, &mut minor);
                    return [number, minor];
                }
                Part::CublasLt => {
                    let number = cudarc::cublaslt::sys::cublasLtGetVersion() as c_int;
                    return [number / 10_000, number / 100 % 100];
                }
                Part::Driver => cudarc::driver::sys::cuDriverGetVersion(&mut number),
                Part::Nccl => {
                    type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
                    if let Ok(version) = self.symbol::<Version>(c"ncclGetVersion") {
                        version(&mut number);
                    }
                    return [number / 10_000, number / 100 % 100];
                }
            };
        }
        [number / 1000, number / 10 % 100]
    }

    /// A function of the library. `T` has to be its function pointer type.
    ///
    /// # Errors
    /// If the library lacks it.
    pub fn symbol<T: Copy>(&self, name: &CStr) -> Result<T, LibraryError> {
        // SAFETY: nothing is called here; callers pass the types of NVIDIA's headers.
        let symbol = unsafe { self.library.get::<T>(name) };
        symbol.map(|symbol| *symbol).map_err(|_| LibraryError::Old {
            part: self.part,
            file: self.file().display().to_string(),
            symbol: name.to_string_lossy().into_owned(),
            version: self.version().map(|n| n.to_string()).join("."),
        })
    }

    /// Checks that functions newer than some versions exist; cudarc ends the process if one is
    /// missing.
    ///
    /// # Errors
    /// Names the first missing function.
    pub fn require(&self, names: &[&CStr]) -> Result<(), LibraryError> {
        let has = |name: &&CStr| self.symbol::<*const c_void>(name).map(|_| ());
        names.iter().try_for_each(has)
    }
}

/// The folders below `place` that may hold libraries: `place` itself, those of a toolkit, of Python
/// packages (`pip install --target`, a `site-packages`) and of a Python environment.
pub fn folders(place: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = wheel_folders(place);
    for packages in python_packages(place) {
        folders.extend(wheel_folders(&packages));
    }
    folders.extend([place.join("lib64"), place.join("lib"), place.to_owned()]);
    folders
}

/// The folders in which Python packages keep libraries. `packages` is the target of `pip install
/// --target`, or a `site-packages`.
pub fn wheel_folders(packages: &Path) -> Vec<PathBuf> {
    WHEELS.iter().map(|wheel| packages.join(wheel)).collect()
}

/// `lib/python3.*/site-packages` and `dist-packages` below a folder, sorted by name.
pub fn python_packages(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place.join("lib"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("python3") {
            found.extend(["site-packages", "dist-packages"].map(|packages| path.join(packages)));
        }
    }
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// NCCL. cudarc cannot find it under the name used in packages. The first one found stays loaded.
fn nccl(first: Option<Library>) -> Option<&'static Library> {
    static LOADED: OnceLock<Library> = OnceLock::new();
    if LOADED.get().is_none() {
        let mut names = Part::Nccl.names().iter();
        let library = first.or_else(|| names.find_map(|name| open(OsStr::new(name)).ok()))?;
        LOADED.get_or_init(|| library);
    }
    LOADED.get()
}

fn open(path: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: NVIDIA's libraries only initialize themselves when loaded.
    unsafe { unix::Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(Library::from)
}

/// The first file of a folder whose name has this prefix.
fn begins(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(beginning))
    };
    files.filter(fits).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_its_places() {
        for part in Part::ALL {
            let folders = folders(Path::new("not-there"));
            if let Err(error) = part.load(&folders) {
                let text = error.to_string();
                for word in [
                    part.name(),
                    part.names()[0],
                    "not-there/nvidia/cu13/lib",
                    "not-there/lib64",
                    "--cuda-libraries",
                ] {
                    assert!(text.contains(word), "{text}");
                }
            }
        }
    }

    #[test]
    fn environments_of_python_have_folders() {
        let place = std::env::temp_dir().join(format!("gnnc-packages-{}", std::process::id()));
        let packages = place.join("lib/python3.12/site-packages");
        fs::create_dir_all(&packages).expect("a folder");
        let found = folders(&place);
        fs::remove_dir_all(&place).expect("removed");
        assert!(
            found.contains(&packages.join("nvidia/cublas/lib")),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_that_is_no_library_is_named() {
        let place = std::env::temp_dir().join(format!("gnnc-nccl-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join("libnccl.so.2"), "text").expect("a file");
        let (library, places) = Part::Nccl.preload(std::slice::from_ref(&place));
        fs::remove_dir_all(&place).expect("removed");
        assert!(library.is_none());
        assert!(places[0].contains("libnccl.so.2 ("), "{places:?}");
    }
}
