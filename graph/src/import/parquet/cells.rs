//! The values of a column of Parquet as fields of text.

use super::columns::Values;
use super::pages::{Pages, Source};
use csv::ByteRecord;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use std::io::Write;
use std::sync::Arc;

/// The values of a column in a group of rows.
pub(super) struct Cells {
    reader: ColumnReader,
    values: Values,
    /// The level of a value that is there.
    there: i16,
}

impl Cells {
    /// Opens a column of a group.
    ///
    /// # Errors
    /// A damaged file.
    pub(super) fn open(
        file: &Arc<Source>,
        values: &Values,
        group: &RowGroupMetaData,
    ) -> Result<Self, ParquetError> {
        let Some(chunk) = group.columns().get(values.leaf) else {
            return Err(ParquetError::General("a column is missing".to_owned()));
        };
        let rows = usize::try_from(group.num_rows())?;
        let pages = Pages::open(file, chunk, rows)?;
        let column = chunk.column_descr_ptr();
        Ok(Self {
            there: column.max_def_level(),
            reader: get_column_reader(column, Box::new(pages)),
            values: *values,
        })
    }

    /// Reads the values of some rows, and appends a field for each.
    ///
    /// # Errors
    /// Why the file is damaged.
    pub(super) fn read(
        &mut self,
        rows: usize,
        out: &mut ByteRecord,
        budget: &mut u64,
    ) -> Result<(), String> {
        let unsigned = self.values.unsigned;
        let run = Run {
            rows,
            list: self.values.list,
            there: self.there,
        };
        match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| {
                    shown(text, u8::from(*value))
                })
            }
            ColumnReader::Int32ColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| match unsigned {
                    true => shown(text, *value as u32),
                    false => shown(text, *value),
                })
            }
            ColumnReader::Int64ColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| match unsigned {
                    true => shown(text, *value as u64),
                    false => shown(text, *value),
                })
            }
            ColumnReader::FloatColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| shown(text, *value))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| shown(text, *value))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                run.read(reader, out, budget, |value, text| text.extend(value.data()))
            }
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Err("a column of another type than its schema says".to_owned())
            }
        }
    }
}

/// Appends a number as text.
fn shown(text: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(text, "{value}");
}

/// Some rows to be read.
struct Run {
    rows: usize,
    /// As in [`Values::list`].
    list: Option<i16>,
    there: i16,
}

impl Run {
    fn read<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        out: &mut ByteRecord,
        budget: &mut u64,
        show: impl Fn(&T::T, &mut Vec<u8>),
    ) -> Result<(), String> {
        let (mut levels, mut repeats, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let read = reader.read_records(
            self.rows,
            Some(&mut levels),
            Some(&mut repeats),
            &mut values,
        );
        let (records, ..) = read.map_err(|error| error.to_string())?;
        if records != self.rows {
            return Err("a column has fewer values than rows".to_owned());
        }
        // Levels and values took memory, whatever their text takes.
        let taken = (levels.len() + values.len()) as u64;
        *budget = budget.saturating_sub(taken);
        let mut fields = Fields {
            values: values.iter(),
            show,
            text: Vec::new(),
        };
        let whole = match self.list {
            None => fields.single(self, &levels, out),
            Some(list) => fields.lists(self.there, list, [&levels, &repeats], out),
        };
        whole.ok_or_else(|| "a column has fewer values than rows".to_owned())
    }
}

/// Values that become fields.
struct Fields<'a, V, S> {
    values: std::slice::Iter<'a, V>,
    show: S,
    text: Vec<u8>,
}

impl<V, S: Fn(&V, &mut Vec<u8>)> Fields<'_, V, S> {
    /// Appends the text of the next value.
    fn next(&mut self) -> Option<()> {
        let value = self.values.next()?;
        (self.show)(value, &mut self.text);
        Some(())
    }

    /// A value for each row, or none.
    fn single(&mut self, run: &Run, levels: &[i16], out: &mut ByteRecord) -> Option<()> {
        for row in 0..run.rows {
            self.text.clear();
            if run.there == 0 || *levels.get(row)? == run.there {
                self.next()?;
            }
            out.push_field(&self.text);
        }
        Some(())
    }

    /// A list for each row: `[1, 2]`, or nothing.
    fn lists(
        &mut self,
        there: i16,
        list: i16,
        [levels, repeats]: [&[i16]; 2],
        out: &mut ByteRecord,
    ) -> Option<()> {
        let mut starts = repeats.iter().zip(levels).peekable();
        while let Some((_, level)) = starts.next() {
            self.text.clear();
            if *level + 1 >= list {
                self.text.push(b'[');
                self.element(*level, there, list)?;
                while let Some((_, level)) = starts.next_if(|(repeat, _)| **repeat > 0) {
                    self.text.extend(b", ");
                    self.element(*level, there, list)?;
                }
                self.text.push(b']');
            }
            out.push_field(&self.text);
        }
        Some(())
    }

    /// An element of a list, which is `null` if it is missing. An empty list has none.
    fn element(&mut self, level: i16, there: i16, list: i16) -> Option<()> {
        if level == there {
            self.next()?;
        } else if level >= list {
            self.text.extend(b"null");
        }
        Some(())
    }
}
