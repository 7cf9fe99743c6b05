//! Checkpoints: parameters, optimizer states and training progress, as safetensors.

mod format;
mod progress;

pub use format::{first_checkpoint, parse_checkpoint};
pub(crate) use progress::Progress;

use crate::RuntimeError;
use format::{compare, decode, encode, header_limit, header_of};
use gnnc_files::Replacement;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Largest header read; a file with a larger one is not a checkpoint.
const MOST_HEADER: u64 = 1 << 26;

/// A named tensor of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name: `layer_1.weight`.
    pub name: String,
    /// Iterations of a repeated layer (otherwise 1), rows, columns.
    pub shape: [u32; 3],
    /// Row-major.
    pub values: Vec<f32>,
}

/// The content of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) progress: Progress,
    pub(crate) tensors: Vec<Tensor>,
}

/// The state of a run, in memory.
pub struct Snapshot(pub(crate) Checkpoint);

impl Snapshot {
    /// Writes a checkpoint in place of the one at `path`, which is complete at every moment.
    ///
    /// # Errors
    /// If the file cannot be written; an older one of that name is untouched.
    pub fn write(&self, path: &Path) -> Result<(), RuntimeError> {
        let bytes = encode(&self.0).map_err(|e| not_written(path, io::Error::other(e)))?;
        gnnc_files::replace(path, &bytes).map_err(|source| not_written(path, source))
    }
}

/// Writes a checkpoint. `path` is a complete checkpoint at every moment; the one before is kept
/// under the name [`previous`] gives.
pub(crate) fn write(path: &Path, checkpoint: &Checkpoint) -> Result<(), RuntimeError> {
    let bytes = encode(checkpoint).map_err(|e| not_written(path, io::Error::other(e)))?;
    let written = Replacement::begin(path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.finish_keeping(&previous(path))
    });
    written.map_err(|source| not_written(path, source))
}

/// Where the checkpoint before the one at `path` is kept.
pub(crate) fn previous(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".previous");
    path.with_file_name(name)
}

fn not_written(path: &Path, source: io::Error) -> RuntimeError {
    let help = match source.kind() {
        io::ErrorKind::NotFound => "create the folder first, or write elsewhere",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "allow writing there, or write elsewhere"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space or write elsewhere; the previous checkpoint is intact"
        }
        _ => "write elsewhere; the previous checkpoint is intact",
    };
    RuntimeError::File {
        action: "write",
        path: path.to_owned(),
        source,
        help,
    }
}

/// Prefix of the names of histories, rows of earlier epochs. A run can resume without them.
pub(crate) const HISTORY: &str = "history.";

/// Prefix of the names of copies of other ranks' rows, and of the copies' ages.
pub(crate) const COPIES: &str = "copies.";

/// What follows the name of a parameter in those of its optimizer states, before their numbers.
pub(crate) const STATE: &str = ".state_";

/// Whether a tensor of a checkpoint is a history or a copy, which a run can resume without.
pub(crate) fn is_history(name: &str) -> bool {
    name.starts_with(HISTORY) || name.starts_with(COPIES)
}

/// The tensors of a model; only names and shapes matter here.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// Tensors a checkpoint must have.
    pub(crate) all: &'a [Tensor],
    /// Histories, which it may have.
    pub(crate) histories: &'a [Tensor],
    /// Whether it may also have the states of an optimizer, which are left there.
    pub(crate) states: bool,
}

/// Reads a checkpoint; drops histories of other programs.
pub(crate) fn read(
    path: &Path,
    model: &str,
    expected: Expected,
) -> Result<Checkpoint, RuntimeError> {
    let failed = |source: io::Error| {
        let help = "check the path";
        RuntimeError::File {
            action: "read",
            path: path.to_owned(),
            source,
            help,
        }
    };
    let refused = |reason: String| {
        let previous = previous(path);
        let reason = if previous.exists() {
            format!(
                "{reason}; the previous checkpoint is {}",
                previous.display()
            )
        } else {
            reason
        };
        RuntimeError::Checkpoint {
            path: path.to_owned(),
            reason,
        }
    };
    let file = gnnc_files::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let data: u64 = expected.tensors().map(|t| 4 * t.floats()).sum();
    let mut header = header_limit(expected.tensors().count());
    if length > 8 + header + data {
        // If the header is readable, report names rather than sizes. The checkpoint may also have
        // other histories.
        let mut start = Vec::new();
        let start_length = 8 + MOST_HEADER;
        (&file)
            .take(start_length)
            .read_to_end(&mut start)
            .map_err(failed)?;
        let tensors = header_of(&start, MOST_HEADER).map_err(refused)?;
        compare(&tensors, expected).map_err(refused)?;
        header = header_limit(tensors.len());
        let floats = |shape: &[usize]| shape.iter().fold(1u64, |n, m| n.saturating_mul(*m as u64));
        let data = tensors.iter().map(|(.., shape)| floats(shape));
        let data = data.fold(0, |sum: u64, n| sum.saturating_add(n.saturating_mul(4)));
        let most = data.saturating_add(8 + header);
        if length > most {
            return Err(refused(format!(
                "it has {length} bytes, a checkpoint of this model at most {most}"
            )));
        }
    }
    let bytes = gnnc_files::read(path, length).map_err(failed)?;
    decode(&bytes, header, model, expected).map_err(refused)
}

impl<'a> Expected<'a> {
    fn tensors(self) -> impl Iterator<Item = &'a Tensor> {
        self.all.iter().chain(self.histories)
    }

    /// Whether a checkpoint may have a tensor of this name.
    fn knows(self, name: &str) -> bool {
        let of = name.rsplit_once(STATE).filter(|_| self.states);
        let state_of = of.map_or(name, |(parameter, _)| parameter);
        is_history(name) || self.tensors().any(|t| t.name == name || t.name == state_of)
    }
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
    use super::progress::VERSION;
    use super::*;
    use crate::report::Best;
    use std::collections::BTreeMap;
    use std::fs;

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
            plateau: Default::default(),
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
            states: false,
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
    fn equal_checkpoints_have_equal_bytes() {
        let first = encode(&checkpoint(3)).unwrap();
        for _ in 0..20 {
            assert_eq!(encode(&checkpoint(3)).unwrap(), first);
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let folder = folder("flipped");
        let (path, written) = (folder.join("a"), checkpoint(3));
        write(&path, &written).unwrap();
        let whole = fs::read(&path).unwrap();
        let data = whole.len() - 24;
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let error = read(&path, "", expected(&written.tensors)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("cannot be used"), "{text}");
            let named = text.contains("tensor `w` is damaged");
            assert!(named || bit / 8 < data, "bit {bit}: {text}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn numbers_that_no_run_has_are_refused() {
        let score = |correct, total| crate::Score { correct, total };
        let best = |epoch, train| Best {
            judged: None,
            epoch,
            metrics: crate::Metrics {
                train,
                ..crate::Metrics::default()
            },
        };
        type Change<'a> = (&'a str, &'a dyn Fn(&mut Progress));
        let changes: [Change; 10] = [
            ("learning rate is -1", &|p| p.learning_rate = -1.0),
            ("learning rate is 0", &|p| p.learning_rate = 0.0),
            ("epoch is 1152921504606846976", &|p| p.epoch = 1 << 60),
            ("number of steps", &|p| p.step = u64::MAX),
            ("best epoch is 4", &|p| {
                p.best = Some(best(4, score(1.0, 2.0)))
            }),
            ("best score is -3 of 2", &|p| {
                p.best = Some(best(1, score(-3.0, 2.0)));
            }),
            ("epoch without copies is 9", &|p| p.began = Some(9)),
            ("epoch of a history is 9", &|p| {
                p.kept.insert("history.a".to_owned(), 9);
            }),
            ("evaluations on a plateau is 9", &|p| {
                p.plateau.reductions = 9
            }),
            ("version 1", &|p| p.version = 1),
        ];
        let folder = folder("numbers");
        let path = folder.join("a");
        for (words, change) in changes {
            let mut checkpoint = checkpoint(3);
            change(&mut checkpoint.progress);
            write(&path, &checkpoint).unwrap();
            let error = read(&path, "", expected(&checkpoint.tensors)).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(words), "{words}: {text}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn sums_of_errors_of_any_size_are_read_back() {
        let folder = folder("errors");
        let path = folder.join("a");
        for sum in [7.5, 1e300, f64::INFINITY, f64::NAN] {
            let mut written = checkpoint(3);
            let metrics = crate::Metrics {
                train: crate::Score {
                    correct: sum,
                    total: 2.0,
                },
                val: crate::Score {
                    correct: 3.0,
                    total: 2.0,
                },
                test: crate::Score::default(),
                val_loss: Some(4.5),
                bytes_sent: 0,
            };
            written.progress.best = Some(Best {
                epoch: 2,
                metrics,
                judged: None,
            });
            write(&path, &written).unwrap();
            let read = read(&path, "", expected(&written.tensors)).unwrap();
            let best = read.progress.best.unwrap();
            let found = best.metrics.train.correct;
            match sum.is_finite() {
                true => assert_eq!(found, sum),
                false => assert!(found.is_nan(), "{found}"),
            }
            let found = (best.epoch, best.metrics.val, best.metrics.val_loss);
            assert_eq!(found, (2, metrics.val, metrics.val_loss));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_last_two_are_kept() {
        let folder = folder("two");
        let path = folder.join("a");
        let epoch = |path: &Path| {
            let read = read(path, "", expected(&checkpoint(0).tensors)).unwrap();
            read.progress.epoch
        };
        for n in 1..4 {
            write(&path, &checkpoint(n)).unwrap();
        }
        assert_eq!((epoch(&path), epoch(&previous(&path))), (3, 2));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::write(&path, "damaged").unwrap();
        let error = read(&path, "", expected(&checkpoint(0).tensors)).unwrap_err();
        assert!(error.to_string().contains("a.previous"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_leaves_the_old_checkpoint() {
        let folder = folder("full");
        let path = folder.join("a");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let text = not_written(&path, full).to_string();
        assert!(
            text.contains("free some space") && text.contains("intact"),
            "{text}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
