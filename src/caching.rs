//! Where compiled kernels and partitions are cached.

use crate::Error;
use std::path::{Path, PathBuf};

/// `$GNNC_CACHE`, `$XDG_CACHE_HOME/gnnc` or `~/.cache/gnnc`; `None` if none of them is known.
///
/// # Errors
/// A relative path in `GNNC_CACHE`.
pub fn cache_folder() -> Result<Option<PathBuf>, Error> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(folder) = variable("GNNC_CACHE") {
        if folder.is_absolute() {
            return Ok(Some(folder));
        }
        return Err(Error::Input(format!(
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
