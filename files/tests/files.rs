//! Files under attack: links, pipes, devices, leftovers, folders that others can write to.
#![allow(clippy::unwrap_used)]

use gnnc_files::{Replacement, private, read, read_text, remove_leftovers, replace};
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn pipe(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

#[test]
fn pipes_devices_and_folders_are_refused_at_once() {
    let folder = tempdir().unwrap();
    let refused = |path: &Path| read(path, u64::MAX - 1).unwrap_err().to_string();
    assert!(refused(&pipe(&folder)).contains("a pipe"));
    assert!(refused(Path::new("/dev/zero")).contains("a device"));
    assert!(refused(folder.path()).contains("directory"));
}

#[test]
fn limits_hold() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, [7; 100]).unwrap();
    assert_eq!(read(&path, 100).unwrap().len(), 100);
    let error = read(&path, 99).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("100 bytes"), "{error}");
    // A sparse file, larger than what it holds.
    File::create(&path).unwrap().set_len(1 << 41).unwrap();
    assert_eq!(
        read(&path, 1 << 40).unwrap_err().kind(),
        ErrorKind::FileTooLarge
    );
    fs::write(&path, b"ab\xff").unwrap();
    let error = read_text(&path, 9).unwrap_err().to_string();
    assert!(error.contains("byte 2"), "{error}");
}

#[test]
fn a_replacement_is_whole_or_absent() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a");
    replace(&path, b"old").unwrap();
    set_mode(&path, 0o640);
    let mut file = Replacement::begin(&path).unwrap();
    file.write_all(b"ne").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(file);
    assert_eq!(names(&folder), ["a"]);
    replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_eq!(names(&folder), ["a"]);
}

#[test]
fn planted_links_are_not_followed() {
    let folder = tempdir().unwrap();
    let (victim, path) = (folder.path().join("victim"), folder.path().join("a"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &path).unwrap();
    replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    // Names change from one file to the next, so that nobody can plant one.
    let one = Replacement::begin(&path).unwrap();
    let before = names(&folder);
    drop(one);
    let two = Replacement::begin(&path).unwrap();
    assert_ne!(names(&folder), before);
    drop(two);
}

#[test]
fn leftovers_of_dead_processes_are_removed_and_others_stay() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a");
    let dead = ".a.0123456789ab.part";
    let strangers = [
        ".b.0123456789ab.part",
        ".a.part",
        "a.0123456789ab.part",
        ".a.-------------.part",
    ];
    for name in strangers.iter().chain([&dead]) {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    let running = Replacement::begin(&path).unwrap();
    assert_eq!(
        names(&folder).len(),
        5,
        "the leftover went, the running one is there"
    );
    replace(&path, b"new").unwrap();
    assert_eq!(
        names(&folder).len(),
        6,
        "nobody removes what is being written"
    );
    running.finish().unwrap();
    let mut left: Vec<&str> = strangers.to_vec();
    left.push("a");
    left.sort_unstable();
    assert_eq!(names(&folder), left);
    remove_leftovers(folder.path(), None).unwrap();
    assert!(!names(&folder).contains(&strangers[0].to_owned()));
}

#[test]
fn a_new_file_takes_the_place_of_none_and_stays_locked() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a");
    let new = |content: &[u8]| {
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(content).unwrap();
        file.finish_new()
    };
    let held = new(b"one").unwrap();
    let error = new(b"two").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(names(&folder), ["a"]);
    assert!(File::open(&path).unwrap().try_lock().is_err());
    drop(held);
    assert!(File::open(&path).unwrap().try_lock().is_ok());
}

#[test]
fn the_file_before_is_kept() {
    let folder = tempdir().unwrap();
    let (path, before) = (folder.path().join("a"), folder.path().join("before"));
    for content in ["1", "2", "3"] {
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file.finish_keeping(&before).unwrap();
    }
    // As left by a writer that was killed before its last step.
    fs::remove_file(&before).unwrap();
    fs::hard_link(&path, &before).unwrap();
    let mut file = Replacement::begin(&path).unwrap();
    file.write_all(b"4").unwrap();
    file.finish_keeping(&before).unwrap();
    assert_eq!(names(&folder), ["a", "before"]);
    assert_eq!(fs::read_to_string(&before).unwrap(), "3");
    fs::write(&path, "3").unwrap();
    fs::write(&before, "2").unwrap();
    assert_eq!(fs::read_to_string(&before).unwrap(), "2");
    assert_eq!(names(&folder), ["a", "before"]);
}

#[test]
fn what_cannot_be_written_says_why() {
    let folder = tempdir().unwrap();
    let error = replace(&folder.path().join("none/a"), b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("No such file"), "{error}");
    assert!(replace(Path::new("/"), b"").is_err());
}

#[test]
fn only_private_folders_and_files_are_used() {
    let folder = tempdir().unwrap();
    let inner = folder.path().join("new/cache");
    private::make(&inner).unwrap();
    assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
    let file = inner.join("a");
    private::replace(&file, b"code").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(private::read(&file, 9).unwrap(), b"code");
    assert!(private::read(&file, 3).is_err());
    for mode in [0o620, 0o602, 0o666] {
        set_mode(&file, mode);
        let error = private::read(&file, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{mode:o}");
    }
    set_mode(&file, 0o600);
    let link = inner.join("link");
    symlink(&file, &link).unwrap();
    assert!(private::read(&link, 9).is_err());
    assert!(private::read(&pipe(&folder), 9).is_err());
    for mode in [0o770, 0o707, 0o777] {
        set_mode(&inner, mode);
        let error = private::make(&inner).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }
    set_mode(&inner, 0o755);
    private::check(&inner).unwrap();
}

#[test]
fn what_belongs_to_others_is_not_used() {
    let theirs = Path::new("/proc/1");
    let me = fs::metadata("/proc/self").unwrap().uid();
    let nobody = if me == 0 { 65_534 } else { 0 };
    if me == 0 {
        // Root can give a folder away.
        let folder = tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(nobody), None).unwrap();
        let error = private::check(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another user"), "{error}");
    } else {
        assert!(
            private::check(theirs)
                .unwrap_err()
                .to_string()
                .contains("another user")
        );
    }
}
