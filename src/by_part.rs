//! Graphs in folders of parts, of which each process reads those of its ranks.

use crate::Error;
use gnnc_graph::GraphData;
use gnnc_graph::parts::Parts;
use gnnc_ir::graph::model::DataOptions;
use std::path::Path;
use std::sync::Arc;

/// A graph whose edges lie in a folder of parts.
#[derive(Clone, Debug)]
pub struct ByPart {
    /// The vertices with their features, labels and splits, without edges.
    pub vertices: GraphData,
    /// The folder.
    pub parts: Arc<Parts>,
}

impl ByPart {
    /// Opens a folder.
    ///
    /// # Errors
    /// A folder that cannot be read; options of the graph block that make features or pairs.
    pub(crate) fn open(path: &Path, options: &DataOptions) -> Result<Self, Error> {
        let made = match options {
            options if options.identity_features => Some("`features = identity`"),
            options if options.links.is_some() => Some("`links`"),
            _ => None,
        };
        if let Some(option) = made {
            return Err(Error::Input(format!(
                "{option} in the graph block needs the file of the whole graph, and {} is a folder of parts",
                path.display()
            )));
        }
        let parts = Parts::open(path)?;
        let mut vertices = parts.vertices()?;
        if options.normalize_features {
            vertices.features = vertices.features.row_normalized(vertices.own_features());
        }
        Ok(Self {
            vertices,
            parts: Arc::new(parts),
        })
    }
}
