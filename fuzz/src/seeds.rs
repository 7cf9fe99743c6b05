//! Valid inputs to start from: the examples, and small files in every format.

use crate::changes::Random;
use gnnc_graph::{GraphData, example, summarise, write};
use gnnc_runtime::{Tensor, first_checkpoint};
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// A pilot of two classes, one of which reached its target.
const PILOT: &str = r#"version = 1
metric = "accuracy"
target = 0.75
seeds = [0]
learning_rates = [0.01, 0.03]
epochs = 100
evaluate_every = 2
budget_seconds = 60.0
used_seconds = 1.5
interrupted = true
[made_for]
gnnc = "0.1.0"
model = "gcn"
fingerprint = "00aa"
graph = "cora"
graph_key = "bb00"
judged_by = "accuracy"
patience = 7
[made_for.schedule]
name = "cosine"
warmup = 3
[[classes]]
name = "whole graph"
steps_per_epoch = 1
[classes.class.method]
kind = "exact"
[[classes.runs]]
learning_rate = 0.01
seed = 0
end = "reached"
epochs = 4
steps = 4
seconds = 0.125
evaluation_seconds = 0.0625
curve = { steps = [2, 4], scores = [0.5, 0.75] }
[[classes]]
name = "batches"
steps_per_epoch = 9
[classes.class]
storage = "bf16"
[classes.class.method]
kind = "sampled"
batch = 512
fanouts = ["10", "5/all"]
sampler = "labor"
cut = "drop"
own_roots = { ranks = 4, partitioner = "metis" }
static = true
delay = 2
eval_fanouts = ["20"]
[[classes.runs]]
learning_rate = 0.03
seed = 0
end = "diverged"
epochs = 3
steps = 27
seconds = 0.5
evaluation_seconds = 0.25
curve = { steps = [18], scores = [0.25] }
[[left_out]]
what = "stale copies"
reason = "one worker has none"
"#;

/// Seeds of a target.
///
/// # Panics
/// If the repository lacks the files that seeds come from, or there is no such target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let graph = example::g8();
    match target {
        "gir" => files(&["examples", "benches/models", "lang/src"], "gir"),
        "npz" => vec![archive(&graph)],
        "npz_array" => {
            let arrays = ARRAYS.iter().zip(0u8..);
            arrays.map(|((_, bytes), i)| prefixed(i, bytes)).collect()
        }
        "npy" => {
            let named = |(name, _): &&(String, Vec<u8>)| name.starts_with("features");
            let found = ARRAYS.iter().filter(named).map(|(_, bytes)| bytes.clone());
            found.chain([matrix()]).collect()
        }
        "mtx" => vec![
            text(|out| write::matrix_market(&graph.topology, out)),
            b"%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 2 1e3\n".to_vec(),
        ],
        "metis" => vec![
            text(|out| write::metis(&graph.topology, out)),
            b"% weighted\n3 2 011 1\n7 2 1\n3 1 1 3 5\n9 2 5\n".to_vec(),
        ],
        "edges" => [',', '\t', ' ']
            .map(|separator| text(|out| write::edges(&graph.topology, separator, out)))
            .into(),
        "parquet" => crate::tables::seeds(),
        "cluster" => files(&["examples/clusters"], "toml"),
        "pilot" => vec![PILOT.as_bytes().to_vec()],
        "plan" => {
            let path = "planner/tests/plan/snapshots/plan__report__a_plan_as_json.snap";
            let snapshot = fs::read_to_string(root().join(path)).expect("a plan");
            let plan = snapshot
                .splitn(3, "---\n")
                .nth(2)
                .expect("a header before the plan");
            vec![plan.as_bytes().to_vec()]
        }
        "workload" => {
            let workload = summarise(&graph, &[]).expect("a summary");
            vec![serde_json::to_vec_pretty(&workload).expect("JSON")]
        }
        "checkpoint" => vec![checkpoint()],
        "model" | "array" | "session" => bytes(),
        "listing" => crate::listing::seeds(),
        other => panic!("there is no target `{other}`"),
    }
}

/// The tensors of the checkpoints.
pub fn tensors() -> Vec<Tensor> {
    let tensor = |name: &str, shape: [u32; 3]| Tensor {
        name: name.to_owned(),
        shape,
        values: vec![0.5; shape.iter().product::<u32>() as usize],
    };
    vec![tensor("b", [1, 1, 3]), tensor("w", [2, 2, 3])]
}

/// A valid archive in which one array is replaced.
pub fn archive_with(which: usize, content: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (i, (name, bytes)) in ARRAYS.iter().enumerate() {
        let bytes = if i == which % ARRAYS.len() {
            content
        } else {
            bytes
        };
        // Uncompressed, because inflating is not under test and took most of the time.
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(name.as_str(), stored).expect("an entry");
        zip.write_all(bytes).expect("memory");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Names and contents of the arrays of an archive.
static ARRAYS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut zip = ZipArchive::new(Cursor::new(archive(&example::g8()))).expect("an archive");
    let mut arrays = Vec::new();
    for i in 0..zip.len() {
        let mut file = zip.by_index(i).expect("an entry");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("its content");
        arrays.push((file.name().to_owned(), bytes));
    }
    arrays
});

fn archive(graph: &GraphData) -> Vec<u8> {
    let out = write::npz(graph, Cursor::new(Vec::new()));
    out.expect("memory").into_inner()
}

/// Bytes for choices.
fn bytes() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let mut bytes = |count: usize| (0..count).map(|_| random.below(256) as u8).collect();
    (0..32).map(|n| bytes(8 + n)).collect()
}

fn prefixed(first: u8, bytes: &[u8]) -> Vec<u8> {
    [&[first], bytes].concat()
}

/// A matrix of 64-bit floats, column by column.
fn matrix() -> Vec<u8> {
    let mut header = b"{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }".to_vec();
    header.resize(117, b' ');
    header.push(b'\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header);
    bytes.extend((0..6).flat_map(|i| f64::from(i).to_le_bytes()));
    bytes
}

fn text(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory");
    bytes
}

/// A checkpoint of [`tensors`].
fn checkpoint() -> Vec<u8> {
    first_checkpoint("gcn", tensors()).expect("tensors of their shapes")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files with an extension in some folders, sorted.
fn files(folders: &[&str], ending: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(root().join(folder)).expect("a folder of the repository") {
            paths.push(entry.expect("an entry").path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == ending));
    paths.sort();
    let read = |path: PathBuf| fs::read(path).expect("a file of the repository");
    paths.into_iter().map(read).collect()
}
