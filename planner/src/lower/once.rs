//! Results that several candidates share.

use std::sync::OnceLock;

/// What is computed from the other fields of a struct when it is first needed. A clone computes it anew, as its fields may
/// be changed.
#[derive(Debug)]
pub struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    /// The value; other threads that want it wait for the first.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(compute)
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}
