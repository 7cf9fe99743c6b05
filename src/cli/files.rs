//! Files of the command line: written aside and renamed, and the cache's folder.

use super::output::{Failure, input};
use gnnc::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file. What was there stays until the new content is complete and on the disk;
/// links are followed, permissions kept. Devices and pipes are written to.
///
/// # Errors
/// Whatever the system refuses.
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
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    let aside = target.with_file_name(name);
    let written = (|| -> io::Result<()> {
        let mut file = File::create(&aside)?;
        file.write_all(content)?;
        if let Some(old) = &old {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&aside, &target)
    })();
    if let Err(source) = written {
        // Half a file is of no use; if it cannot be removed either, the error stays the same.
        let _ = fs::remove_file(&aside);
        return Err(failed(source));
    }
    Ok(())
}

/// The text of a file.
///
/// # Errors
/// A file that cannot be read or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let shown = path.display();
        input(format!(
            "{shown} is not UTF-8 text: byte {at} begins no character"
        ))
    })
}

/// Checks, before hours are spent, that a file can be written where it shall be.
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
            return refuse("it is no regular file and would be replaced by one".to_owned());
        }
        _ => {}
    }
    if path.file_name().is_none() {
        return refuse("that names no file".to_owned());
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
