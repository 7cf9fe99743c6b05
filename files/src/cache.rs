//! A cache on disk: one file per result, found by the content of its key.
//!
//! The key says everything that determines the result. A file holds a magic number, the whole key,
//! the result and a checksum; a file with any wrong byte counts as absent. Some results are machine
//! code, so folder and files are used only if the user owns them and nobody else can write to them.
//! Failures after [`Cache::open`] are not errors: the result is computed again. Nothing is removed;
//! a user may delete any file, or the folder.

use crate::private;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const MAGIC: &[u8; 8] = b"gnnc-k02";
/// Bytes of the checksum.
const CHECKSUM: usize = blake3::OUT_LEN;
/// Largest file read and written; a byte for each of 200 million vertices fits.
const MOST_BYTES: u64 = 256 << 20;

/// A folder of results. Clones share the cache.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Why the first refused file was not used.
    refused: Arc<OnceLock<String>>,
}

/// What a file of the cache holds; its name ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Machine code of a kernel, for a CPU or a GPU.
    Kernel,
    /// A partition of a graph.
    Partition,
}

impl Cached {
    fn ending(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Partition => "partition",
        }
    }
}

impl Cache {
    /// Opens a cache in `folder`, creating the folder if needed.
    ///
    /// # Errors
    /// If the folder cannot be created, belongs to another user, or is writable by others.
    pub fn open(folder: &Path) -> io::Result<Self> {
        private::make(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            refused: Arc::default(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The first refused file and what is wrong with it.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// The file of a key.
    pub fn path(&self, what: Cached, key: &str) -> PathBuf {
        let hash = blake3::hash(key.as_bytes()).to_hex();
        self.folder
            .join(format!("{}.{}", &hash[..32], what.ending()))
    }

    /// The result stored under a key, if an intact file holds it.
    pub fn load(&self, what: Cached, key: &str) -> Option<Vec<u8>> {
        let path = self.path(what, key);
        let file = match private::read(&path, MOST_BYTES) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                self.refused
                    .get_or_init(|| format!("{}: {error}", path.display()));
                return None;
            }
        };
        let (content, checksum) = file.split_last_chunk::<CHECKSUM>()?;
        if blake3::hash(content) != *checksum {
            return None;
        }
        let rest = content.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let stored_key = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        (stored_key == key.as_bytes()).then(|| rest[stored_key.len()..].to_vec())
    }

    /// Stores a result under a key; returns whether that succeeded.
    pub fn store(&self, what: Cached, key: &str, result: &[u8]) -> bool {
        let mut file = MAGIC.to_vec();
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.as_bytes());
        file.extend(result);
        file.extend(blake3::hash(&file).as_bytes());
        file.len() as u64 <= MOST_BYTES
            && private::check(&self.folder)
                .and_then(|()| private::replace(&self.path(what, key), &file))
                .is_ok()
    }
}
