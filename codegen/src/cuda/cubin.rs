//! GPU machine code, from NVRTC or from the cache of earlier compilations.

use super::nvrtc::{Nvrtc, NvrtcError, OPTIONS};
use gnnc_files::{Cache, Cached};

/// A compiler that caches its output.
#[derive(Debug)]
pub struct Cubins {
    nvrtc: Nvrtc,
    cache: Option<Cache>,
    /// Number of texts compiled, and of texts found on disk.
    counts: [u64; 2],
}

impl Cubins {
    /// Caches machine code in `cache`, if given; CPU kernels may share that cache.
    pub fn new(nvrtc: Nvrtc, cache: Option<Cache>) -> Self {
        Self {
            nvrtc,
            cache,
            counts: [0; 2],
        }
    }

    /// The machine code of a translation unit for an architecture such as `sm_90`. The cache key is
    /// everything that determines it: text, architecture, options and NVRTC's version.
    ///
    /// # Errors
    /// If the text does not compile.
    pub fn machine_code(&mut self, text: &str, arch: &str) -> Result<Vec<u8>, NvrtcError> {
        let [major, minor] = self.nvrtc.version();
        let options = OPTIONS.join(" ");
        let key = format!("nvrtc {major}.{minor} {arch} {options}\n{text}");
        let cache = self.cache.as_ref();
        if let Some(cubin) = cache.and_then(|cache| cache.load(Cached::Kernel, &key)) {
            self.counts[1] += 1;
            return Ok(cubin);
        }
        let cubin = self.nvrtc.compile(text, "gnnc.cu", arch)?.cubin;
        self.counts[0] += 1;
        if let Some(cache) = &self.cache {
            // If this cannot be stored, it is compiled again next time.
            cache.store(Cached::Kernel, &key, &cubin);
        }
        Ok(cubin)
    }

    /// Number of texts compiled.
    pub fn compiled(&self) -> u64 {
        self.counts[0]
    }

    /// Number of texts found on disk.
    pub fn found(&self) -> u64 {
        self.counts[1]
    }
}
