//! Replacing files: write beside the target, sync to disk, rename.

use crate::read::open_with;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Suffix of files being written.
const ENDING: &[u8] = b".part";
/// Random characters in the name.
const RANDOM: usize = 12;
/// Attempts with new names if somebody keeps removing the file.
const TRIES: u32 = 16;

/// A file being written beside its target. Until [`Replacement::finish`] the target is unchanged;
/// dropping a replacement leaves nothing behind.
///
/// The file has a random name, is always newly created and never opened through a link. The writer
/// holds a lock on it, so that later writers can recognize the leftovers of a killed process.
#[derive(Debug)]
pub struct Replacement {
    file: NamedTempFile,
    target: PathBuf,
}

impl Replacement {
    /// Begins to replace `target`. Keeps its permissions if it is a regular file. A link at
    /// `target` is itself replaced, not followed.
    ///
    /// # Errors
    /// Any error of the system, such as a missing folder.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let old = fs::symlink_metadata(target).ok();
        let kept = old.filter(|old| old.is_file()).map(|old| old.permissions());
        let file = Self::begin_with(target, 0o666)?;
        if let Some(permissions) = kept {
            file.file.as_file().set_permissions(permissions)?;
        }
        Ok(file)
    }

    /// [`Replacement::begin`] with the given permissions, minus the umask.
    pub(crate) fn begin_with(target: &Path, mode: u32) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            let message = "the path names no file";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        };
        let folder = folder_of(target);
        // Leftovers only waste space, and a folder that cannot be listed may still be writable.
        let _ = remove_leftovers(folder, Some(name));
        let file = create(folder, name, mode)?;
        let target = target.to_owned();
        Ok(Self { file, target })
    }

    /// Syncs the content to disk and renames it to the target.
    ///
    /// # Errors
    /// Any error of the system; the target is then unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        self.rename()
    }

    /// Like [`Replacement::finish`], but keeps the old target as `previous`. The target is a whole
    /// file at every moment.
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

    /// [`Replacement::finish`] for a target that must not exist yet. The returned file holds the
    /// lock: while it is open, others can tell that this process is running.
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
        // The rename is on disk once the folder is. Not every file system can promise that.
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

/// Replaces a file with `content`: afterwards it is wholly the old one or wholly the new one.
///
/// # Errors
/// As [`Replacement`].
pub fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Replacement::begin(target)?;
    file.write_all(content)?;
    file.finish()
}

/// Removes files that other processes began to write and never finished: those for `name`, or all
/// in the folder. Files of running writers are locked and stay.
///
/// # Errors
/// If the folder cannot be listed.
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

/// Makes `previous` another name of the file at `target`, which stays. If several processes write
/// to one target, one of them succeeding is enough.
fn keep(target: &Path, previous: &Path) -> io::Result<()> {
    let folder = folder_of(target);
    let name = target.file_name().unwrap_or_default();
    let inode = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()));
    if inode(target)? == inode(previous).unwrap_or_default() {
        // A writer was killed between the two renames. Renaming would do nothing: both names are
        // one file.
        return Ok(());
    }
    // A hard link cannot overwrite a file, but a link under a new name can be renamed.
    let link = Builder::new()
        .prefix(&prefix(name))
        .suffix(OsStr::from_bytes(ENDING))
        .rand_bytes(RANDOM)
        .make_in(folder, |path| fs::hard_link(target, path));
    let kept = match link {
        Ok(link) => link.persist(previous).map(drop).map_err(|e| e.error),
        // Without links, the target is briefly missing.
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
        // Another writer removed the link as a leftover, or moved the target.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        kept => kept,
    }
}

/// Prefix of the names of files that will become `name`.
fn prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// Creates a locked file with a random name.
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
        // The library's error adds a path that means nothing to the user; report the system's
        // error.
        let file = made.map_err(|error| refusal.map_or(error, io::Error::from_raw_os_error))?;
        // Between its creation and its lock, the file may be removed as a leftover.
        if file.as_file().try_lock().is_ok() && file.as_file().metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
    let message = "the temporary file was removed repeatedly";
    Err(io::Error::other(message))
}

/// The target name of a leftover.
fn target_name(found: &OsStr) -> Option<&[u8]> {
    let middle = found.as_bytes().strip_prefix(b".")?.strip_suffix(ENDING)?;
    let (name, random) = middle.split_at_checked(middle.len().checked_sub(RANDOM + 1)?)?;
    let random = random.strip_prefix(b".")?;
    random.iter().all(u8::is_ascii_alphanumeric).then_some(name)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The effective user of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call has no arguments and always succeeds.
    unsafe { libc::geteuid() }
}
