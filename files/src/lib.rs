//! Safe file access: reads never hang, writes never lose data, and nobody else can plant code.
//!
//! `read` accepts only regular files up to a limit, so a pipe cannot hang a run and `/dev/zero`
//! cannot fill memory. [`Replacement`] writes a file beside its target under an unguessable name,
//! and renames it once it is on disk. [`private`] is for folders of executed content: only their
//! owner may write there; [`Cache`] keeps results in one. A [`Claim`] keeps two runs from writing one file.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("plan.json");
//! gnnc_files::replace(&path, b"{}")?;
//! assert_eq!(gnnc_files::read(&path, 100)?, b"{}");
//! assert!(gnnc_files::read(&path, 1).is_err(), "longer than the limit");
//! # Ok::<(), std::io::Error>(())
//! ```

mod cache;
mod claim;
pub mod private;
mod read;
mod write;

pub use cache::{Cache, Cached};
pub use claim::{Claim, Claimed};
pub use read::{open, read, read_input, read_text, utf8};
pub use write::{Replacement, remove_leftovers, replace};
