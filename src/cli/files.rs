//! Files that commands read and write.

use super::output::{Failure, input};
use gnnc::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Longest plan or cluster file that is read, in bytes.
pub const MAX_PLAN: u64 = 64 << 20;
/// Longest trace that is read, in bytes.
pub const MAX_TRACE: u64 = 4 << 30;

/// Replaces a file. The old content stays until the new content is complete and on disk.
/// Links are followed and permissions kept. Devices and pipes are written to directly.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::File {
        action: "write",
        path: path.to_owned(),
        source,
    };
    let old = fs::metadata(path).ok();
    if old
        .as_ref()
        .is_some_and(|old| !old.is_file() && !old.is_dir())
    {
        let file = File::options().write(true).open(path);
        return file
            .and_then(|mut file| file.write_all(content))
            .map_err(failed);
    }
    let target = match old {
        Some(_) => fs::canonicalize(path).map_err(failed)?,
        None => path.to_owned(),
    };
    gnnc_files::replace(&target, content).map_err(failed)
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// A file that cannot be read or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let text = gnnc_files::read_text(path, limit).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(text)
}

/// Checks that a file can be written, before hours of work are spent on its content.
///
/// # Errors
/// A folder in place of a file, no folder to write into, a device where a file is renamed.
pub fn writable(path: &Path, what: &str) -> Result<(), Failure> {
    let shown = path.display();
    let refuse = |why: String| Err(input(format!("cannot write the {what} to {shown}: {why}")));
    match fs::metadata(path) {
        Ok(old) if old.is_dir() => {
            return refuse("it is a folder; name a file in it".to_owned());
        }
        Ok(old) if !old.is_file() => {
            return refuse("it is not a regular file, and would be replaced by one".to_owned());
        }
        _ => {}
    }
    if path.file_name().is_none() {
        return refuse("the path names no file".to_owned());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match folder.is_dir() {
        true => Ok(()),
        false => refuse(format!(
            "there is no folder {}; make it first",
            folder.display()
        )),
    }
}
