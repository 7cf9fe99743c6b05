//! Compiled code on disk, one file for each text that was compiled, found by content.
//!
//! The key is the generated text with everything else that determines its machine code, of a
//! processor or of a GPU. A file holds a magic number, the whole key, the code and a checksum; one
//! that does not match in every byte is treated as absent. Files are written aside and
//! renamed. No failure here is an error: it is then compiled again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 8] = b"gnnc-k01";

/// A folder of compiled code.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in `folder`, which is made when the first code is stored.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file of a key.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder
            .join(format!("{:032x}.kernel", fnv128(key.as_bytes())))
    }

    /// The code stored under a key, if an intact file has it.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        let file = fs::read(self.path(key)).ok()?;
        let (content, checksum) = file.split_last_chunk::<16>()?;
        if u128::from_le_bytes(*checksum) != fnv128(content) {
            return None;
        }
        let rest = content.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let stored_key = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        (stored_key == key.as_bytes()).then(|| rest[stored_key.len()..].to_vec())
    }

    /// Stores code under a key; returns whether that worked.
    pub fn store(&self, key: &str, code: &[u8]) -> bool {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let mut file = MAGIC.to_vec();
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.as_bytes());
        file.extend(code);
        file.extend(fnv128(&file).to_le_bytes());
        let target = self.path(key);
        let unique = WRITES.fetch_add(1, Ordering::Relaxed);
        let aside = target.with_extension(format!("{}-{unique}.part", std::process::id()));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&aside, &file))
            .and_then(|()| fs::rename(&aside, &target));
        if written.is_err() {
            remove(&aside);
        }
        written.is_ok()
    }
}

fn remove(path: &Path) {
    // Nothing is lost if a leftover stays.
    let _ = fs::remove_file(path);
}

/// FNV-1a with 128 bits.
fn fnv128(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, &byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        })
}
