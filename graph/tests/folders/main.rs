//! Folders of data sets, written by the tests.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

#[path = "../arrays/mod.rs"]
mod arrays;
mod dgl;
mod many_dgl;
mod many_ogb;
mod ogb;
mod several;
mod tu;

use gnnc_graph::import::{Import, Imported, import};
use gnnc_graph::{GraphData, GraphError};
use gnnc_ir::EdgeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// A folder of a data set.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.file(name, text);
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, compressed if its name says so.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = content.as_ref().to_vec();
        if name.ends_with(".gz") {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&bytes).unwrap();
            bytes = gzip.finish().unwrap();
        }
        fs::write(path, bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path().join(name)).unwrap();
    }

    fn options(&self) -> Import {
        Import {
            edges: self.path().to_owned(),
            ..Import::default()
        }
    }

    fn read(&self) -> Result<Imported, GraphError> {
        import(&self.options())
    }

    #[track_caller]
    fn refused(&self, expected: &str) {
        let error = self.read().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

/// The edges of the graph, without those to vertices that stand for graphs.
fn edges_of(data: &GraphData) -> Vec<(u32, u32)> {
    let plain = data.topology.only(EdgeSet::Plain);
    let into = |v| plain.in_neighbours(v).iter().map(move |u| (*u, v));
    (0..data.vertices()).flat_map(into).collect()
}

/// The vertices of each graph.
fn graphs_of(data: &GraphData) -> Vec<Vec<u32>> {
    let members = data.topology.only(EdgeSet::Named(1));
    let of = |graph| members.in_neighbours(graph).to_vec();
    data.subjects().map(of).collect()
}

/// The numbers of the edges of the graphs.
fn edge_numbers(data: &GraphData) -> Vec<f32> {
    let plain = data.edge_features.of_set(&data.topology, EdgeSet::Plain);
    plain.values
}

fn said(imported: &Imported) -> String {
    let notes = imported.notes.iter().map(|note| note.0.as_str());
    notes.collect::<Vec<_>>().join("\n")
}
