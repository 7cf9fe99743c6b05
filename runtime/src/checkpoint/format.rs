//! Checkpoints as bytes: safetensors with a checksum per tensor and one for the metadata.

use super::progress::{Progress, VERSION};
use super::{COPIES, Checkpoint, Expected, Tensor, is_history};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Metadata key of the progress and the checksums.
const KEY: &str = "gnnc";
/// Largest header of a checkpoint in bytes, plus an allowance per tensor.
const HEADER: u64 = 1 << 16;
const HEADER_OF_TENSOR: u64 = 1 << 10;

/// Largest header in bytes of a checkpoint of `tensors` tensors.
pub(super) fn header_limit(tensors: usize) -> u64 {
    HEADER + HEADER_OF_TENSOR * tensors as u64
}

/// Parses a checkpoint of the tensors `expected` (only names and shapes matter). Returns the number
/// of finished epochs and the tensors.
///
/// # Errors
/// Why the bytes are not a checkpoint of these tensors.
pub fn parse_checkpoint(bytes: &[u8], expected: &[Tensor]) -> Result<(u64, Vec<Tensor>), String> {
    let header = header_limit(expected.len());
    let expected = Expected {
        all: expected,
        histories: &[],
        states: false,
    };
    let checkpoint = decode(bytes, header, "", expected)?;
    Ok((checkpoint.progress.epoch, checkpoint.tensors))
}

/// The bytes of a checkpoint before the first epoch, for testing readers.
///
/// # Errors
/// If the values of a tensor do not fill its shape.
pub fn first_checkpoint(model: &str, tensors: Vec<Tensor>) -> Result<Vec<u8>, String> {
    let progress = Progress::first(model);
    encode(&Checkpoint { progress, tensors }).map_err(|error| error.to_string())
}

pub(super) fn encode(
    checkpoint: &Checkpoint,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let bytes: Vec<Vec<u8>> = checkpoint
        .tensors
        .iter()
        .map(|t| t.values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for (tensor, bytes) in checkpoint.tensors.iter().zip(&bytes) {
        let shape = tensor.shape.iter().map(|&n| n as usize).collect();
        let view = TensorView::new(Dtype::F32, shape, bytes).map_err(|e| e.to_string())?;
        views.push((tensor.name.as_str(), view));
    }
    let checksums = views
        .iter()
        .map(|(name, view)| ((*name).to_owned(), checksum_of(name, view)))
        .collect();
    let about = serde_json::to_string(&About {
        progress: checkpoint.progress.clone(),
        checksums,
    })?;
    // A single key: several would be written in arbitrary order.
    let text = format!("{} {about}", checksum(&about));
    let metadata = HashMap::from([(KEY.to_owned(), text)]);
    safetensors::serialize(views, Some(metadata)).map_err(|e| e.to_string().into())
}

pub(super) fn decode(
    bytes: &[u8],
    header: u64,
    model: &str,
    expected: Expected,
) -> Result<Checkpoint, String> {
    check_header(bytes, header)?;
    let damaged = |e: safetensors::SafeTensorError| format!("it is damaged or cut short ({e})");
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let texts = metadata.metadata().as_ref();
    let text = texts.and_then(|texts| texts.get(KEY));
    let text = text.ok_or("gnnc did not write it: the metadata `gnnc` is missing")?;
    let About {
        progress,
        checksums,
    } = about(text)?;
    progress.check()?;
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let mut found = shapes(&file);
    found.sort();
    intact(&file, &checksums)?;
    compare(&found, expected)?;
    if !model.is_empty() && !progress.model.is_empty() && progress.model != model {
        return Err(format!(
            "it is a checkpoint of the model `{}`, not of `{model}`",
            progress.model
        ));
    }
    let there = |tensor: &&Tensor| {
        let same = |(name, kind, shape): &Shape| {
            *name == tensor.name && *kind == Dtype::F32 && *shape == tensor.sizes()
        };
        found.iter().any(same)
    };
    let mut tensors = Vec::with_capacity(found.len());
    for tensor in expected.tensors().filter(there) {
        let view = file.tensor(&tensor.name).map_err(damaged)?;
        let float = |bytes: &[u8]| bytes.try_into().map_or(0.0, f32::from_le_bytes);
        let values = view.data().chunks_exact(4).map(float).collect();
        tensors.push(Tensor {
            name: tensor.name.clone(),
            shape: tensor.shape,
            values,
        });
    }
    Ok(Checkpoint { progress, tensors })
}

/// Checks every tensor of a file against its checksum, and that no tensor is missing or extra.
fn intact(file: &SafeTensors, sums: &BTreeMap<String, String>) -> Result<(), String> {
    let mut tensors = file.tensors();
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, view) in &tensors {
        match sums.get(name) {
            Some(sum) if *sum == checksum_of(name, view) => {}
            Some(_) => {
                return Err(format!("tensor `{name}` is damaged: wrong checksum"));
            }
            None => return Err(format!("tensor `{name}` has no checksum")),
        }
    }
    let there = |name: &str| tensors.iter().any(|(found, _)| found == name);
    match sums.keys().find(|name| !there(name)) {
        Some(name) => Err(format!("tensor `{name}` is missing")),
        None => Ok(()),
    }
}

/// Checksum of a tensor's name, type, shape and values.
fn checksum_of(name: &str, view: &TensorView) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(format!("{name:?} {:?} {:?}\n", view.dtype(), view.shape()).as_bytes());
    hash.update(view.data());
    hash.finalize().to_hex().to_string()
}

/// Checksum of a text.
fn checksum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Parses the metadata: its checksum, a space, and the rest.
fn about(text: &str) -> Result<About, String> {
    let unreadable = |e: serde_json::Error| format!("its metadata cannot be read ({e})");
    // Version 1 had no checksum.
    if let Ok(Version { version }) = serde_json::from_str(text) {
        return Err(other_version(version));
    }
    let (sum, rest) = text.split_once(' ').unwrap_or_default();
    if sum != checksum(rest) {
        return Err("its metadata is damaged: wrong checksum".to_owned());
    }
    let version: AnyVersion = serde_json::from_str(rest).map_err(unreadable)?;
    if version.progress.version != VERSION {
        return Err(other_version(version.progress.version));
    }
    serde_json::from_str(rest).map_err(unreadable)
}

fn other_version(version: u32) -> String {
    format!("it has version {version}, but this gnnc reads version {VERSION}")
}

/// The metadata.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    progress: Progress,
    /// Checksum of each tensor, by name.
    checksums: BTreeMap<String, String>,
}

/// The part of the metadata that all versions since 2 share.
#[derive(Deserialize)]
struct AnyVersion {
    progress: Version,
}

/// The part of the progress that tells whether the rest is readable.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Name, data type and shape of a tensor of a file.
type Shape = (String, Dtype, Vec<usize>);

fn shapes(file: &SafeTensors) -> Vec<Shape> {
    file.tensors()
        .into_iter()
        .map(|(name, view)| (name, view.dtype(), view.shape().to_vec()))
        .collect()
}

/// The tensors a file's header declares; does not touch the data.
pub(super) fn header_of(bytes: &[u8], limit: u64) -> Result<Vec<Shape>, String> {
    #[derive(Deserialize)]
    struct Info {
        dtype: Dtype,
        shape: Vec<usize>,
    }
    // A larger model may have a larger header; beyond this limit the file is not a checkpoint.
    let length = check_header(bytes, (limit * 16).max(1 << 24))?;
    let text = bytes
        .get(8..8 + length as usize)
        .ok_or_else(|| "it is cut short".to_owned())?;
    let fields: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(text).map_err(|e| format!("it is damaged ({e})"))?;
    let tensors = fields
        .into_iter()
        .filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, value)| {
            let info: Info =
                serde_json::from_value(value).map_err(|e| format!("it is damaged ({e})"))?;
            Ok((name, info.dtype, info.shape))
        })
        .collect()
}

/// The length of a file's header, if within bounds.
fn check_header(bytes: &[u8], limit: u64) -> Result<u64, String> {
    let first: Option<[u8; 8]> = bytes.get(..8).and_then(|b| b.try_into().ok());
    let length = u64::from_le_bytes(first.ok_or("it is cut short")?);
    if length > limit {
        return Err(format!(
            "its header claims {length} bytes, expected at most {limit}"
        ));
    }
    Ok(length)
}

/// Reports the first difference between the tensors of a file and those of a model.
pub(super) fn compare(found: &[Shape], expected: Expected) -> Result<(), String> {
    for tensor in expected.tensors() {
        let shape = tensor.sizes();
        match found.iter().find(|(name, ..)| *name == tensor.name) {
            None if is_history(&tensor.name) => {}
            // Copies from another partition of the vertices.
            Some((name, ..)) if name.starts_with(COPIES) => {}
            None => return Err(format!("it lacks `{}`, which this model has", tensor.name)),
            Some((name, Dtype::F32, other)) if *other != shape => {
                return Err(format!(
                    "`{name}` has shape {other:?} there, but {shape:?} in this model"
                ));
            }
            Some((_, Dtype::F32, _)) => {}
            Some((name, dtype, _)) => return Err(format!("`{name}` is {dtype:?}, expected F32")),
        }
    }
    match found.iter().find(|(name, ..)| !expected.knows(name)) {
        None => Ok(()),
        Some((name, ..)) => Err(format!("it has `{name}`, which this model lacks")),
    }
}
