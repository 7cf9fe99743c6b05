//! Checkpoints: parameters, optimizer states and where training stands, as safetensors.

use crate::RuntimeError;
use crate::report::Best;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Version of the metadata.
const VERSION: u32 = 1;
/// The metadata's key.
const KEY: &str = "gnnc";
/// Bytes that the header of a checkpoint may have, besides a share for each tensor.
const HEADER: u64 = 1 << 16;
const HEADER_OF_TENSOR: u64 = 1 << 10;

/// A named tensor of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name: `layer_1.weight`.
    pub name: String,
    /// Iterations of a repeated layer (1 if it is not repeated), rows, columns.
    pub shape: [u32; 3],
    /// Row-major.
    pub values: Vec<f32>,
}

/// What a checkpoint holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) progress: Progress,
    pub(crate) tensors: Vec<Tensor>,
}

/// Where training stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    pub(crate) version: u32,
    /// Epochs done.
    pub(crate) epoch: u64,
    /// Optimizer steps taken.
    pub(crate) step: u64,
    pub(crate) seed: u64,
    pub(crate) learning_rate: f64,
    /// What the caller says the model is.
    pub(crate) model: String,
    /// Hash of the program.
    pub(crate) program: u64,
    /// Hash of the division of the vertices; left out where no copies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) division: Option<u64>,
    /// The epoch in which there were no copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<u64>,
    pub(crate) best: Option<Best>,
    /// Epochs in which histories of stages were kept, by the names of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kept: BTreeMap<String, u64>,
}

impl Progress {
    pub(crate) fn version() -> u32 {
        VERSION
    }
}

/// Writes a checkpoint aside and renames it, so that `path` is whole at any moment.
pub(crate) fn write(path: &Path, checkpoint: &Checkpoint) -> Result<(), RuntimeError> {
    let create = |aside: &Path| {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(aside)
    };
    write_through(path, checkpoint, create)
}

fn write_through(
    path: &Path,
    checkpoint: &Checkpoint,
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<(), RuntimeError> {
    let failed = |source: io::Error| {
        let help = match source.kind() {
            io::ErrorKind::NotFound => "make the folder first, or write elsewhere",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "allow writing there, or write elsewhere"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space or write elsewhere; the checkpoint before is untouched"
            }
            _ => "write elsewhere; the checkpoint before is untouched",
        };
        RuntimeError::File {
            action: "write",
            path: path.to_owned(),
            source,
            help,
        }
    };
    let bytes = encode(checkpoint).map_err(|e| failed(io::Error::other(e)))?;
    let aside = aside(path);
    let written = create(&aside)
        .and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&aside, path));
    if let Err(source) = written {
        // What is half written is of no use; if it cannot be removed either, the error stays the same.
        let _ = fs::remove_file(&aside);
        return Err(failed(source));
    }
    // The rename itself is on disk once the folder is; not every file system can promise that.
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// What the names of tensors begin with that are rows of earlier epochs: a run may go on without them.
pub(crate) const HISTORY: &str = "history.";

/// What the names of copies of other ranks' rows begin with, and of their ages.
pub(crate) const COPIES: &str = "copies.";

/// Whether a tensor of a checkpoint is a history, or copies: then a run goes on without it too.
pub(crate) fn is_history(name: &str) -> bool {
    name.starts_with(HISTORY) || name.starts_with(COPIES)
}

/// The tensors of a model, of which names and shapes matter here.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// Those that a checkpoint must have.
    pub(crate) all: &'a [Tensor],
    /// Histories, which it may have.
    pub(crate) histories: &'a [Tensor],
}

/// Reads a checkpoint; histories of other programs are left out.
pub(crate) fn read(
    path: &Path,
    model: &str,
    expected: Expected,
) -> Result<Checkpoint, RuntimeError> {
    let failed = |source: io::Error| {
        let help = "check the path, or start without resuming";
        RuntimeError::File {
            action: "read",
            path: path.to_owned(),
            source,
            help,
        }
    };
    let refused = |reason: String| RuntimeError::Checkpoint {
        path: path.to_owned(),
        reason,
    };
    let data: u64 = expected.tensors().map(|t| 4 * t.floats()).sum();
    let mut header = header_limit(expected.tensors().count());
    let mut most = 8 + header + data;
    // One byte more than any checkpoint of this model has, to tell a longer file.
    let start = |most: u64| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mut bytes = start(most).map_err(failed)?;
    if bytes.len() as u64 > most {
        // Names tell more than sizes, where the header can be read; and there may be other histories.
        let tensors = header_of(path, &bytes, header).map_err(refused)?;
        compare(&tensors, expected).map_err(refused)?;
        header = header_limit(tensors.len());
        let floats = |shape: &[usize]| shape.iter().fold(1u64, |n, m| n.saturating_mul(*m as u64));
        let data = tensors.iter().map(|(.., shape)| floats(shape));
        let data = data.fold(0, |sum: u64, n| sum.saturating_add(n.saturating_mul(4)));
        most = data.saturating_add(8 + header).min(u64::MAX - 1);
        bytes = start(most).map_err(failed)?;
    }
    if bytes.len() as u64 > most {
        let found = fs::metadata(path).map_or(bytes.len() as u64, |m| m.len());
        return Err(refused(format!(
            "it has {found} bytes, a checkpoint of this model at most {most}"
        )));
    }
    decode(&bytes, header, model, expected).map_err(refused)
}

/// Bytes that the header of a checkpoint of so many tensors may have.
fn header_limit(tensors: usize) -> u64 {
    HEADER + HEADER_OF_TENSOR * tensors as u64
}

/// Reads the bytes of a checkpoint of the tensors `expected` (names and shapes; the values are
/// ignored): the number of epochs done and the tensors.
///
/// # Errors
/// Why the bytes are no checkpoint of these tensors.
pub fn parse_checkpoint(bytes: &[u8], expected: &[Tensor]) -> Result<(u64, Vec<Tensor>), String> {
    let header = header_limit(expected.len());
    let expected = Expected {
        all: expected,
        histories: &[],
    };
    let checkpoint = decode(bytes, header, "", expected)?;
    Ok((checkpoint.progress.epoch, checkpoint.tensors))
}

fn encode(checkpoint: &Checkpoint) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let progress = serde_json::to_string(&checkpoint.progress)?;
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
    let metadata = HashMap::from([(KEY.to_owned(), progress)]);
    safetensors::serialize(views, Some(metadata)).map_err(|e| e.to_string().into())
}

fn decode(
    bytes: &[u8],
    header: u64,
    model: &str,
    expected: Expected,
) -> Result<Checkpoint, String> {
    check_header(bytes, header)?;
    let damaged = |e: safetensors::SafeTensorError| format!("it is damaged or cut short ({e})");
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let text = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
    let text = text.ok_or("it was not written by gnnc: the metadata `gnnc` is missing")?;
    let version: Version =
        serde_json::from_str(text).map_err(|e| format!("its metadata cannot be read ({e})"))?;
    if version.version != VERSION {
        return Err(format!(
            "it has version {}, this program reads version {VERSION}",
            version.version
        ));
    }
    let progress: Progress =
        serde_json::from_str(text).map_err(|e| format!("its metadata cannot be read ({e})"))?;
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let mut found = shapes(&file);
    found.sort();
    compare(&found, expected)?;
    if !model.is_empty() && !progress.model.is_empty() && progress.model != model {
        return Err(format!(
            "it is of the model `{}`, not of `{model}`",
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

/// The part of the metadata that tells whether the rest can be read.
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

/// Tensors that the header of a file declares, without looking at its data.
fn header_of(path: &Path, bytes: &[u8], limit: u64) -> Result<Vec<Shape>, String> {
    #[derive(Deserialize)]
    struct Info {
        dtype: Dtype,
        shape: Vec<usize>,
    }
    // A larger model may have a larger header; more than this is no checkpoint.
    let length = check_header(bytes, (limit * 16).max(1 << 24))?;
    let mut text = vec![0; length as usize];
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    file.read_exact(&mut [0; 8])
        .and_then(|()| file.read_exact(&mut text))
        .map_err(|_| "it is cut short".to_owned())?;
    let fields: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&text).map_err(|e| format!("it is damaged ({e})"))?;
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

/// The length of a file's header, if it is within bounds.
fn check_header(bytes: &[u8], limit: u64) -> Result<u64, String> {
    let first: Option<[u8; 8]> = bytes.get(..8).and_then(|b| b.try_into().ok());
    let length = u64::from_le_bytes(first.ok_or("it is cut short")?);
    match length <= limit {
        true => Ok(length),
        false => Err(format!(
            "its header claims {length} bytes, expected at most {limit}"
        )),
    }
}

/// The first difference between the tensors of a file and those of a model.
fn compare(found: &[Shape], expected: Expected) -> Result<(), String> {
    for tensor in expected.tensors() {
        let shape = tensor.sizes();
        match found.iter().find(|(name, ..)| *name == tensor.name) {
            None if is_history(&tensor.name) => {}
            // Copies of another division of the vertices.
            Some((name, ..)) if name.starts_with(COPIES) => {}
            None => return Err(format!("it lacks `{}`, which this model has", tensor.name)),
            Some((name, Dtype::F32, other)) if *other != shape => {
                return Err(format!(
                    "`{name}` is {other:?} there, {shape:?} in this model"
                ));
            }
            Some((_, Dtype::F32, _)) => {}
            Some((name, dtype, _)) => return Err(format!("`{name}` is {dtype:?}, expected F32")),
        }
    }
    let known = |name: &str| is_history(name) || expected.tensors().any(|t| t.name == name);
    match found.iter().find(|(name, ..)| !known(name)) {
        None => Ok(()),
        Some((name, ..)) => Err(format!("it has `{name}`, which this model lacks")),
    }
}

impl<'a> Expected<'a> {
    fn tensors(self) -> impl Iterator<Item = &'a Tensor> {
        self.all.iter().chain(self.histories)
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

impl Tensor {
    fn sizes(&self) -> Vec<usize> {
        self.shape.iter().map(|&n| n as usize).collect()
    }

    pub(crate) fn floats(&self) -> u64 {
        self.shape.iter().map(|&n| u64::from(n)).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(epoch: u64) -> Checkpoint {
        let progress = Progress {
            version: VERSION,
            epoch,
            step: 7,
            seed: u64::MAX,
            learning_rate: 0.1,
            model: String::new(),
            program: u64::MAX - 1,
            division: None,
            began: None,
            best: None,
            kept: BTreeMap::new(),
        };
        let values = vec![f32::NAN, -0.0, 1e-40, f32::MAX, 0.1, 3.0];
        Checkpoint {
            progress,
            tensors: vec![Tensor {
                name: "w".to_owned(),
                shape: [1, 2, 3],
                values,
            }],
        }
    }

    fn expected(tensors: &[Tensor]) -> Expected<'_> {
        Expected {
            all: tensors,
            histories: &[],
        }
    }

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("gnnc-checkpoint-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn every_bit_survives() {
        let folder = folder("bits");
        let (path, written) = (folder.join("a"), checkpoint(3));
        write(&path, &written).unwrap();
        let read = read(&path, "", expected(&written.tensors)).unwrap();
        assert_eq!(read.progress, written.progress);
        let bits = |c: &Checkpoint| {
            c.tensors[0]
                .values
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&read), bits(&written));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_leaves_the_old_checkpoint() {
        let full = Path::new("/dev/full");
        assert!(full.exists(), "this test needs /dev/full");
        let folder = folder("full");
        let path = folder.join("a");
        write(&path, &checkpoint(3)).unwrap();
        let error = write_through(&path, &checkpoint(4), |_| {
            OpenOptions::new().write(true).open(full)
        })
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("free some space") && text.contains("untouched"),
            "{text}"
        );
        assert_eq!(
            read(&path, "", expected(&checkpoint(0).tensors))
                .unwrap()
                .progress
                .epoch,
            3
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
