//! The knobs of placements, declared once for the whole way from the command line to the plan file.
//!
//! `None` (or an empty list) leaves a knob open: a search may try several values, and a run takes
//! the default. So one type serves as options of a run, as constraints of a search and as the
//! parameters of a candidate in a plan. `PlacementSpec::without_effect` of the planner says
//! which knobs do nothing in a placement, and runs and searches refuse these.

use super::{Cover, Layout, Partitioner};
use crate::program::Skipping;
use crate::words::mesh::Mesh;
use crate::words::sampling::SamplingSettings;
use crate::words::storage::Storage;
use crate::words::wire::Wire;
use serde::{Deserialize, Serialize};

/// What varies between candidates of one placement on the same ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Knobs {
    /// How vertices are divided; does not apply to one rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioner: Option<Partitioner>,
    /// Pipeline stages. Default: one per rank; for a hybrid, the fastest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<u32>,
    /// Runs of layers per stage (virtual stages). Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "turns")]
    pub virtual_stages: Option<u32>,
    /// Layers per stage. With virtual stages, layers per run: the first runs of all stages,
    /// then the second runs, and so on. Default: the fastest division.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u32>,
    /// Epochs between updates of histories. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u32>,
    /// Whether the order of a pipeline's chunks changes every epoch. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<bool>,
    /// Chunks per epoch. Default: four per stage of a pipeline; otherwise 1, work is left whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Whether messages may be in flight during computation. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Whether interior rows are computed while halo rows are in flight. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interior: Option<bool>,
    /// Ranks of a node, if a halo row crosses to a node once and is passed on inside; 1 if owners send each reader its own
    /// copy. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ranks: Option<u32>,
    /// What parts send for the edges between them. Default: rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<Cover>,
    /// Whether ranks compute the same bits on any number of them. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal_bits: Option<bool>,
    /// How rows travel in training epochs. Default: as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// How slices of the columns are spread over the ranks. On the whole graph, ranks are a mesh: groups divide the vertices,
    /// and the ranks of a group the columns. On batches, ranks hold several copies of the features. Default: one slice a
    /// rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Mesh>,
    /// When exchanges are left out, if the placement may leave them out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skipping>,
    /// Storage format of tensors. Default: 32 bits.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
    /// The sampled batches to train on.
    #[serde(default, skip_serializing_if = "SamplingSettings::is_open")]
    pub sampling: SamplingSettings,
    /// Whether tensors that do not fit are offloaded to the host. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<bool>,
    /// Layout of the input features in a mixture: by columns if the products that contract them run
    /// on their slices, as in push-pull. Default: the fastest one, as for the other layouts.
    #[serde(
        default,
        rename = "feature_layout",
        skip_serializing_if = "Layout::is_rows"
    )]
    pub features: Layout,
    /// Layout of each component of the forward and backward graphs of a mixture that allows both, in
    /// program order: a graph's own components precede those of its loops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<Layout>,
    /// Like `layouts`, for the forward graph alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eval_layouts: Vec<Layout>,
}

/// The layouts of a mixture; see the fields of [`Knobs`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layouts {
    /// The input features.
    pub features: Layout,
    /// The components of the forward and backward graphs.
    pub epoch: Vec<Layout>,
    /// Those of the forward graph alone.
    pub eval: Vec<Layout>,
}

impl Knobs {
    /// The same knobs, with the model's batches where they are open.
    pub fn with_batches(self, settings: &SamplingSettings) -> Self {
        Self {
            sampling: self.sampling.or(settings),
            ..self
        }
    }

    /// The layouts of a mixture; [`Layouts::default`] if they are open.
    pub fn layouts(&self) -> Layouts {
        Layouts {
            features: self.features,
            epoch: self.layouts.clone(),
            eval: self.eval_layouts.clone(),
        }
    }

    /// The same knobs with these layouts.
    pub fn with_layouts(self, layouts: Layouts) -> Self {
        Self {
            features: layouts.features,
            layouts: layouts.epoch,
            eval_layouts: layouts.eval,
            ..self
        }
    }
}
