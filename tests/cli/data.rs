//! Small models and graphs, valid and broken.

use crate::support::Folder;
use gnnc::graph::{Features, GraphData, Labels, Topology, write};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A two-layer GCN on a file, with `{}` replaced.
pub fn model(graph: &str) -> String {
    format!(
        "graph g = \"{graph}\"\n\nmodel m(hidden = 4) on g {{\n  \
         let h = x |> gcn_conv(hidden) |> relu\n  let z = h |> gcn_conv(classes)\n  \
         loss cross_entropy(z, labels, on = train)\n}}\n\ntrain {{\n  epochs = 3\n}}\n"
    )
}

/// The same on statistics, with its first line replaced by `line`.
pub fn model_with(line: &str) -> String {
    format!(
        "graph g {{\n  vertices = 100\n  edges = 1000\n  features = 8\n  classes = 3\n}}\n\n\
         model m(hidden = 4) on g {{\n  {line}\n  let z = h |> gcn_conv(classes)\n  \
         loss cross_entropy(z, labels, on = train)\n}}\n"
    )
}

/// A ring of six vertices in two classes.
pub fn ring() -> GraphData {
    let edges = (0..6u32).flat_map(|v| [(v, (v + 1) % 6), ((v + 1) % 6, v)]);
    data(6, edges)
}

/// A graph with two alternating classes, with every vertex in a split.
pub fn data(vertices: u32, edges: impl IntoIterator<Item = (u32, u32)>) -> GraphData {
    let (topology, _) = Topology::from_edges(vertices, edges).unwrap();
    let mut data = GraphData::new("g", topology);
    let n = vertices as usize;
    let values = (0..n * 2).map(|i| (i % 5) as f32 + 1.0).collect();
    data.features = Features::dense(n, 2, values);
    data.labels = Labels::Single((0..n).map(|v| (v % 2) as i32).collect());
    data.train = (0..n).map(|v| v % 3 == 0).collect();
    data.val = (0..n).map(|v| v % 3 == 1).collect();
    data.test = (0..n).map(|v| v % 3 == 2).collect();
    data
}

/// A folder with `g.npz` and a model on it; also returns the model's path.
pub fn folder(data: &GraphData) -> (Folder, PathBuf) {
    let folder = Folder::new();
    write::save(data, folder.join("g.npz")).unwrap();
    let model = folder.file("m.gir", model("g.npz"));
    (folder, model)
}

/// Writes an archive of arrays: name, type, shape in Python syntax, bytes.
pub fn npz(path: &Path, arrays: &[(&str, &str, &str, Vec<u8>)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, descr, shape, bytes) in arrays {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(format!("{name}.npy"), options).unwrap();
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        let length = u16::try_from(header.len()).unwrap();
        archive.write_all(&length.to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

/// Numbers as NumPy stores them (`<i8`).
pub fn longs(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
