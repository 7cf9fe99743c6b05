//! Tables in Parquet, written column by column.

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// The values of a column, with their definition and repetition levels if the schema needs them.
pub struct Column {
    pub values: Values,
    pub levels: Option<Vec<i16>>,
    pub repeats: Option<Vec<i16>>,
}

pub enum Values {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Vec<ByteArray>),
}

pub fn required(values: Values) -> Column {
    Column {
        values,
        levels: None,
        repeats: None,
    }
}

/// A column of texts, some of which are missing.
pub fn texts(all: &[Option<&str>]) -> Column {
    Column {
        values: Values::Text(
            all.iter()
                .flatten()
                .map(|text| ByteArray::from(*text))
                .collect(),
        ),
        levels: Some(all.iter().map(|text| i16::from(text.is_some())).collect()),
        repeats: None,
    }
}

pub fn words(all: &[&str]) -> Column {
    required(Values::Text(
        all.iter().map(|text| ByteArray::from(*text)).collect(),
    ))
}

/// A file of one group of rows for each list of columns.
pub fn file(schema: &str, groups: Vec<Vec<Column>>, properties: WriterProperties) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut out = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = out.next_row_group().unwrap();
        for Column {
            values,
            levels,
            repeats,
        } in columns
        {
            let mut column = group.next_column().unwrap().unwrap();
            let (levels, repeats) = (levels.as_deref(), repeats.as_deref());
            let written = match (column.untyped(), &values) {
                (ColumnWriter::BoolColumnWriter(out), Values::Bool(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                (ColumnWriter::Int32ColumnWriter(out), Values::I32(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                (ColumnWriter::Int64ColumnWriter(out), Values::I64(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                (ColumnWriter::FloatColumnWriter(out), Values::F32(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                (ColumnWriter::DoubleColumnWriter(out), Values::F64(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                (ColumnWriter::ByteArrayColumnWriter(out), Values::Text(own)) => {
                    out.write_batch(own, levels, repeats)
                }
                _ => panic!("another type than the schema's"),
            };
            written.unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    out.into_inner().unwrap()
}

pub const PEOPLE: &str = "message people {
    required binary name (STRING);
    required int32 age;
    required int64 visits;
    required boolean member;
    required float height;
    required double weight;
    optional group taste (LIST) { repeated group list { optional double element; } }
    repeated int32 codes;
    optional binary label (STRING);
    optional binary split (STRING);
    optional binary city (STRING);
    required int64 since (TIMESTAMP(MICROS, true));
    optional group address { optional int32 zip; optional int32 house; }
}";

pub const PEOPLE_CSV: &str = "name;age;visits;member;height;weight;taste;codes;label;split;city\n\
    zoe;31;5000000000;1;1.5;60.25;[0.5, 1];[1, 2];red;train;Oslo\n\
    ann;-4;0;0;1.75;1e-3;[2, 3];[3, 4];blue;val;\n\
    bob;7;-1;1;0.1;0.1;[0, 0];[5, 6];;test;Rome\n\
    eve;0;2;0;2;1e300000;[1, 1];[7, 8];red;;\"a;b\"\n";

/// The rows of [`PEOPLE_CSV`] from `begin` to `end`.
pub fn people_rows(begin: usize, end: usize) -> Vec<Column> {
    fn part<T: Clone>(all: &[T], begin: usize, end: usize) -> Vec<T> {
        all[begin..end].to_vec()
    }
    let rows = end - begin;
    let names = ["zoe", "ann", "bob", "eve"];
    let taste = [0.5, 1.0, 2.0, 3.0, 0.0, 0.0, 1.0, 1.0];
    let repeats = |rows: usize| Some([0, 1].repeat(rows));
    vec![
        words(&names[begin..end]),
        required(Values::I32(part(&[31, -4, 7, 0], begin, end))),
        required(Values::I64(part(&[5_000_000_000, 0, -1, 2], begin, end))),
        required(Values::Bool(part(&[true, false, true, false], begin, end))),
        required(Values::F32(part(&[1.5, 1.75, 0.1, 2.0], begin, end))),
        required(Values::F64(part(&[60.25, 1e-3, 0.1, 7.0], begin, end))),
        Column {
            values: Values::F64(part(&taste, 2 * begin, 2 * end)),
            levels: Some(vec![3; 2 * rows]),
            repeats: repeats(rows),
        },
        Column {
            values: Values::I32(part(&[1, 2, 3, 4, 5, 6, 7, 8], 2 * begin, 2 * end)),
            levels: Some(vec![1; 2 * rows]),
            repeats: repeats(rows),
        },
        texts(&[Some("red"), Some("blue"), None, Some("red")][begin..end]),
        texts(&[Some("train"), Some("val"), Some("test"), None][begin..end]),
        texts(&[Some("Oslo"), None, Some("Rome"), Some("a;b")][begin..end]),
        required(Values::I64(vec![1; rows])),
        Column {
            values: Values::I32(Vec::new()),
            levels: Some(vec![0; rows]),
            repeats: None,
        },
        Column {
            values: Values::I32(Vec::new()),
            levels: Some(vec![0; rows]),
            repeats: None,
        },
    ]
}

pub fn people(properties: WriterProperties) -> Vec<u8> {
    file(
        PEOPLE,
        vec![people_rows(0, 3), people_rows(3, 4)],
        properties,
    )
}

pub const EDGES: &str = "message edges {
    optional binary source (STRING);
    required binary target (STRING);
    required float weight;
    required int32 day (DATE);
}";

pub const EDGES_CSV: &str =
    "source,target,weight\nzoe,ann,0.5\nann,bob,1\nbob,zoe,-2\neve,zoe,0.1\n";

pub fn edges(properties: WriterProperties) -> Vec<u8> {
    let columns = vec![
        texts(&["zoe", "ann", "bob", "eve"].map(Some)),
        words(&["ann", "bob", "zoe", "zoe"]),
        required(Values::F32(vec![0.5, 1.0, -2.0, 0.1])),
        required(Values::I32(vec![1; 4])),
    ];
    file(EDGES, vec![columns], properties)
}
