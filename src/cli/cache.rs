//! The cache of compiled kernels.

use super::output::{Failure, Output, input};
use gnnc::Cache;
use std::path::{Path, PathBuf};

/// The cache, or `None` if it is not wanted or its folder cannot be used; the latter prints a warning.
///
/// # Errors
/// A relative path in `GNNC_CACHE`.
pub fn kernels(wanted: bool, out: &Output) -> Result<Option<Cache>, Failure> {
    if !wanted {
        return Ok(None);
    }
    let Some(folder) = folder()? else {
        return Ok(None);
    };
    match Cache::open(&folder) {
        Ok(cache) => Ok(Some(cache)),
        Err(error) => {
            out.note(&format!(
                "warning: no kernel cache, kernels are compiled again: {}: {error}\n",
                folder.display()
            ));
            Ok(None)
        }
    }
}

/// Says why the first rejected file of the cache was not used.
pub fn say_refused(kernels: Option<&Cache>, out: &Output) {
    if let Some(why) = kernels.and_then(Cache::refused) {
        out.note(&format!(
            "warning: cached kernels were rejected and compiled again: {why}\n"
        ));
    }
}

/// `$GNNC_CACHE`, `$XDG_CACHE_HOME/gnnc` or `~/.cache/gnnc`.
fn folder() -> Result<Option<PathBuf>, Failure> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(folder) = variable("GNNC_CACHE") {
        if folder.is_absolute() {
            return Ok(Some(folder));
        }
        return Err(input(format!(
            "GNNC_CACHE is `{}`, a relative path; expected an absolute path",
            folder.display()
        )));
    }
    // The XDG specification says to ignore relative paths.
    let base = variable("XDG_CACHE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| {
            let home = variable("HOME").filter(|home| home.is_absolute());
            home.map(|home| Path::new(&home).join(".cache"))
        });
    Ok(base.map(|base| base.join("gnnc")))
}
