//! The cache of compiled kernels and partitions.

use super::output::{Failure, Output};
use clap::Args;
use gnnc::{Cache, cache_folder};

/// Whether to use the cache.
#[derive(Args)]
pub struct CacheArgs {
    /// Compile all kernels and partition graphs again; neither read nor write the cache.
    #[arg(long)]
    no_cache: bool,
}

impl CacheArgs {
    /// The cache, if it is wanted and can be used.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, out: &Output) -> Result<Option<Cache>, Failure> {
        if self.no_cache {
            return Ok(None);
        }
        open(out)
    }
}

/// The cache, or `None` if its folder cannot be used, which prints a warning.
///
/// # Errors
/// A relative path in `GNNC_CACHE`.
pub fn open(out: &Output) -> Result<Option<Cache>, Failure> {
    let Some(folder) = cache_folder()? else {
        return Ok(None);
    };
    match Cache::open(&folder) {
        Ok(cache) => Ok(Some(cache)),
        Err(error) => {
            out.note(&format!(
                "warning: no cache, kernels are compiled again and graphs partitioned again: {}: {error}\n",
                folder.display()
            ));
            Ok(None)
        }
    }
}

/// Says why the first rejected file of the cache was not used.
pub fn say_refused(cache: Option<&Cache>, out: &Output) {
    if let Some(why) = cache.and_then(Cache::refused) {
        out.note(&format!(
            "warning: files of the cache were rejected; kernels are compiled again and graphs partitioned again: {why}\n"
        ));
    }
}
