//! The compile cache: hits, and files that are corrupt, foreign or unwritable.
#![allow(clippy::unwrap_used)]

mod support;

use gnnc_codegen::cpu::{Compiler, Statistics};
use gnnc_files::Cache;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::words::scalar::Unary;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn kernel(width: u32) -> Kernel {
    let mut value = Expr::leaf(Value::Load(0));
    value.push(Value::Unary(Unary::Sigmoid, 0));
    Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![value],
        },
        heads: 1,
        width,
        inputs: vec![Operand::dense(At::Row, 1, width)],
        outputs: vec![Operand::dense(At::Row, 1, width)],
        masks: vec![],
        scalars: 0,
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gnnc-cache-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn only_file(&self) -> PathBuf {
        let files: Vec<PathBuf> = fs::read_dir(&self.0)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path) -> Statistics {
    let compiler = Compiler::new(Cache::open(folder).ok()).unwrap();
    let part = support::Part::random(&mut support::Random(1), 10, 0, 0);
    support::check(&compiler, "cached", &kernel(5), &part, 1);
    compiler.statistics()
}

#[test]
fn a_second_compiler_finds_the_code() {
    let folder = Folder::new("hit");
    assert_eq!(compile(&folder.0).compiled, 1);
    let second = compile(&folder.0);
    assert_eq!((second.compiled, second.disk_hits), (0, 1));
}

#[test]
fn memory_comes_before_disk() {
    let folder = Folder::new("memory");
    let compiler = Compiler::new(Some(Cache::open(&folder.0).unwrap())).unwrap();
    let first = compiler.compile(&kernel(5)).unwrap();
    let second = compiler.compile(&kernel(5)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!(
        compiler.statistics(),
        Statistics {
            compiled: 1,
            disk_hits: 0,
            memory_hits: 1
        }
    );
}

#[test]
fn damaged_files_are_compiled_again() {
    let folder = Folder::new("damaged");
    compile(&folder.0);
    let file = folder.only_file();
    let good = fs::read(&file).unwrap();
    let middle = good.len() / 2;
    let mut flipped = good.clone();
    flipped[middle] ^= 1;
    let mut code_flipped = good.clone();
    let near_end = good.len() - 20;
    code_flipped[near_end] ^= 0x40;
    let longer = [good.as_slice(), &[0]].concat();
    for bad in [
        vec![],
        b"gnnc-k02".to_vec(),
        good[..middle].to_vec(),
        good[..good.len() - 1].to_vec(),
        flipped,
        code_flipped,
        longer,
    ] {
        fs::write(&file, &bad).unwrap();
        let statistics = compile(&folder.0);
        assert_eq!((statistics.compiled, statistics.disk_hits), (1, 0));
        assert_eq!(fs::read(&file).unwrap(), good, "the file was not repaired");
    }
}

#[test]
fn code_of_another_kernel_is_not_taken() {
    let folder = Folder::new("foreign");
    compile(&folder.0);
    let file = folder.only_file();
    let other = Folder::new("other");
    Compiler::new(Some(Cache::open(&other.0).unwrap()))
        .unwrap()
        .compile(&kernel(9))
        .unwrap();
    fs::copy(other.only_file(), &file).unwrap();
    assert_eq!(compile(&folder.0).compiled, 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = Folder::new("file");
    fs::write(&folder.0, "not a folder").unwrap();
    assert!(Cache::open(&folder.0).is_err());
    fs::remove_file(&folder.0).unwrap();
}

/// Code that somebody else may have written is never executed: a file that others can write to,
/// a link to such a file, a pipe (which would hang the run), or a whole folder that belongs to
/// others.
#[test]
fn code_that_others_can_write_is_not_used() {
    let folder = Folder::new("others");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    compile(&folder.0);
    assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777, 0o700);
    let file = folder.only_file();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(compile(&folder.0).disk_hits, 1);

    mode(&file, 0o666);
    assert_eq!(compile(&folder.0).compiled, 1);
    assert_eq!(compile(&folder.0).disk_hits, 1, "the file was replaced");

    let kept = folder.0.join("kept");
    fs::rename(&file, &kept).unwrap();
    symlink(&kept, &file).unwrap();
    assert_eq!(compile(&folder.0).compiled, 1);
    assert!(fs::symlink_metadata(&file).unwrap().is_file());

    fs::remove_file(&file).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(compile(&folder.0).compiled, 1);

    let compiler = Compiler::new(Some(Cache::open(&folder.0).unwrap())).unwrap();
    mode(&file, 0o606);
    compiler.compile(&kernel(5)).unwrap();
    let refused = compiler.cache().unwrap().refused().unwrap().to_owned();
    assert!(refused.contains("others can write to it"), "{refused}");

    mode(&folder.0, 0o777);
    let error = Cache::open(&folder.0).unwrap_err().to_string();
    assert!(error.contains("others can write to it"), "{error}");
}

#[test]
fn memory_is_never_writable_and_executable_at_once() {
    let compiler = Compiler::new(None).unwrap();
    let kept: Vec<_> = (1..20)
        .map(|width| compiler.compile(&kernel(width)).unwrap())
        .collect();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let rights: Vec<&str> = maps
        .lines()
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    assert!(rights.len() > kept.len());
    assert!(
        !rights.iter().any(|r| r.contains('w') && r.contains('x')),
        "{maps}"
    );
}

#[test]
fn many_threads_share_a_compiler() {
    let compiler = Compiler::new(None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (1..12).for_each(|width| drop(compiler.compile(&kernel(width)).unwrap()))
            });
        }
    });
    let statistics = compiler.statistics();
    assert_eq!(statistics.compiled + statistics.memory_hits, 44);
    assert!((11..=44).contains(&statistics.compiled));
}
