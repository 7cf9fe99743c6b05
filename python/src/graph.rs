//! Data graphs.

use crate::arrays::matrix;
use crate::errors::{detached, input};
use gnnc::graph::import::{self, Import, Imported, Shares};
use gnnc::graph::read::{LoadOptions, npz};
use gnnc::graph::{Dropped, Features, GraphData, Labels, summarise, write};
use gnnc::{Error, ir::Workload};
use pyo3::prelude::*;
use std::io::Cursor;
use std::path::PathBuf;

/// A data graph in memory. Copies share the arrays of edges and of dense features.
#[pyclass(frozen)]
pub struct Graph {
    /// The graph.
    pub data: GraphData,
    /// The file it was read from.
    pub path: Option<PathBuf>,
    /// What was left out of its source.
    pub dropped: Dropped,
    workload: Workload,
}

impl Graph {
    fn new(mut data: GraphData, dropped: Dropped, path: Option<PathBuf>) -> Result<Self, Error> {
        let problems = data.validate();
        if !problems.is_empty() {
            let at = data.name.clone();
            return Err(gnnc::graph::GraphError::Invalid { at, problems }.into());
        }
        data.features = match data.features.in_best_storage() {
            Features::Dense {
                rows,
                columns,
                values,
            } => Features::Dense {
                rows,
                columns,
                values: values.into_shared(),
            },
            other => other,
        };
        data.topology = data.topology.into_shared();
        Ok(Self {
            workload: summarise(&data, &[])?,
            data,
            path,
            dropped,
        })
    }
}

#[pymethods]
impl Graph {
    /// Reads a file or a folder.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        detached(py, || {
            let (data, dropped) = import::open(&path, &LoadOptions::default())?;
            Self::new(data, dropped, Some(path))
        })
    }

    /// A graph of the bytes of an `.npz` archive. `x` are its features, if these are not in the archive.
    #[staticmethod]
    #[pyo3(signature = (archive, name, x=None))]
    fn from_archive(
        py: Python<'_>,
        archive: &[u8],
        name: String,
        x: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let features = x.map(matrix).transpose()?;
        let columns = features.as_ref().map(|x| u32::try_from(x.shape[1]));
        let Ok(columns) = columns.transpose() else {
            return Err(input(py, "x has more columns than 32 bits count"));
        };
        detached(py, || {
            let options = LoadOptions::default();
            let (mut data, dropped) = npz::read(&name, Cursor::new(archive), &options)?;
            data.name = name;
            if let (Some(x), Some(columns)) = (features, columns) {
                data.features = Features::Dense {
                    rows: x.shape[0],
                    columns,
                    values: x.values,
                };
            }
            Self::new(data, dropped, None)
        })
    }

    /// A graph of tables in files.
    #[staticmethod]
    fn from_tables(
        py: Python<'_>,
        edges: PathBuf,
        nodes: Option<PathBuf>,
        name: String,
        symmetrize: bool,
        shares: Option<[f64; 3]>,
        stratified: bool,
        seed: u64,
    ) -> PyResult<Self> {
        detached(py, || {
            let options = Import {
                edges,
                nodes,
                symmetrise: symmetrize,
                shares: shares.map(|shares| Shares {
                    shares,
                    stratified,
                    seed,
                }),
                ..Import::default()
            };
            let Imported {
                mut data, dropped, ..
            } = import::import(&options)?;
            data.name = name;
            Self::new(data, dropped, None)
        })
    }

    /// Writes a file in the format of its extension; says what that format cannot hold.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<&'static str>> {
        detached(py, || Ok(write::save(&self.data, path)?))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.data.name
    }

    #[getter]
    fn vertices(&self) -> u32 {
        self.data.vertices()
    }

    #[getter]
    fn edges(&self) -> u64 {
        self.data.topology.edges()
    }

    #[getter]
    fn features(&self) -> u32 {
        self.data.features.columns()
    }

    #[getter]
    fn classes(&self) -> u32 {
        self.data.classes()
    }

    /// Whether features are stored without their zeros.
    #[getter]
    fn sparse_features(&self) -> bool {
        matches!(self.data.features, Features::Sparse { .. })
    }

    /// What labels are: `class`, `numbers` or `none`.
    #[getter]
    fn label_kind(&self) -> &'static str {
        match self.data.labels {
            Labels::None => "none",
            Labels::Single(_) => "class",
            Labels::Values { .. } => "numbers",
        }
    }

    #[getter]
    fn self_loops(&self) -> u64 {
        self.dropped.self_loops
    }

    /// How many of the last vertices stand for graphs or pairs; 0 if none do.
    #[getter]
    fn subjects(&self) -> u32 {
        self.data.subjects
    }

    #[getter]
    fn repeats(&self) -> u64 {
        self.dropped.repeats
    }

    #[getter]
    fn not_used(&self) -> Vec<String> {
        self.dropped.not_used.clone()
    }

    /// The statistics that plans go by, as JSON.
    fn statistics(&self) -> String {
        serde_json::to_string(&self.workload).unwrap_or_default()
    }
}
