//! Reading whole files: only regular ones, up to a limit.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The path that stands for standard input in [`read_input`].
const STANDARD_INPUT: &str = "-";

/// Opens a regular file for reading. Refuses anything that could hang or never end.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a pipe, a device or a socket, [`ErrorKind::IsADirectory`] for a
/// folder, or any error of the system.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

/// [`open`] with further flags of `open(2)`.
pub(crate) fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    // Without O_NONBLOCK, opening a named pipe waits for a writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() {
        return Err(io::Error::from(ErrorKind::IsADirectory));
    }
    let found = kind_name(kind);
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!("it is {found}; expected a regular file"),
    ))
}

/// The bytes of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; [`ErrorKind::FileTooLarge`]; [`ErrorKind::OutOfMemory`] if memory does not suffice.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large(&format!("{length} bytes"), limit));
    }
    read_at_most(file, length, limit)
}

/// Like [`read`], but reads standard input if the path is `-`.
///
/// # Errors
/// As [`read`].
pub fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if path.as_os_str() == STANDARD_INPUT {
        return read_at_most(io::stdin().lock(), 0, limit);
    }
    read(path, limit)
}

/// [`read`] as text.
///
/// # Errors
/// As [`read`] and [`utf8`].
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    utf8(read(path, limit)?)
}

/// Bytes as text.
///
/// # Errors
/// [`ErrorKind::InvalidData`], naming the first invalid byte.
pub fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message =
            format!("it is not UTF-8 text: byte {at} starts no valid character; save it as UTF-8");
        io::Error::new(ErrorKind::InvalidData, message)
    })
}

/// Reads everything, up to `limit` bytes; expects about `expected`.
fn read_at_most(reader: impl Read, expected: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte beyond the limit reveals a longer input.
    let reserved = usize::try_from(expected.saturating_add(1));
    let reserved = reserved.map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    bytes.try_reserve_exact(reserved)?;
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large("more", limit));
    }
    Ok(bytes)
}

fn too_large(found: &str, limit: u64) -> io::Error {
    let message = format!("it has {found}, expected at most {limit} bytes");
    io::Error::new(ErrorKind::FileTooLarge, message)
}

fn kind_name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
