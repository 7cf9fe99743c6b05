//! Tables in Parquet: rows of fields, as a table of text has them.
//!
//! A missing value is an empty field, true and false are 1 and 0, and a list is its numbers in brackets.
//! Rows are decoded some thousand at a time, so memory holds a page of each column besides.

mod cells;
mod checks;
mod columns;
mod footer;
mod pages;

use crate::GraphError;
use cells::Cells;
pub(super) use columns::Content;
use columns::Field;
use csv::ByteRecord;
use gnnc_ir::words::spelling::counted;
use pages::{EXPANSION, FREE, Source};
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::Length;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The first bytes of a file.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Fields that are decoded at once, over all columns.
const DECODED: usize = 1 << 18;
/// Most rows of these.
const MOST_ROWS: usize = 1 << 12;

/// The rows of a file.
pub(super) struct Rows {
    at: String,
    file: Arc<Source>,
    metadata: ParquetMetaData,
    pub(super) fields: Vec<Field>,
    /// The next group of rows.
    group: usize,
    /// The columns of the group at hand, and its rows that are not decoded yet.
    cells: Vec<Option<Cells>>,
    left: usize,
    /// The decoded fields, by column, and how many of these rows there are and were read.
    decoded: Vec<ByteRecord>,
    count: usize,
    next: usize,
    /// Bytes of fields that the file may still have: a damaged or hostile one can claim any number of equal ones.
    budget: u64,
}

/// Whether a file is one of Parquet, by its first bytes.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn is(path: &Path) -> Result<bool, GraphError> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let mut start = Vec::new();
    let file = gnnc_files::open(path);
    let read = file.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start));
    read.map_err(|source| failed(path, source))?;
    Ok(start == MAGIC)
}

fn failed(path: &Path, source: std::io::Error) -> GraphError {
    let file = path.to_owned();
    GraphError::Io { file, source }
}

impl Rows {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is compressed in an unknown way.
    pub(super) fn open(path: &Path) -> Result<Self, GraphError> {
        let at = crate::read::place(path);
        let file = gnnc_files::open(path).map_err(|source| failed(path, source))?;
        let file = Source(file);
        let length = file.len();
        footer::check(&file).map_err(|reason| damaged(&at, &reason))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file.0);
        let metadata = metadata.map_err(|error| damaged(&at, &error.to_string()))?;
        readable(&at, &metadata)?;
        let fields = columns::of(metadata.file_metadata().schema_descr());
        Ok(Self {
            decoded: vec![ByteRecord::new(); fields.len()],
            fields,
            file: Arc::new(file),
            metadata,
            group: 0,
            cells: Vec::new(),
            left: 0,
            count: 0,
            next: 0,
            budget: FREE.saturating_add(length.saturating_mul(EXPANSION)),
            at,
        })
    }

    /// Reads the next row, if there is one.
    ///
    /// # Errors
    /// A damaged file.
    pub(super) fn read(&mut self, row: &mut ByteRecord) -> Result<bool, GraphError> {
        while self.next == self.count {
            if !self.decode()? {
                return Ok(false);
            }
        }
        row.clear();
        for column in &self.decoded {
            row.push_field(column.get(self.next).unwrap_or_default());
        }
        self.next += 1;
        Ok(true)
    }

    /// Decodes some rows; false if there are no more.
    fn decode(&mut self) -> Result<bool, GraphError> {
        if self.left == 0 {
            let Some(group) = self.metadata.row_groups().get(self.group) else {
                return Ok(false);
            };
            self.cells = Self::open_group(&self.file, &self.fields, group)
                .map_err(|error| damaged(&self.at, &error.to_string()))?;
            self.left = usize::try_from(group.num_rows())
                .map_err(|_| damaged(&self.at, "a negative number of rows"))?;
            self.group += 1;
        }
        let most = DECODED / self.fields.len().max(1);
        let rows = self.left.min(most.clamp(1, MOST_ROWS));
        for (cells, out) in self.cells.iter_mut().zip(&mut self.decoded) {
            out.clear();
            match cells {
                Some(cells) => cells
                    .read(rows, out, &mut self.budget)
                    .map_err(|reason| damaged(&self.at, &reason))?,
                None => (0..rows).for_each(|_| out.push_field(b"")),
            }
            let written = (out.as_slice().len() + rows) as u64;
            self.budget = self.budget.checked_sub(written).ok_or_else(|| {
                damaged(
                    &self.at,
                    "it claims more values than a file of its size can have",
                )
            })?;
        }
        self.left -= rows;
        (self.count, self.next) = (rows, 0);
        Ok(true)
    }

    /// The columns of a group of rows; none for those that are not read.
    fn open_group(
        file: &Arc<Source>,
        fields: &[Field],
        group: &RowGroupMetaData,
    ) -> Result<Vec<Option<Cells>>, ParquetError> {
        let open = |field: &Field| match &field.content {
            Content::Values(values) => Cells::open(file, values, group).map(Some),
            Content::Other(_) => Ok(None),
        };
        fields.iter().map(open).collect()
    }
}

/// The error about a damaged file.
fn damaged(at: &str, reason: &str) -> GraphError {
    // Some reasons begin with the kind of error.
    let reason = reason.strip_prefix("Parquet error: ").unwrap_or(reason);
    GraphError::Archive {
        at: at.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Checks that all columns are compressed and encoded in a way that can be read.
fn readable(at: &str, metadata: &ParquetMetaData) -> Result<(), GraphError> {
    let groups = metadata.row_groups().iter();
    for column in groups.flat_map(RowGroupMetaData::columns) {
        // Levels have encodings too, which are all known.
        let known = |own: &Encoding| checks::is_checked(*own) || is_of_levels(*own);
        let other = column.encodings().find(|own| !known(own));
        let found = match (compression(column.compression()), other) {
            (Some(name), _) => format!("compression with {name}"),
            (None, Some(encoding)) => format!("the encoding {encoding:?}"),
            (None, None) => continue,
        };
        return Err(GraphError::Unsupported {
            at: at.to_owned(),
            found,
            expected:
                "plain or dictionary encoding, and compression with none, snappy, gzip, lz4 or \
                       zstd; write the file again with the defaults of pandas, Polars or DuckDB"
                    .to_owned(),
        });
    }
    Ok(())
}

/// The name of a compression that cannot be read.
fn compression(own: Compression) -> Option<&'static str> {
    match own {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::LZ4
        | Compression::LZ4_RAW
        | Compression::ZSTD(_) => None,
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("lzo"),
    }
}

/// Whether an encoding, deprecated by now, is one of levels only.
#[allow(deprecated, reason = "files of old writers say so")]
fn is_of_levels(own: Encoding) -> bool {
    own == Encoding::BIT_PACKED
}

/// Checks that a table has no more columns than text may have.
pub(super) fn check_columns(rows: &Rows, most: usize) -> Result<(), GraphError> {
    match rows.fields.len() <= most {
        true => Ok(()),
        false => Err(GraphError::Unsupported {
            at: rows.at.clone(),
            found: counted(rows.fields.len(), "column"),
            expected: format!("at most {most}"),
        }),
    }
}
