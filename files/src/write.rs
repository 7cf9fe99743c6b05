//! Replacing files: aside, onto the disk, renamed.

use crate::read::open_with;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// What the names of files end in that are being written.
const ENDING: &[u8] = b".part";
/// Random characters in such a name.
const RANDOM: usize = 12;
/// How often a new name is tried where somebody removes the file at once.
const TRIES: u32 = 16;

/// A file that is being written beside its target. Until [`Replacement::finish`] the target is as it
/// was; a replacement that is dropped leaves nothing behind.
///
/// The file has a random name, is created anew and never opened through a link. The writer holds a
/// lock on it, so that a later writer can tell the leftovers of a process that was killed.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    target: PathBuf,
}

impl Replacement {
    /// Begins to replace `target`. Its permissions are kept if it is a regular file. A link at `target`
    /// itself is replaced, not followed.
    ///
    /// # Errors
    /// Whatever the system refuses, such as a folder that does not exist.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let old = fs::symlink_metadata(target).ok();
        let kept = old.filter(|old| old.is_file()).map(|old| old.permissions());
        let file = Self::begin_with(target, 0o666)?;
        if let Some(permissions) = kept {
            file.file.as_file().set_permissions(permissions)?;
        }
        Ok(file)
    }

    /// [`Replacement::begin`] with permissions of its own, less those that the umask takes.
    pub(crate) fn begin_with(target: &Path, mode: u32) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            let message = "the path names no file";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        };
        let folder = folder_of(target);
        // Leftovers waste space, no more: a folder that cannot be listed can still be written to.
        let _ = remove_leftovers(folder, Some(name));
        let file = create(folder, name, mode)?;
        let target = target.to_owned();
        Ok(Self { file, target })
    }

    /// Puts the content onto the disk and in place of the target.
    ///
    /// # Errors
    /// Whatever the system refuses; the target is then as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        self.rename()
    }

    /// [`Replacement::finish`] that keeps what the target was as `previous`. There is a whole file at
    /// the target at any moment.
    ///
    /// # Errors
    /// As [`Replacement::finish`].
    pub fn finish_keeping(mut self, previous: &Path) -> io::Result<()> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        if fs::symlink_metadata(&self.target).is_ok_and(|old| old.is_file()) {
            keep(&self.target, previous)?;
        }
        self.rename()
    }

    /// [`Replacement::finish`] for a target that must not be there yet. The file that is returned holds
    /// the lock: while it is open, others can tell that this process runs.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`], and as [`Replacement::finish`].
    pub fn finish_new(mut self) -> io::Result<File> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        let named = self.file.persist_noclobber(&self.target);
        named.map_err(|error| error.error)
    }

    fn rename(self) -> io::Result<()> {
        let folder = folder_of(&self.target).to_owned();
        self.file
            .persist(&self.target)
            .map_err(|error| error.error)?;
        // The rename is on the disk once the folder is. Not every file system can promise that.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Replacement {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// Replaces a file by `content`: afterwards it is the old one or the new one, whole.
///
/// # Errors
/// As [`Replacement`].
pub fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Replacement::begin(target)?;
    file.write_all(content)?;
    file.finish()
}

/// Removes files that processes began to write and did not finish: those for `name`, or all in the
/// folder. Files of running writers are locked and stay.
///
/// # Errors
/// A folder that cannot be listed.
pub fn remove_leftovers(folder: &Path, name: Option<&OsStr>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.file_name();
        let Some(of) = target_name(&found) else {
            continue;
        };
        if name.is_some_and(|name| name.as_bytes() != of) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = open_with(&path, libc::O_NOFOLLOW) else {
            continue;
        };
        let ours = file
            .metadata()
            .is_ok_and(|file| file.uid() == effective_user());
        if ours && file.try_lock().is_ok() {
            // Somebody else may have removed it meanwhile.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Makes `previous` another name of the file at `target`, which stays. Where several processes write to one
/// target, one of them is enough.
fn keep(target: &Path, previous: &Path) -> io::Result<()> {
    let folder = folder_of(target);
    let name = target.file_name().unwrap_or_default();
    let inode = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()));
    if inode(target)? == inode(previous).unwrap_or_default() {
        // A writer was killed between the two renames. Renaming one name of a file to another does nothing.
        return Ok(());
    }
    // A link cannot take the place of a file; one with a new name can be renamed.
    let link = Builder::new()
        .prefix(&prefix(name))
        .suffix(OsStr::from_bytes(ENDING))
        .rand_bytes(RANDOM)
        .make_in(folder, |path| fs::hard_link(target, path));
    let kept = match link {
        Ok(link) => link.persist(previous).map(drop).map_err(|e| e.error),
        // Without links, there is no file at the target for a moment.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            fs::rename(target, previous)
        }
        Err(error) => Err(error),
    };
    match kept {
        // Another writer has taken the link for a leftover, or the target away.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        kept => kept,
    }
}

/// What the names of files begin with that are to become `name`.
fn prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// A locked file with a random name.
fn create(folder: &Path, name: &OsStr, mode: u32) -> io::Result<NamedTempFile> {
    for _ in 0..TRIES {
        let mut refusal = None;
        let made = Builder::new()
            .prefix(&prefix(name))
            .suffix(OsStr::from_bytes(ENDING))
            .rand_bytes(RANDOM)
            .make_in(folder, |path| {
                let made = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(mode)
                    .open(path);
                refusal = made.as_ref().err().and_then(io::Error::raw_os_error);
                made
            });
        // The library's error is the system's with a path that nobody has asked for.
        let file = made.map_err(|error| refusal.map_or(error, io::Error::from_raw_os_error))?;
        // Between creating and locking it, the file may be taken for a leftover.
        if file.as_file().try_lock().is_ok() && file.as_file().metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
    let message = "the temporary file was removed repeatedly";
    Err(io::Error::other(message))
}

/// The name of the file that a leftover was to become.
fn target_name(found: &OsStr) -> Option<&[u8]> {
    let middle = found.as_bytes().strip_prefix(b".")?.strip_suffix(ENDING)?;
    let (name, random) = middle.split_at_checked(middle.len().checked_sub(RANDOM + 1)?)?;
    let random = random.strip_prefix(b".")?;
    random.iter().all(u8::is_ascii_alphanumeric).then_some(name)
}

/// The folder that a file lies in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call has no arguments and always succeeds.
    unsafe { libc::geteuid() }
}
