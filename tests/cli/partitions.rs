//! The cache of partitions: what is found in it, what is not trusted, and that results do not depend on it.

use crate::support::{Folder, command, example, finished, text, train_two};
use gnnc::graph::partition::{Metis, Partition, PartitionInput, Partitioner, by_name};
use gnnc::graph::{GraphData, GraphError, LoadOptions, Topology, load};
use gnnc::{Cache, Cached, cut_chunks, partitions};
use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// METIS, which remembers the numbers of parts that it made.
#[derive(Default)]
struct Watched {
    metis: Metis,
    made: RefCell<Vec<u32>>,
}

impl Partitioner for Watched {
    fn name(&self) -> &'static str {
        self.metis.name()
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        self.made.borrow_mut().push(parts);
        self.metis.partition(graph, parts)
    }

    fn key(&self, graph: PartitionInput) -> Option<String> {
        self.metis.key(graph)
    }

    fn merged(&self, finer: &Partition, parts: u32) -> Option<Partition> {
        self.metis.merged(finer, parts)
    }
}

impl Watched {
    /// Partitions Cora with a cache, checks that the result is the one without, and tells what METIS had to make.
    fn made(&self, cora: &Topology, parts: &[u32], cache: &Cache) -> Vec<u32> {
        let found = partitions(cora.into(), self, parts, Some(cache)).unwrap();
        let made = self.made.take();
        assert!(
            found == self.metis.partitions(cora.into(), parts).unwrap(),
            "{parts:?}"
        );
        made
    }
}

fn cora() -> Topology {
    let data = load(example("data/cora.npz"), &LoadOptions::default());
    data.unwrap().topology
}

/// An empty cache and its folder.
fn empty(folder: &Folder) -> (Cache, PathBuf) {
    let path = folder.join("cache");
    (Cache::open(&path).unwrap(), path)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The key in a file of the cache: behind a magic number and the key's length, of eight bytes each.
fn key(file: &Path) -> String {
    let bytes = fs::read(file).unwrap();
    let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    String::from_utf8(bytes[16..16 + length].to_vec()).unwrap()
}

#[test]
fn a_stored_partition_is_not_made_again() {
    let (folder, cora, metis) = (Folder::new(), cora(), Watched::default());
    let (cache, path) = empty(&folder);
    assert_eq!(metis.made(&cora, &[3, 5], &cache), [3, 5]);
    assert_eq!(metis.made(&cora, &[3, 5, 7], &cache), [7]);
    assert!(
        metis
            .made(&cora, &[7, 3], &Cache::open(&path).unwrap())
            .is_empty()
    );
    // More parts than a byte can number.
    assert_eq!(metis.made(&cora, &[300], &cache), [300]);
    assert!(metis.made(&cora, &[300], &cache).is_empty());
}

#[test]
fn fewer_parts_come_from_a_stored_partition_into_more() {
    let (folder, cora, metis) = (Folder::new(), cora(), Watched::default());
    let (cache, path) = empty(&folder);
    assert_eq!(metis.made(&cora, &[24], &cache), [24]);
    assert_eq!(metis.made(&cora, &[3, 6, 12], &cache), [3, 6, 12]);
    fs::remove_dir_all(&path).unwrap();
    let (cache, path) = empty(&folder);
    assert_eq!(metis.made(&cora, &[16], &cache), [16]);
    assert!(metis.made(&cora, &[8, 2, 4], &cache).is_empty());
    assert_eq!(files(&path).len(), 1);
}

#[test]
fn other_graphs_partitioners_and_seeds_have_other_keys() {
    let (folder, cora) = (Folder::new(), cora());
    let (cache, path) = empty(&folder);
    let ends = |n: u32| (0..n).map(move |v| (v, (v + 1) % n));
    let (ring, _) = Topology::from_edges(cora.vertices(), ends(cora.vertices())).unwrap();
    let mut stored = 0;
    for graph in [&cora, &ring] {
        for (name, seed) in [("metis", 0), ("metis", 1), ("metis-edges", 0)] {
            let method = by_name(name, seed).unwrap();
            let found = partitions(graph.into(), &*method, &[2], Some(&cache)).unwrap();
            assert!(found == method.partitions(graph.into(), &[2]).unwrap());
            stored += 1;
            assert_eq!(files(&path).len(), stored, "{name} {seed}");
        }
    }
    // These are as fast as reading.
    for name in ["hash", "range"] {
        partitions(
            (&cora).into(),
            &*by_name(name, 0).unwrap(),
            &[2],
            Some(&cache),
        )
        .unwrap();
    }
    assert_eq!(files(&path).len(), stored);
}

/// A partition by splits is found again only for the same splits.
#[test]
fn other_splits_have_other_keys() {
    let folder = Folder::new();
    let (cache, path) = empty(&folder);
    let whole = load(example("data/cora.npz"), &LoadOptions::default()).unwrap();
    let mut other = whole.clone();
    (other.train, other.val) = (whole.val.clone(), whole.train.clone());
    let splits = by_name("metis-splits", 0).unwrap();
    let made = |data: &GraphData| partitions(data.into(), &*splits, &[4], Some(&cache)).unwrap();
    for (n, data) in [&whole, &other, &whole].into_iter().enumerate() {
        assert!(made(data) == splits.partitions(data.into(), &[4]).unwrap());
        assert_eq!(files(&path).len(), (n + 1).min(2));
    }
}

#[test]
fn impossible_parts_are_refused_as_without_a_cache() {
    let folder = Folder::new();
    let (cache, _) = empty(&folder);
    let (cora, metis) = (cora(), Metis::default());
    for parts in [0, 2709, u32::MAX] {
        let with = partitions((&cora).into(), &metis, &[2, parts], Some(&cache)).unwrap_err();
        let without = metis.partitions((&cora).into(), &[2, parts]).unwrap_err();
        assert_eq!(with.to_string(), without.to_string());
    }
}

#[test]
fn files_that_are_not_whole_are_made_again() {
    let (folder, cora, metis) = (Folder::new(), cora(), Watched::default());
    let (cache, path) = empty(&folder);
    metis.made(&cora, &[3], &cache);
    let file = files(&path).remove(0);
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let other_method = Metis {
        seed: 9,
        ..Metis::default()
    };
    partitions((&cora).into(), &other_method, &[3], Some(&cache)).unwrap();
    let foreign = files(&path).into_iter().find(|other| *other != file);
    let foreign = fs::read(foreign.unwrap()).unwrap();
    for bad in [vec![], good[..good.len() - 1].to_vec(), flipped, foreign] {
        fs::write(&file, bad).unwrap();
        assert_eq!(metis.made(&cora, &[3], &cache), [3]);
        assert_eq!(fs::read(&file).unwrap(), good, "the file was not repaired");
    }
    // Whole files of the right key that hold no such partition.
    let key = key(&file);
    let numbers = vec![0; 2708];
    let mut large = numbers.clone();
    large[17] = 3;
    for bad in [
        &numbers[..2707],
        &[&numbers[..], &[0]].concat(),
        &large,
        &[],
    ] {
        assert!(cache.store(Cached::Partition, &key, bad));
        assert_eq!(metis.made(&cora, &[3], &cache), [3]);
        assert_eq!(fs::read(&file).unwrap(), good, "the file was not repaired");
    }
    // The same for a partition from which fewer parts would follow.
    fs::remove_dir_all(&path).unwrap();
    let (cache, path) = empty(&folder);
    metis.made(&cora, &[4], &cache);
    fs::write(files(&path).remove(0), "gnnc-k02").unwrap();
    assert_eq!(metis.made(&cora, &[2], &cache), [2]);
}

#[test]
fn what_cannot_be_stored_is_made_each_time() {
    let (folder, cora, metis) = (Folder::new(), cora(), Watched::default());
    let (cache, path) = empty(&folder);
    metis.made(&cora, &[3], &cache);
    let file = files(&path).remove(0);
    // A folder in the place of the file can be neither read nor replaced.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for _ in 0..2 {
        assert_eq!(metis.made(&cora, &[3], &cache), [3]);
    }
    assert!(cache.refused().is_some());
    fs::remove_dir(&file).unwrap();
    // A folder that cannot be written still serves what it holds. (The superuser can write to it.)
    metis.made(&cora, &[3], &cache);
    fs::set_permissions(&path, Permissions::from_mode(0o500)).unwrap();
    let cache = Cache::open(&path).unwrap();
    assert!(metis.made(&cora, &[3], &cache).is_empty());
    assert_eq!(metis.made(&cora, &[5], &cache), [5]);
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn chunks_are_stored_beside_the_partition_that_they_cut() {
    let folder = Folder::new();
    let (cache, path) = empty(&folder);
    let cora = cora();
    for parts in [1, 2] {
        let whole = Metis::default().partition((&cora).into(), parts).unwrap();
        let plain = whole.clone().cut_chunks(&cora, 5, 0).unwrap();
        let before = files(&path).len();
        for _ in 0..2 {
            let cut = cut_chunks(&cora, whole.clone(), 5, Some(&cache)).unwrap();
            assert!(cut == plain);
        }
        assert_eq!(files(&path).len(), before + 1);
    }
    // Chunks that are stored are taken: another cut under the key comes back.
    let whole = Partition::whole(cora.vertices());
    let file = files(&path).into_iter().find(|file| {
        let of = format!("partition {}\n", whole.digest());
        key(file).contains(&of)
    });
    let other: Vec<u8> = (0..2708u32).map(|v| (v % 5) as u8).collect();
    assert!(cache.store(Cached::Partition, &key(&file.unwrap()), &other));
    let cut = cut_chunks(&cora, whole.clone(), 5, Some(&cache)).unwrap();
    assert!((0..2708).all(|v| cut.chunk_of(v) == v % 5));
    // One chunk needs no file, and too many are refused.
    let before = files(&path).len();
    cut_chunks(&cora, whole.clone(), 1, Some(&cache)).unwrap();
    assert_eq!(files(&path).len(), before);
    assert!(cut_chunks(&cora, whole, 2709, Some(&cache)).is_err());
}

/// Plans and losses are the same without a cache, with an empty one that several processes fill at once, and with a
/// full one.
#[test]
fn processes_that_share_a_cache_disturb_nobody() {
    let folder = Folder::new();
    let (model, path) = (example("gcnii_cora.gir"), folder.join("cache"));
    let start = |name: &str, more: &[&str]| {
        let out = folder.join(name);
        let mut command = command();
        command.args(["plan", &model, "--gpus", "8", "--out", text(&out)]);
        command.args(more).env("GNNC_CACHE", &path);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (out, piped.spawn().unwrap())
    };
    let (plain, process) = start("plain.json", &["--no-cache"]);
    finished(process.wait_with_output().unwrap()).ok();
    assert!(!path.exists());
    let plain = fs::read(plain).unwrap();
    let at_once: Vec<_> = (0..4).map(|n| start(&format!("{n}.json"), &[])).collect();
    for (out, process) in at_once {
        finished(process.wait_with_output().unwrap()).ok();
        assert!(fs::read(out).unwrap() == plain);
    }
    let names: Vec<PathBuf> = files(&path);
    let partitions = names
        .iter()
        .all(|name| name.extension() == Some("partition".as_ref()));
    assert!(partitions && names.len() > 3, "{names:?}");
    let (warm, process) = start("warm.json", &[]);
    finished(process.wait_with_output().unwrap()).ok();
    assert!(fs::read(warm).unwrap() == plain);
    assert!(files(&path) == names);

    let train = |more: &[&str]| {
        let mut command = command();
        command.args(["train", &model, "--epochs", "3", "--format", "json"]);
        command.args([
            "--workers",
            "2",
            "--placement",
            "pipeline",
            "--allow",
            "stale",
        ]);
        command.args(more).env("GNNC_CACHE", &path);
        let summary = finished(command.output().unwrap()).json();
        summary["losses"].clone()
    };
    let plain = train(&["--no-cache"]);
    assert_eq!(train(&[]), plain);
    assert_eq!(train(&[]), plain);
}

#[test]
fn graph_commands_use_the_cache_as_well() {
    let folder = Folder::new();
    let (cora, path) = (example("data/cora.npz"), folder.join("cache"));
    let run = |args: &[&str]| {
        let mut command = command();
        command.args(["graph"]).args(args).env("GNNC_CACHE", &path);
        finished(command.output().unwrap()).ok()
    };
    let stats = ["stats", &cora, "--parts", "3,5"];
    let plain = run(&[&stats[..], &["--no-cache"]].concat());
    run(&["stats", &cora]);
    assert!(!path.exists());
    assert_eq!(run(&stats), plain);
    assert_eq!(files(&path).len(), 2);
    let part = ["partition", &cora, "--parts", "3"];
    let without = run(&[&part[..], &["--no-cache"]].concat());
    assert_eq!(run(&part), without);
    assert_eq!(files(&path).len(), 2);
}

/// Threads wait for the one with most edges, so these are balanced if nothing is said.
#[test]
fn threads_train_on_balanced_edges_by_default() {
    let run = |more: &[&str]| {
        let summary = train_two(&[&["--epochs", "2", "--format", "json"], more].concat()).json();
        (summary["bytes_sent"].clone(), summary["losses"].clone())
    };
    let default = run(&[]);
    assert_eq!(default, run(&["--partitioner", "metis-edges"]));
    assert_ne!(default, run(&["--partitioner", "metis"]));
}
