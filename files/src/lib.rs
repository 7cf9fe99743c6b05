//! Files, read and written so that nothing hangs, nothing is lost and nobody gets in.
//!
//! `read` takes regular files up to a limit, so that a pipe does not hang a run and `/dev/zero`
//! does not fill the memory. [`Replacement`] writes a file beside its target under a name that
//! nobody can guess, and renames it once it is on the disk. [`private`] is for folders whose
//! content is executed: only their owner may write there.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("plan.json");
//! gnnc_files::replace(&path, b"{}")?;
//! assert_eq!(gnnc_files::read(&path, 100)?, b"{}");
//! assert!(gnnc_files::read(&path, 1).is_err(), "longer than the limit");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod private;
mod read;
mod write;

pub use read::{open, read, read_input, read_text, utf8};
pub use write::{Replacement, remove_leftovers, replace};
