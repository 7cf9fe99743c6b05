//! A folder with the parts of a partitioned graph, so that a process reads those of its own ranks only.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `parts.json` | the [`Manifest`] |
//! | `vertices.npz` | labels, splits, names and sparse features of all vertices, without edges |
//! | `features.npy` | dense features of all vertices, which are mapped |
//! | `owners.npz` | the part of each vertex, and the edges into and out of it |
//! | `part-0.npz`, .. | the edges into the vertices of a part, and what it sends to others |

use crate::local::file::open;
use crate::partition::Partition;
use crate::read::{LoadOptions, load};
use crate::write::{Archive, header, replace, save};
use crate::{Features, GraphData, GraphError, LocalPart, RowOrder, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::program::Halo;
use gnnc_ir::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fs::create_dir_all;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The version of folders that this library reads and writes.
pub const VERSION: u32 = 3;
/// Name of the manifest.
pub const MANIFEST: &str = "parts.json";
const VERTICES: &str = "vertices.npz";
const FEATURES: &str = "features.npy";
const OWNERS: &str = "owners.npz";
/// The arrays with the edges into and out of each vertex.
const DEGREES: [&str; 2] = ["in_degree", "out_degree"];
/// Longest manifest that is read, in bytes.
const MAX_MANIFEST: u64 = 256 << 20;

/// What is known of a graph and its parts without its edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// What plans need to know of the graph, its replication factors among it.
    pub workload: Workload,
    /// The content key of the graph.
    pub graph: String,
    /// The content key of the partition.
    pub partition: String,
    /// The partitioner's name.
    pub partitioner: String,
    /// Vertices of the graph.
    pub vertices: u32,
    /// Edges of the graph.
    pub edges: u64,
    /// Types of the edges; 0 if they have none.
    pub relations: u32,
    /// Most edges into a vertex.
    pub max_degree: u32,
    /// Whether `features.npy` has the features.
    pub dense: bool,
    /// The parts, in rank order.
    pub parts: Vec<Entry>,
}

/// One part of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Vertices of the part.
    pub inner: u64,
    /// Vertices of other parts with edges into them.
    pub halo: u64,
    /// Edges into its vertices.
    pub edges: u64,
    /// Rows that it sends to each part that reads some, in rank order.
    pub sends: Vec<u64>,
    /// The content key of its file.
    pub file: String,
    /// The content key of its own vertices, in the order of its rows.
    pub rows: String,
}

/// What ranks have to know of the whole graph besides their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeGraph {
    /// Edges of each set: the plain ones first, then the named sets.
    pub edges: Vec<u64>,
    /// Types of the plain edges; 0 if they have none.
    pub relations: u32,
    /// Most edges into a vertex.
    pub max_degree: u32,
}

impl WholeGraph {
    /// Of a graph with all its edges.
    pub fn of(topology: &Topology) -> Self {
        let named = 1..=topology.set_names().len() as u8;
        let sets = std::iter::once(EdgeSet::Plain).chain(named.map(EdgeSet::Named));
        Self {
            edges: sets.map(|set| topology.edges_of(set)).collect(),
            relations: topology.relations(),
            max_degree: topology.max_degree(),
        }
    }
}

/// A folder that was opened.
#[derive(Clone, Debug)]
pub struct Parts {
    folder: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
}

/// Writes a graph by parts into a folder, which is made if there is none. The manifest comes last: a folder without
/// it is not complete.
///
/// # Errors
/// A graph with features of edges or with named sets of edges; any error of the system.
pub fn write(
    folder: &Path,
    data: &GraphData,
    partition: &Partition,
    partitioner: &str,
    workload: &Workload,
) -> Result<Manifest, GraphError> {
    let refuse = |found: &str, expected: &str| GraphError::Unsupported {
        at: data.name.clone(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    };
    if data.edge_features.columns > 0 {
        let expected =
            "a graph without them, as parts do not hold them; train from the graph's own file";
        return Err(refuse("features of edges", expected));
    }
    if !data.topology.is_plain() {
        let expected =
            "a graph without them, as parts do not hold them; train from the graph's own file";
        return Err(refuse("named sets of edges", expected));
    }
    let failed = |path: &Path| {
        let file = path.to_owned();
        |source: io::Error| GraphError::Io { file, source }
    };
    create_dir_all(folder).map_err(failed(folder))?;
    let manifest_file = folder.join(MANIFEST);
    if let Err(error) = std::fs::remove_file(&manifest_file)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed(&manifest_file)(error));
    }
    let no_edges = Topology::new(vec![0; data.vertices() as usize + 1], Vec::new())?;
    let mut vertices = GraphData {
        topology: no_edges,
        ..data.clone()
    };
    let dense = match &data.features {
        Features::Dense {
            rows,
            columns,
            values,
        } => {
            let path = folder.join(FEATURES);
            let write = |file: &mut BufWriter<_>| {
                file.write_all(&header("<f4", &[*rows, *columns as usize]))?;
                let mut values = values.as_slice().iter();
                values.try_for_each(|x| file.write_all(&x.to_le_bytes()))
            };
            replace(&path, write).map_err(failed(&path))?;
            vertices.features = Features::None;
            true
        }
        Features::Sparse { .. } | Features::None => false,
    };
    save(&vertices, folder.join(VERTICES))?;
    let owners = folder.join(OWNERS);
    let write = |file: &mut BufWriter<_>| {
        let mut archive = Archive::new(file);
        let owner = partition.owner();
        archive.array(
            "owner",
            "<u4",
            &[owner.len()],
            owner.iter().map(|part| part.to_le_bytes()),
        )?;
        let degrees = [data.topology.in_degrees(), data.topology.out_degrees()];
        for (name, degrees) in DEGREES.into_iter().zip(degrees) {
            let values = degrees.iter().map(|degree| degree.to_le_bytes());
            archive.array(name, "<u4", &[degrees.len()], values)?;
        }
        archive.finish().map(drop)
    };
    replace(&owners, write).map_err(failed(&owners))?;
    let mut entries = Vec::new();
    let parts = LocalPart::each(
        &data.topology,
        partition,
        Halo::Boundary.into(),
        RowOrder::ByDegree,
    )?;
    for part in parts {
        let path = folder.join(part_name(part.rank));
        replace(&path, |file| part.write(file)).map_err(failed(&path))?;
        entries.push(Entry {
            inner: part.inner as u64,
            halo: part.halo() as u64,
            edges: part.edges_of(EdgeSet::Plain),
            sends: part
                .send
                .iter()
                .map(|(_, rows)| rows.len() as u64)
                .collect(),
            file: content_key(&path).map_err(failed(&path))?,
            rows: key_of_rows(&part.global[..part.inner]),
        });
    }
    let manifest = Manifest {
        version: VERSION,
        workload: workload.clone(),
        graph: data.fingerprint(),
        partition: partition.fingerprint(),
        partitioner: partitioner.to_owned(),
        vertices: data.vertices(),
        edges: data.topology.edges(),
        relations: data.topology.relations(),
        max_degree: data.topology.max_degree(),
        dense,
        parts: entries,
    };
    let text =
        serde_json::to_vec_pretty(&manifest).map_err(|e| failed(&manifest_file)(e.into()))?;
    gnnc_files::replace(&manifest_file, &text).map_err(failed(&manifest_file))?;
    Ok(manifest)
}

impl Parts {
    /// Whether a path is a folder with a manifest.
    pub fn is_folder(path: &Path) -> bool {
        path.is_dir() && path.join(MANIFEST).is_file()
    }

    /// Opens a folder: reads its manifest.
    ///
    /// # Errors
    /// A manifest that is missing, damaged or of another version.
    pub fn open(folder: &Path) -> Result<Self, GraphError> {
        let path = folder.join(MANIFEST);
        let failed = |source| GraphError::Io {
            file: path.clone(),
            source,
        };
        let text = gnnc_files::read(&path, MAX_MANIFEST).map_err(failed)?;
        let refuse = |found: String| GraphError::Unsupported {
            at: path.display().to_string(),
            found,
            expected: format!(
                "a manifest of `gnnc graph partition --out FOLDER/`, version {VERSION}"
            ),
        };
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(refuse(format!("version {}", manifest.version)));
        }
        let checked = manifest.workload.check();
        checked.map_err(|error| refuse(error.to_string()))?;
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
        })
    }

    /// Number of parts.
    pub fn count(&self) -> u32 {
        self.manifest.parts.len() as u32
    }

    /// The vertices with their features, labels and splits, without edges. Dense features are mapped.
    ///
    /// # Errors
    /// A file that is missing, damaged, or of another graph.
    pub fn vertices(&self) -> Result<GraphData, GraphError> {
        let path = self.folder.join(VERTICES);
        let options = LoadOptions {
            features: self.manifest.dense.then(|| self.folder.join(FEATURES)),
            ..LoadOptions::default()
        };
        let mut data = load(&path, &options)?;
        if data.vertices() != self.manifest.vertices {
            return Err(GraphError::WrongLength {
                at: path.display().to_string(),
                unit: "vertices",
                found: u64::from(data.vertices()),
                expected: u64::from(self.manifest.vertices),
            });
        }
        data.name.clone_from(&self.manifest.workload.name);
        Ok(data)
    }

    /// The part of each vertex.
    ///
    /// # Errors
    /// As [`Parts::vertices`].
    pub fn partition(&self) -> Result<Partition, GraphError> {
        let path = self.folder.join(OWNERS);
        let owner = open(&path)?.required("owner")?.indices(1 << 32)?;
        if owner.len() != self.manifest.vertices as usize {
            return Err(self.changed(&path));
        }
        let partition = Partition::new(self.count(), owner)?;
        if partition.fingerprint() != self.manifest.partition {
            return Err(self.changed(&path));
        }
        Ok(partition)
    }

    /// The edges at an end of each vertex.
    ///
    /// # Errors
    /// As [`Parts::vertices`].
    pub fn degrees(&self, end: End) -> Result<Vec<u32>, GraphError> {
        let path = self.folder.join(OWNERS);
        let name = match end {
            End::Dst => DEGREES[0],
            End::Src => DEGREES[1],
        };
        let degrees = open(&path)?.required(name)?.indices(1 << 32)?;
        let sum: u64 = degrees.iter().map(|degree| u64::from(*degree)).sum();
        let known = degrees.len() == self.manifest.vertices as usize && sum == self.manifest.edges;
        match known {
            true => Ok(degrees),
            false => Err(self.changed(&path)),
        }
    }

    /// A part.
    ///
    /// # Errors
    /// No such part; a file that is missing, damaged, or of another graph.
    pub fn part(&self, rank: u32, partition: &Partition) -> Result<LocalPart, GraphError> {
        let path = self.folder.join(part_name(rank));
        let Some(entry) = self.manifest.parts.get(rank as usize) else {
            return Err(GraphError::Unsupported {
                at: self.folder.display().to_string(),
                found: format!("part {rank}"),
                expected: format!("one of the {} parts", self.count()),
            });
        };
        let key = content_key(&path).map_err(|source| GraphError::Io {
            file: path.clone(),
            source,
        })?;
        if key != entry.file {
            return Err(self.changed(&path));
        }
        LocalPart::read(&path, rank, self.manifest.relations, partition)
    }

    /// The vertices that each part owns, in the order of its rows. Reads nothing else of the parts' files.
    ///
    /// # Errors
    /// A file that is missing or damaged, or of another graph.
    pub fn owned(&self, partition: &Partition) -> Result<Vec<Vec<u32>>, GraphError> {
        let own = |(rank, entry): (u32, &Entry)| {
            let path = self.folder.join(part_name(rank));
            let rows = LocalPart::read_own(&path, rank, partition)?;
            match key_of_rows(&rows) == entry.rows {
                true => Ok(rows),
                false => Err(self.changed(&path)),
            }
        };
        (0..).zip(&self.manifest.parts).map(own).collect()
    }

    /// What ranks have to know of the whole graph.
    pub fn whole(&self) -> WholeGraph {
        WholeGraph {
            edges: vec![self.manifest.edges],
            relations: self.manifest.relations,
            max_degree: self.manifest.max_degree,
        }
    }

    /// Which halos the parts have.
    pub fn halo(&self) -> Halo {
        Halo::Boundary
    }

    fn changed(&self, path: &Path) -> GraphError {
        GraphError::Unsupported {
            at: path.display().to_string(),
            found: "another content than the manifest says".to_owned(),
            expected:
                "the files of one `gnnc graph partition --out FOLDER/`; write the folder again"
                    .to_owned(),
        }
    }
}

fn part_name(rank: u32) -> String {
    format!("part-{rank}.npz")
}

/// A hash of vertices in their order.
fn key_of_rows(vertices: &[u32]) -> String {
    let mut hash = blake3::Hasher::new();
    for vertex in vertices {
        hash.update(&vertex.to_le_bytes());
    }
    hash.finalize().to_hex()[..32].to_owned()
}

/// A hash of a file's bytes.
fn content_key(path: &Path) -> io::Result<String> {
    let mut file = gnnc_files::open(path)?;
    let mut hash = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().to_hex()[..32].to_owned()),
            bytes => hash.update(&buffer[..bytes]),
        };
    }
}
