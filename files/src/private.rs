//! Folders whose content is executed, so only their owner may write to them.

use crate::read::open_with;
use crate::write::{Replacement, effective_user};
use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Creates a folder that only its owner can enter, if it does not exist, and checks it ([`check`]).
///
/// # Errors
/// As [`check`], or any error of the system.
pub fn make(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        let made = DirBuilder::new().mode(0o700).create(folder);
        // Another process may have created it meanwhile.
        if let Err(error) = made
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error);
        }
    }
    check(folder)
}

/// Checks that a folder belongs to this user and that nobody else can write to it.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`], saying what is wrong and how to fix it; or the folder does not
/// exist.
pub fn check(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::from(ErrorKind::NotADirectory));
    }
    check_owner(&found)
}

/// The bytes of a file in such a folder. It must be a regular file of this user that nobody else
/// can write to, not a link, and at most `limit` bytes long.
///
/// # Errors
/// As [`check`] and `gnnc_files::read`.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_with(path, libc::O_NOFOLLOW)?;
    let found = file.metadata()?;
    check_owner(&found)?;
    if found.len() > limit {
        return Err(io::Error::from(ErrorKind::FileTooLarge));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file in such a folder; nobody but the owner can read it.
///
/// # Errors
/// As [`Replacement`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Replacement::begin_with(path, 0o600)?;
    file.write_all(content)?;
    file.finish()
}

fn check_owner(found: &Metadata) -> io::Result<()> {
    let denied = |message: String| Err(io::Error::new(ErrorKind::PermissionDenied, message));
    if found.uid() != effective_user() {
        return denied(format!("it belongs to another user (id {})", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        return denied(format!(
            "others can write to it (mode {mode:o}); use chmod go-w"
        ));
    }
    Ok(())
}
