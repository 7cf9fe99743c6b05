//! Folders with the parts of a graph.

#![allow(clippy::unwrap_used)] // a test that cannot continue fails

use gnnc_graph::partition::by_name;
use gnnc_graph::parts::{self, MANIFEST, Parts, VERSION, WholeGraph};
use gnnc_graph::rng::Stream;
use gnnc_graph::{
    EdgeFeatures, Features, GraphData, Labels, LocalPart, Partition, Topology, summary,
};
use std::path::Path;

/// Numbers that are drawn one after another.
struct Draws(Stream, u64);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(Stream::new(seed, 0), 0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.1 += 1;
        Stream::below(self.0.bits(self.1), limit)
    }
}

/// A random graph, with types of edges if there are to be any.
fn random(stream: &mut Draws, relations: u32) -> GraphData {
    let vertices = 2 + stream.below(60) as u32;
    let count = stream.below(300);
    let mut end = || stream.below(u64::from(vertices)) as u32;
    let pairs: Vec<(u32, u32)> = (0..count).map(|_| (end(), end())).collect();
    let topology = match relations {
        0 => Topology::from_edges(vertices, pairs).unwrap().0,
        _ => {
            let edges = pairs.into_iter().enumerate();
            let edges = edges.map(|(n, (u, v))| (u, v, (n as u32 % relations) as u16));
            Topology::typed(vertices, relations, edges).unwrap().0
        }
    };
    let mut data = GraphData::new("random", topology);
    data.train = (0..vertices).map(|v| v % 3 == 0).collect();
    data.labels = Labels::Single((0..vertices as i32).map(|v| v % 4).collect());
    let values = (0..3 * vertices).map(|n| n as f32 + 1.0).collect();
    data.features = Features::dense(vertices as usize, 3, values);
    data
}

fn partition(data: &GraphData, parts: u32, name: &str) -> Partition {
    let method = by_name(name, 0).unwrap();
    method.partition(data.into(), parts).unwrap()
}

fn written(folder: &Path, data: &GraphData, parts: u32, name: &str) -> Partition {
    let partition = partition(data, parts, name);
    let workload = summary::summarise(data, &[]).unwrap();
    parts::write(folder, data, &partition, name, &workload).unwrap();
    partition
}

#[test]
fn parts_are_found_again() {
    let mut stream = Draws::new(7);
    for n in 0..60u32 {
        let data = random(&mut stream, [0, 3][n as usize % 2]);
        let folder = tempfile::tempdir().unwrap();
        let count = 1 + n % 5;
        let expected = written(
            folder.path(),
            &data,
            count,
            ["hash", "range"][n as usize % 2],
        );
        assert!(Parts::is_folder(folder.path()));
        let found = Parts::open(folder.path()).unwrap();
        let partition = found.partition().unwrap();
        assert_eq!(partition.owner(), expected.owner());
        let vertices = found.vertices().unwrap();
        assert_eq!(vertices.features, data.features);
        assert_eq!(
            (&vertices.labels, &vertices.train),
            (&data.labels, &data.train)
        );
        assert_eq!(found.whole(), WholeGraph::of(&data.topology));
        let built = LocalPart::build_all(&data.topology, &expected).unwrap();
        let owned = built.iter().map(|part| part.global[..part.inner].to_vec());
        assert_eq!(found.owned(&partition).unwrap(), owned.collect::<Vec<_>>());
        for (part, entry) in built.into_iter().zip(&found.manifest.parts) {
            let read = found.part(part.rank, &partition).unwrap();
            let sends: Vec<u64> = part
                .send
                .iter()
                .map(|(_, rows)| rows.len() as u64)
                .collect();
            assert_eq!((&entry.sends, entry.inner), (&sends, part.inner as u64));
            assert_eq!(read, part);
        }
    }
}

/// A part of another graph may have the same vertices in another order, which would give its rows to other vertices.
#[test]
fn vertices_in_another_order_are_refused() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    // The vertex with an edge from the other part comes last: 1 and 0 of the first graph, 0 and 1 of the second one.
    let graph = |to: u32| {
        let topology = Topology::from_edges(4, [(2, to)]).unwrap().0;
        let mut data = GraphData::new("pairs", topology);
        data.train = vec![true; 4];
        data.labels = Labels::Single(vec![0, 1, 0, 1]);
        data.features = Features::dense(4, 1, vec![1.0; 4]);
        data
    };
    let partition = written(folders[0].path(), &graph(0), 2, "range");
    written(folders[1].path(), &graph(1), 2, "range");
    let found = Parts::open(folders[0].path()).unwrap();
    assert!(found.owned(&partition).is_ok());
    let part = "part-0.npz";
    std::fs::copy(folders[1].path().join(part), folders[0].path().join(part)).unwrap();
    assert!(found.owned(&partition).is_err());
}

/// A damaged file is refused by its content key. If the manifest says the key of the damaged file, it is refused
/// by what its arrays have to be, or describes some part: it never panics.
#[test]
fn damaged_parts_do_not_panic() {
    let data = random(&mut Draws::new(3), 2);
    let folder = tempfile::tempdir().unwrap();
    let partition = written(folder.path(), &data, 3, "hash");
    let path = folder.path().join("part-1.npz");
    let whole = std::fs::read(&path).unwrap();
    let manifest = std::fs::read_to_string(folder.path().join(MANIFEST)).unwrap();
    let own = Parts::open(folder.path()).unwrap().manifest.parts[1]
        .file
        .clone();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        let opened = Parts::open(folder.path()).unwrap();
        assert!(opened.part(1, &partition).is_err(), "byte {at}");
        let key = blake3::hash(&damaged).to_hex()[..32].to_owned();
        std::fs::write(folder.path().join(MANIFEST), manifest.replace(&own, &key)).unwrap();
        let opened = Parts::open(folder.path()).unwrap();
        refused += u32::from(opened.part(1, &partition).is_err());
        std::fs::write(folder.path().join(MANIFEST), &manifest).unwrap();
    }
    assert!(
        refused as usize > whole.len() / 2,
        "{refused} of {}",
        whole.len()
    );
}

#[test]
fn other_folders_are_refused() {
    let data = random(&mut Draws::new(5), 0);
    let folder = tempfile::tempdir().unwrap();
    let partition = written(folder.path(), &data, 2, "hash");
    let message = |result: Result<LocalPart, _>| match result {
        Ok(_) => String::new(),
        Err(error) => gnnc_graph::GraphError::to_string(&error),
    };
    let opened = Parts::open(folder.path()).unwrap();
    assert!(message(opened.part(2, &partition)).contains("one of the 2 parts"));
    std::fs::copy(
        folder.path().join("part-0.npz"),
        folder.path().join("part-1.npz"),
    )
    .unwrap();
    assert!(message(opened.part(1, &partition)).contains("write the folder again"));
    std::fs::remove_file(folder.path().join("part-1.npz")).unwrap();
    assert!(message(opened.part(1, &partition)).contains("part-1.npz"));
    let manifest = folder.path().join(MANIFEST);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(
        &manifest,
        text.replacen(&format!("\"version\": {VERSION}"), "\"version\": 9", 1),
    )
    .unwrap();
    let error = Parts::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
    std::fs::write(&manifest, "{").unwrap();
    assert!(Parts::open(folder.path()).is_err());
    std::fs::remove_file(&manifest).unwrap();
    assert!(!Parts::is_folder(folder.path()));
}

#[test]
fn what_parts_do_not_hold_is_refused() {
    let mut data = random(&mut Draws::new(11), 0);
    let edges = data.topology.edges() as usize;
    data.edge_features = EdgeFeatures {
        columns: 1,
        values: vec![1.0; edges],
    };
    let folder = tempfile::tempdir().unwrap();
    let partition = partition(&data, 2, "hash");
    let workload = summary::summarise(&data, &[]).unwrap();
    let result = parts::write(folder.path(), &data, &partition, "hash", &workload);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("features of edges")
    );
    assert!(!folder.path().join(MANIFEST).exists());
}
