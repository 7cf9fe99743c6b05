//! Scalars of a run for TensorBoard: a file of events in a folder, written as the run goes on.
//!
//! An event file is a list of records: the length of the data as eight bytes, a checksum of these, the data, and
//! a checksum of the data. The data is an `Event` of TensorFlow's protocol buffers, of which only the fields for
//! scalars are declared here.

use super::output::{Failure, input};
use gnnc::{Error, Progress};
use prost::Message;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the first event of a file says.
const VERSION: &str = "brain.Event:2";

/// Writes events. The first epoch creates the file.
pub(super) struct Board {
    folder: PathBuf,
    file: Option<File>,
}

/// `tensorflow.Event`.
#[derive(Clone, PartialEq, Message)]
struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Scalars>,
}

/// `tensorflow.Summary`.
#[derive(Clone, PartialEq, Message)]
struct Scalars {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

/// `tensorflow.Summary.Value`.
#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

impl Board {
    /// A new file of events in a folder, which is made if it is not there.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, file: None }
    }

    /// Checks that a folder can hold events.
    ///
    /// # Errors
    /// A file of that name.
    pub(super) fn fits(folder: &Path) -> Result<(), Failure> {
        match folder.exists() && !folder.is_dir() {
            false => Ok(()),
            true => Err(input(format!(
                "cannot write files for TensorBoard to {}: it is a file; name a folder",
                folder.display()
            ))),
        }
    }

    /// Adds the scalars of an epoch, if it was evaluated. Scores of empty splits are left out.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, progress: &Progress) -> Result<(), Failure> {
        self.write(progress).map_err(|source| {
            Failure::Error(Error::File {
                action: "write",
                path: self.folder.clone(),
                source,
            })
        })
    }

    fn write(&mut self, progress: &Progress) -> io::Result<()> {
        let (Some(metrics), Some(scores)) = (progress.metrics, progress.scores) else {
            return Ok(());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_time = now.map_or(0.0, |now| now.as_secs_f64());
        let mut records = Vec::new();
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                records = record(&Event {
                    wall_time,
                    file_version: Some(VERSION.to_owned()),
                    ..Event::default()
                });
                none.insert(create(&self.folder, wall_time as u64)?)
            }
        };
        let epoch = progress.epoch;
        let mut values = vec![
            ("loss/train".to_owned(), Some(epoch.loss)),
            ("loss/val".to_owned(), metrics.val_loss),
        ];
        for (set, score) in ["train", "val", "test"].iter().zip(scores.each()) {
            values.push((format!("{}/{set}", scores.metric.key()), score));
        }
        values.push(("learning_rate".to_owned(), Some(progress.learning_rate)));
        values.push(("epoch_seconds".to_owned(), Some(epoch.seconds)));
        let scalar = |(tag, value): (String, Option<f64>)| {
            let simple_value = Some(value? as f32);
            Some(Scalar { tag, simple_value })
        };
        records.extend(record(&Event {
            wall_time,
            step: epoch.epoch as i64,
            summary: Some(Scalars {
                value: values.into_iter().filter_map(scalar).collect(),
            }),
            ..Event::default()
        }));
        file.write_all(&records)
    }
}

/// Makes a new file whose name TensorBoard looks for. Files of one folder are one run, in the order of their
/// names, which have the time and, for runs of the same second, the process.
fn create(folder: &Path, seconds: u64) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let process = std::process::id();
    let name = format!("events.out.tfevents.{seconds:010}.gnnc.{process}");
    File::create(folder.join(name))
}

/// The bytes of an event in a file.
fn record(event: &Event) -> Vec<u8> {
    let data = event.encode_to_vec();
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(masked(&length).to_le_bytes());
    bytes.extend(&data);
    bytes.extend(masked(&data).to_le_bytes());
    bytes
}

/// The checksum that TensorFlow writes: CRC-32C, rotated and shifted, so that data may contain checksums.
fn masked(bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(bytes);
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compared with what TensorBoard 2.21 writes for the same events (`RecordWriter` in
    /// `tensorboard.summary.writer.record_writer`).
    #[test]
    fn records_have_the_bytes_of_tensorboard() {
        let first = Event {
            wall_time: 1.5,
            file_version: Some(VERSION.to_owned()),
            ..Event::default()
        };
        let bytes =
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c";
        assert_eq!(hex(&record(&first)), bytes);
        let scalar = Scalar {
            tag: "loss".to_owned(),
            simple_value: Some(0.5),
        };
        let event = Event {
            wall_time: 1.5,
            step: 3,
            summary: Some(Scalars {
                value: vec![scalar],
            }),
            ..Event::default()
        };
        let bytes =
            "1a00000000000000129bd82d09000000000000f83f10032a0d0a0b0a046c6f7373150000003f80655ee3";
        assert_eq!(hex(&record(&event)), bytes);
    }
}
