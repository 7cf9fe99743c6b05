//! Files of predictions: CSV, NumPy archives and Parquet.

use super::table::{Column, Said, Table, Values};
use crate::cli::output::{Failure, input};
use gnnc::Predictions;
use gnnc::graph::write::Archive;
use gnnc::ir::graph::op::LabelKind;
use gnnc::ir::words::spelling::one_of;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::{self, Cursor};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group of Parquet.
const ROWS: usize = 1 << 17;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// A NumPy archive.
    Npz,
    /// Parquet.
    Parquet,
}

impl Format {
    const ALL: [Self; 3] = [Self::Csv, Self::Npz, Self::Parquet];

    /// How names of such files end.
    fn ending(self) -> &'static str {
        match self {
            Self::Csv => ".csv",
            Self::Npz => ".npz",
            Self::Parquet => ".parquet",
        }
    }

    /// The format that the name of a file says.
    ///
    /// # Errors
    /// A name with another ending.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string().to_ascii_lowercase();
        let mut all = Self::ALL.into_iter();
        let known = all.find(|own| name.ends_with(own.ending()));
        known.ok_or_else(|| {
            input(format!(
                "found --out {}, expected a name that ends with {}",
                path.display(),
                one_of(Self::ALL.map(Self::ending))
            ))
        })
    }

    /// A table as the bytes of a file.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn bytes(self, table: &Table) -> Result<Vec<u8>, Failure> {
        let bytes = match self {
            Self::Csv => csv(table).map_err(|e| e.to_string()),
            Self::Npz => npz(table).map_err(|e| e.to_string()),
            Self::Parquet => parquet(table).map_err(|e| e.to_string()),
        };
        bytes.map_err(|e| input(format!("cannot write a table: {e}")))
    }
}

fn csv(table: &Table) -> Result<Vec<u8>, csv::Error> {
    let columns = table.columns(&|class| format!("p({class})"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| &column.name))?;
    for row in 0..table.wanted.len() {
        writer.write_record(columns.iter().map(|column| column.values.text(row)))?;
    }
    writer.into_inner().map_err(|e| e.into_error().into())
}

fn npz(table: &Table) -> io::Result<Vec<u8>> {
    let mut archive = Archive::new(Cursor::new(Vec::new()));
    let rows = table.wanted.len();
    match table.ids() {
        Values::Texts(ids) => archive.lines("id", &ids)?,
        Values::Whole(ids) => {
            archive.array("id", "<i8", &[rows], ids.iter().map(|n| n.to_le_bytes()))?;
        }
        Values::Floats(_) => {}
    }
    let wanted = table.wanted.iter();
    match table.said {
        Said::Embeddings(found) => {
            let values = wanted.flat_map(|v| found.row(*v)).map(|x| x.to_le_bytes());
            archive.array("embeddings", "<f4", &[rows, found.width], values)?;
        }
        Said::Predictions {
            found,
            probabilities,
        } => {
            let values = wanted.flat_map(|v| found.row(*v)).map(|x| x.to_le_bytes());
            if found.labels == LabelKind::Numbers {
                let shape = [rows, found.width];
                let dimensions = if found.width == 1 { 1 } else { 2 };
                archive.array("value", "<f4", &shape[..dimensions], values)?;
            } else {
                classes(&mut archive, table, found)?;
                if probabilities {
                    archive.array("probabilities", "<f4", &[rows, found.width], values)?;
                }
            }
        }
    }
    archive.finish().map(Cursor::into_inner)
}

/// Writes the numbers of classes, or which of several labels each vertex has, and their names if there
/// are some.
fn classes(
    archive: &mut Archive<Cursor<Vec<u8>>>,
    table: &Table,
    found: &Predictions,
) -> io::Result<()> {
    let rows = table.wanted.len();
    let each = table.wanted.iter().map(|v| found.of(*v));
    if found.labels == LabelKind::Several {
        let has = each.flat_map(|own| (0..found.width).map(move |class| own.contains(&class)));
        let has = has.map(|has| [u8::from(has)]);
        archive.array("class", "|b1", &[rows, found.width], has)?;
    } else {
        let numbers = each.flatten().map(|class| (class as i64).to_le_bytes());
        archive.array("class", "<i8", &[rows], numbers)?;
    }
    match table.data.class_names.is_empty() {
        true => Ok(()),
        false => archive.lines("class_names", &table.data.class_names),
    }
}

fn parquet(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let columns = table.columns(&|class| format!("probability_{class}"));
    let fields: Result<Vec<_>, _> = columns.iter().map(field).collect();
    let schema = Type::group_type_builder("predictions").with_fields(fields?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("gnnc version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY);
    let (schema, properties) = (Arc::new(schema.build()?), Arc::new(properties.build()));
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let rows = table.wanted.len();
    for begin in (0..rows).step_by(ROWS) {
        let some = begin..rows.min(begin + ROWS);
        let mut group = file.next_row_group()?;
        for column in &columns {
            if let Some(mut out) = group.next_column()? {
                write(&mut out, &column.values, some.clone())?;
                out.close()?;
            }
        }
        group.close()?;
    }
    file.into_inner()
}

/// The field of a schema for a column, which has a value in every row.
fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.values {
        Values::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Values::Whole(_) => (Physical::INT64, None),
        Values::Floats(_) => (Physical::FLOAT, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical);
    field.build().map(Arc::new)
}

/// Writes some rows of a column.
fn write(
    out: &mut SerializedColumnWriter,
    values: &Values,
    rows: Range<usize>,
) -> Result<(), ParquetError> {
    let written = match values {
        Values::Texts(names) => {
            let text = |row| ByteArray::from(names.get(row).unwrap_or_default());
            let texts: Vec<ByteArray> = rows.map(text).collect();
            let out = out.typed::<ByteArrayType>();
            out.write_batch(&texts, None, None)
        }
        Values::Whole(numbers) => {
            let out = out.typed::<Int64Type>();
            out.write_batch(&numbers[rows], None, None)
        }
        Values::Floats(numbers) => {
            let out = out.typed::<FloatType>();
            out.write_batch(&numbers[rows], None, None)
        }
    };
    written.map(drop)
}
