//! Machine code of a GPU, from NVRTC or from a folder of what it made before.

use super::nvrtc::{Nvrtc, NvrtcError, OPTIONS};
use crate::cache::Cache;

/// A compiler that keeps what it compiled.
#[derive(Debug)]
pub struct Cubins {
    nvrtc: Nvrtc,
    cache: Option<Cache>,
    /// Texts that were compiled, and found on the disk.
    counts: [u64; 2],
}

impl Cubins {
    /// Keeps machine code in a cache, if given; it may be that of the processor's kernels.
    pub fn new(nvrtc: Nvrtc, cache: Option<Cache>) -> Self {
        Self {
            nvrtc,
            cache,
            counts: [0; 2],
        }
    }

    /// The machine code of a translation unit for an architecture such as `sm_90`. Whatever
    /// determines it is the key: text, architecture, options, and NVRTC's version.
    ///
    /// # Errors
    /// If the text does not compile.
    pub fn machine_code(&mut self, text: &str, arch: &str) -> Result<Vec<u8>, NvrtcError> {
        let [major, minor] = self.nvrtc.version();
        let options = OPTIONS.join(" ");
        let key = format!("nvrtc {major}.{minor} {arch} {options}\n{text}");
        if let Some(cubin) = self.cache.as_ref().and_then(|cache| cache.load(&key)) {
            self.counts[1] += 1;
            return Ok(cubin);
        }
        let cubin = self.nvrtc.compile(text, "gnnc.cu", arch)?.cubin;
        self.counts[0] += 1;
        if let Some(cache) = &self.cache {
            // It is compiled again where it cannot be kept.
            cache.store(&key, &cubin);
        }
        Ok(cubin)
    }

    /// How many texts were compiled.
    pub fn compiled(&self) -> u64 {
        self.counts[0]
    }

    /// How many texts were found on the disk.
    pub fn found(&self) -> u64 {
        self.counts[1]
    }
}
