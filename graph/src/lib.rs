//! Load, convert, generate, partition and summarize data graphs.
//!
//! A [`GraphData`] is a [`Topology`] (rows of in-neighbors) with features, labels and a split. It
//! comes from a file or a generator:
//!
//! ```
//! use gnnc_graph::generate::PlantedPartition;
//! use gnnc_graph::{LoadOptions, load, write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = PlantedPartition { vertices: 500, edges: 4000, ..Default::default() }.generate()?;
//! assert_eq!((graph.vertices(), graph.topology.edges(), graph.classes()), (500, 4000, 4));
//!
//! let file = std::env::temp_dir().join(format!("planted-{}.npz", std::process::id()));
//! write::save(&graph, &file)?;
//! let again = load(&file, &LoadOptions::default())?;
//! assert_eq!(again.topology, graph.topology);
//! # std::fs::remove_file(file)?;
//! # Ok(()) }
//! ```
//!
//! A [`Partitioner`] gives every vertex an owner. [`Replication`] measures what that costs, a
//! [`LocalPart`] is what one rank holds, and a [`Workload`](gnnc_ir::Workload) is what a planner
//! needs to know:
//!
//! ```
//! use gnnc_graph::partition::{Metis, Partitioner};
//! use gnnc_graph::{LocalPart, example, replication, summarise};
//! use gnnc_ir::EdgeSet;
//!
//! # fn main() -> Result<(), gnnc_graph::GraphError> {
//! let graph = example::g8();
//! let halves = Metis::default().partition((&graph).into(), 2)?;
//! assert_eq!(replication(&graph.topology, &halves)?.alpha, 3.0 / 8.0);
//!
//! let parts = LocalPart::build_all(&graph.topology, &halves)?;
//! let edges = parts[0].edges(EdgeSet::Looped);
//! assert_eq!(edges.in_csr.rows(), parts[0].inner);
//! // What one rank sends is what the other keeps in its halo.
//! let ((reader, sent), (owner, kept)) = (&parts[0].send[0], &parts[1].halo_of[0]);
//! assert_eq!((*reader, *owner, sent.len()), (1, 0, kept.len()));
//!
//! let workload = summarise(&graph, &[(2, &Metis::default())])?;
//! assert_eq!(workload.replication[&2], 0.375);
//! # Ok(()) }
//! ```
//!
//! Nothing here panics on the content of a file: every mistake is a [`GraphError`] that says what
//! was found, what was expected and what to do.

pub mod chunks;
pub mod cover;
pub mod csr;
pub mod data;
pub mod edge_features;
mod error;
pub mod example;
pub mod features;
mod fingerprint;
pub mod generate;
pub mod import;
pub mod links;
pub mod listed_edge;
mod local;
pub mod many;
pub mod names;
pub mod partition;
pub mod parts;
pub mod read;
pub mod replication;
mod reuse;
mod reverse;
pub mod rng;
pub mod routes;
pub mod sample;
pub mod summary;
pub mod topology;
mod values;
pub mod vertex_types;
pub mod write;

pub use chunks::Chunks;
pub use csr::Csr;
pub use data::{GraphData, Labels, Problem};
pub use edge_features::EdgeFeatures;
pub use error::{GraphError, Labeled};
pub use features::Features;
pub use listed_edge::ListedEdge;
pub use local::{Kept, LocalChunks, LocalEdges, LocalPart, RowOrder};
pub use names::Names;
pub use partition::{Partition, Partitioner};
pub use read::{LoadOptions, load};
pub use replication::{Replication, replication};
pub use summary::summarise;
pub use topology::{Dropped, EdgeSets, Topology};
pub use values::{Number, Values};
pub use vertex_types::VertexTypes;
