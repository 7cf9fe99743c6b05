//! Tables in Parquet, which are read from files.

use gnnc_graph::import::{Import, import};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Edges between the vertices of the seeds.
const EDGES: &str = "source,target\nv0,v1\nv1,v2\n";

/// A file of this thread; tests run at the same time.
fn file(name: &str) -> PathBuf {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(format!("gnnc-fuzz-{process}-{thread:?}-{name}"))
}

/// The bytes as a table of edges, and as one of vertices. A graph that was read is valid.
pub fn parquet(data: &[u8]) {
    // Bytes of another kind are for other targets.
    if data.starts_with(b"PAR1") {
        graphs(data);
    }
}

/// How many graphs can be read of a table: one of its own, and one of edges beside it.
pub fn graphs(data: &[u8]) -> usize {
    let (table, edges) = (file("table.parquet"), file("edges.csv"));
    fs::write(&table, data).expect("room in the folder of temporary files");
    fs::write(&edges, EDGES).expect("room in the folder of temporary files");
    let alone = Import {
        edges: table.clone(),
        ..Import::default()
    };
    let beside = Import {
        edges: edges.clone(),
        nodes: Some(table.clone()),
        ..Import::default()
    };
    let found = [alone, beside]
        .into_iter()
        .filter_map(|options| import(&options).ok());
    let count = found
        .inspect(|found| assert_eq!(found.data.validate(), []))
        .count();
    for file in [table, edges] {
        fs::remove_file(file).expect("a file of this thread");
    }
    count
}

const SCHEMA: &str = "message vertices {
    required binary id (STRING);
    required binary target (STRING);
    required int64 age;
    optional float height;
    optional group list (LIST) { repeated group list { optional float element; } }
}";

/// Tables of vertices that are edges too, in some ways to write them.
pub fn seeds() -> Vec<Vec<u8>> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
    ];
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    let all = codecs
        .into_iter()
        .flat_map(|codec| versions.map(|version| (codec, version)));
    let all = all.map(|(codec, version)| {
        let properties = WriterProperties::builder();
        let properties = properties
            .set_compression(codec)
            // Without a dictionary, version 2 would code texts as differences, which are refused.
            .set_encoding(Encoding::PLAIN)
            .set_writer_version(version);
        seed(
            properties
                .set_dictionary_enabled(version == versions[0])
                .build(),
        )
    });
    all.collect::<Result<_, _>>().expect("memory")
}

fn seed(properties: WriterProperties) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut out = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = out.next_row_group()?;
    let ids = |names: [&str; 3]| names.map(ByteArray::from);
    for names in [["v0", "v1", "v2"], ["v1", "v2", "v0"]] {
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<ByteArrayType>()
                .write_batch(&ids(names), None, None)?;
            column.close()?;
        }
    }
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<Int64Type>()
            .write_batch(&[3, -1, 1 << 40], None, None)?;
        column.close()?;
    }
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<FloatType>()
            .write_batch(&[0.5, 1.5, 2.5], Some(&[1, 1, 1]), None)?;
        column.close()?;
    }
    if let Some(mut column) = group.next_column()? {
        let (levels, repeats) = ([3; 6], [0, 1, 0, 1, 0, 1]);
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        column
            .typed::<FloatType>()
            .write_batch(&values, Some(&levels), Some(&repeats))?;
        column.close()?;
    }
    group.close()?;
    out.into_inner()
}
