//! Lowered programs against the interpreter of the graphs they come from: what they compute,
//! and what they send.

#![allow(clippy::unwrap_used)]

#[path = "differential/apart.rs"]
mod apart;
#[path = "differential/batches.rs"]
mod batches;
#[path = "differential/beginnings.rs"]
mod beginnings;
#[path = "differential/blocks.rs"]
mod blocks;
#[path = "differential/caches.rs"]
mod caches;
#[path = "differential/check.rs"]
mod check;
#[path = "differential/checked.rs"]
mod checked;
#[path = "differential/clip.rs"]
mod clip;
#[path = "differential/cover.rs"]
mod cover;
#[path = "differential/data.rs"]
mod data;
#[path = "differential/decoupled.rs"]
mod decoupled;
#[path = "differential/descent.rs"]
mod descent;
#[path = "differential/device.rs"]
mod device;
#[path = "differential/edge_sets.rs"]
mod edge_sets;
#[path = "differential/embeddings.rs"]
mod embeddings;
#[path = "differential/equal_bits.rs"]
mod equal_bits;
#[path = "differential/evaluations.rs"]
mod evaluations;
#[path = "differential/examples.rs"]
mod examples;
#[path = "differential/flow.rs"]
mod flow;
#[path = "differential/frozen.rs"]
mod frozen;
#[path = "differential/groups.rs"]
mod groups;
#[path = "differential/interior.rs"]
mod interior;
#[path = "differential/layers.rs"]
mod layers;
#[path = "differential/layouts.rs"]
mod layouts;
#[path = "differential/lazy.rs"]
mod lazy;
#[path = "differential/meshes.rs"]
mod meshes;
#[path = "differential/messages.rs"]
mod messages;
#[path = "differential/migration.rs"]
mod migration;
#[path = "differential/minibatch.rs"]
mod minibatch;
#[path = "differential/models.rs"]
mod models;
#[path = "differential/offload.rs"]
mod offload;
#[path = "differential/pairs.rs"]
mod pairs;
#[path = "differential/pipeline.rs"]
mod pipeline;
#[path = "differential/random.rs"]
mod random;
#[path = "differential/sameness.rs"]
mod sameness;
#[path = "differential/skip.rs"]
mod skip;
#[path = "differential/staged.rs"]
mod staged;
#[path = "differential/stages.rs"]
mod stages;
#[path = "differential/steps.rs"]
mod steps;
#[path = "differential/stop.rs"]
mod stop;
#[path = "differential/storage.rs"]
mod storage;
#[path = "differential/streamed.rs"]
mod streamed;
#[path = "differential/tiers.rs"]
mod tiers;
#[path = "differential/unrolled.rs"]
mod unrolled;
#[path = "differential/volumes.rs"]
mod volumes;
#[path = "differential/wire.rs"]
mod wire;
#[path = "differential/work.rs"]
mod work;
