//! CUDA C compiled for the processor.

use libloading::{Library, Symbol};
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const SHIM: &str = include_str!("../../../codegen/tests/cuda/shim.c");
/// Text found in kernels whose threads wait for each other.
const WAITS: [&str; 4] = ["__shfl", "__syncthreads", "gnnc_block_sum", "gnnc_warp"];

type Run = unsafe extern "C" fn(*const u64, u32, u32) -> i32;

/// A loaded translation unit, with its entry points in order.
pub struct Host {
    library: Library,
    pub entries: Vec<String>,
}

/// One thread compiles at a time, so that each text is compiled once.
static COMPILING: Mutex<()> = Mutex::new(());
static COPIES: AtomicU32 = AtomicU32::new(0);

impl Host {
    /// Compiles and loads a text. Every caller gets its own copy, because kernels have static
    /// memory.
    pub fn load(text: &str, entries: &[(&str, usize)]) -> Result<Self, String> {
        let mut all = SHIM.to_owned();
        all += &text.replace("extern \"C\" ", "");
        for (n, (entry, arguments)) in entries.iter().enumerate() {
            let types = vec!["uint64_t"; *arguments].join(", ");
            let values: Vec<String> = (0..*arguments).map(|i| format!("arguments[{i}]")).collect();
            let run = match waits(text, entry) {
                true => format!("run_grid(call_{n}, x, y, 0)"),
                false => format!("run_alone(call_{n}, x, y)"),
            };
            let written = write!(
                all,
                "\nstatic void call_{n}(void) {{ ((void (*)({types})){entry})({}); }}\n\
                 int run_{n}(const uint64_t *a, unsigned x, unsigned y)\n\
                 {{ arguments = a; return {run}; }}\n",
                values.join(", ")
            );
            written.map_err(|e| e.to_string())?;
        }
        let file = compiled(&all)?;
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let copy = file.with_extension(format!("{}-{number}.so", std::process::id()));
        fs::copy(&file, &copy).map_err(|e| e.to_string())?;
        // SAFETY: the library was made from generated C and has no initializers.
        let library = unsafe { Library::new(&copy) }.map_err(|e| e.to_string())?;
        fs::remove_file(&copy).map_err(|e| e.to_string())?;
        Ok(Self {
            library,
            entries: entries
                .iter()
                .map(|(entry, _)| (*entry).to_owned())
                .collect(),
        })
    }

    /// Runs an entry point.
    ///
    /// # Safety
    /// The arguments must match the entry point, and their pointers must be valid.
    pub unsafe fn run(
        &self,
        entry: usize,
        arguments: &[u64],
        grid: [u32; 2],
    ) -> Result<(), String> {
        let name = format!("run_{entry}");
        // SAFETY: the function was generated with this type.
        let run: Symbol<Run> =
            unsafe { self.library.get(name.as_bytes()) }.map_err(|e| e.to_string())?;
        // SAFETY: as the caller promised.
        match unsafe { run(arguments.as_ptr(), grid[0], grid[1]) } {
            1 => Ok(()),
            _ => Err(format!("{}: threads wait for others", self.entries[entry])),
        }
    }
}

/// Whether threads of an entry point wait for each other.
fn waits(text: &str, entry: &str) -> bool {
    let begin = text.find(&format!(" {entry}(")).unwrap_or(0);
    let behind = &text[begin..];
    let end = behind.find("extern \"C\"").unwrap_or(behind.len());
    WAITS.iter().any(|word| behind[..end].contains(word))
}

/// The library of a text, reused if it was compiled before.
fn compiled(text: &str) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("device-{:016x}.so", hasher.finish()));
    let _one = COMPILING.lock().unwrap();
    if library.exists() {
        return Ok(library);
    }
    let source = library.with_extension(format!("{}.c", std::process::id()));
    let made = library.with_extension(format!("{}.so", std::process::id()));
    fs::write(&source, text).map_err(|e| e.to_string())?;
    let flags = "-std=gnu11 -O1 -w -shared -fPIC -ffp-contract=off -o".split(' ');
    let mut cc = Command::new("cc");
    cc.args(flags).arg(&made).arg(&source).arg("-lm");
    let output = cc
        .output()
        .map_err(|e| format!("there is no C compiler `cc`: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::remove_file(&source).map_err(|e| e.to_string())?;
    fs::rename(&made, &library).map_err(|e| e.to_string())?;
    Ok(library)
}
