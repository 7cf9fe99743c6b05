//! Claiming a file that one process at a time may write.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Attempts, if those who give up claims keep removing the file.
const TRIES: u32 = 16;

/// A claim to a file. While it lives, no other process that asks gets one; it ends with the process, however that
/// ends. A hidden file beside the claimed one, `.NAME.lock`, carries the lock.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// What came of an attempt to claim a file.
#[derive(Debug)]
pub enum Claimed {
    /// It is claimed.
    Yes(Claim),
    /// Another process has claimed it.
    Taken,
    /// The file system has no locks, or takes no files here.
    Unknown,
}

impl Claim {
    /// Tries to claim a file, which need not exist.
    pub fn of(target: &Path) -> Claimed {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".lock");
        let path = target.with_file_name(name);
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            let opened = options.custom_flags(libc::O_NOFOLLOW).open(&path);
            let Ok(file) = opened else {
                return Claimed::Unknown;
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Claimed::Taken,
                Err(TryLockError::Error(_)) => return Claimed::Unknown,
            }
            // Its last owner may have removed it before the lock was free.
            if is_at(&file, &path).unwrap_or(false) {
                return Claimed::Yes(Self { path, _file: file });
            }
        }
        Claimed::Unknown
    }
}

/// Whether a path still names an open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, named) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock is free once the file is closed; what cannot be removed does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("run");
        let Claimed::Yes(first) = Claim::of(&target) else {
            panic!("not claimed");
        };
        assert!(matches!(Claim::of(&target), Claimed::Taken));
        assert!(matches!(
            Claim::of(&folder.path().join("other")),
            Claimed::Yes(_)
        ));
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(matches!(Claim::of(&target), Claimed::Yes(_)));
    }

    #[test]
    fn what_a_killed_process_leaves_is_claimed_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".run.lock"), "").unwrap();
        assert!(matches!(
            Claim::of(&folder.path().join("run")),
            Claimed::Yes(_)
        ));
    }

    #[test]
    fn without_a_folder_nothing_is_known() {
        assert!(matches!(
            Claim::of(Path::new("/nowhere/at/all")),
            Claimed::Unknown
        ));
    }
}
