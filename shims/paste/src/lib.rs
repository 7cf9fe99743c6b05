//! The crate `paste` is no longer maintained; `pastey` continues it under another name.
//! Dependencies that still ask for `paste` get this.

pub use pastey::{item, paste};
