//! Tables in Parquet make the graphs that the same tables in CSV make; damaged ones give errors.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

mod columns;

use columns::{Column, EDGES_CSV, PEOPLE_CSV, Values, edges, file, people, required, words};
use gnnc_graph::import::{Import, Imported, import};
use gnnc_graph::{GraphError, write};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::ByteArray;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn read(edges: &Path, nodes: Option<&Path>) -> Result<Imported, GraphError> {
    import(&Import {
        edges: edges.to_owned(),
        nodes: nodes.map(Path::to_owned),
        ..Import::default()
    })
}

fn archive(found: &Imported) -> Vec<u8> {
    let out = write::npz(&found.data, Cursor::new(Vec::new()));
    out.unwrap().into_inner()
}

/// Ways to write the same file.
fn ways() -> Vec<WriterProperties> {
    let compressed = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
    ];
    let of = |compression| WriterProperties::builder().set_compression(compression);
    let mut all: Vec<WriterProperties> = compressed.map(|own| of(own).build()).to_vec();
    let plain = of(Compression::SNAPPY).set_dictionary_enabled(false);
    all.push(plain.set_data_page_row_count_limit(1).build());
    let second = of(Compression::GZIP(Default::default()));
    all.push(
        second
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .build(),
    );
    all
}

#[test]
fn the_graph_is_that_of_the_same_tables_in_csv() {
    let files = Files::new();
    // A number that is too large for a float is none in both.
    let nodes = files.file("people.csv", PEOPLE_CSV.replace("1e300000", "7"));
    let expected = read(&files.file("edges.csv", EDGES_CSV), Some(&nodes)).unwrap();
    assert_eq!(expected.data.features.columns(), 9);
    assert_eq!(expected.data.edge_features.columns, 1);
    for properties in ways() {
        let shown = format!("{properties:?}");
        let nodes = files.file("people.parquet", people(properties.clone()));
        // The first bytes tell what a file is, whatever it is called.
        for name in ["edges.parquet", "edges.csv"] {
            let edges = files.file(name, edges(properties.clone()));
            let found = read(&edges, Some(&nodes)).unwrap();
            assert!(archive(&found) == archive(&expected), "{shown}");
            let notes: Vec<&str> = found.notes.iter().map(|note| note.0.as_str()).collect();
            let said = notes.join("\n");
            for part in [
                "left out column `since`, which holds timestamps",
                "left out column `address`, which holds nested values",
                "left out column `city`, which is no number at line 1 (`Oslo`)",
                "left out column `day`, which has dates in place of a number",
                "features of edges in `weight`",
            ] {
                assert!(said.contains(part), "no `{part}` in\n{said}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_by_row() {
    let files = Files::new();
    let plain = WriterProperties::builder().build();
    let refused = |schema: &str, columns: Vec<Column>, part: &str| {
        let nodes = files.file("n.parquet", file(schema, vec![columns], plain.clone()));
        let edges = files.file("e.csv", "a,b\n");
        let error = read(&edges, Some(&nodes)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nexpected {part}");
    };
    let numbers = |values| Column {
        values: Values::F64(values),
        levels: Some(vec![1, 0]),
        repeats: None,
    };
    let schema = "message n { required binary id (STRING); optional double age; }";
    let missing = vec![words(&["a", "b"]), numbers(vec![1.0])];
    refused(schema, missing, ":2: found no value of `age`");
    let again = vec![words(&["a", "a"]), numbers(vec![1.0])];
    refused(
        schema,
        again,
        ":2: found id `a` again, expected each id once",
    );
    let schema = "message n { required binary id (STRING); required float age; }";
    let infinite = vec![
        words(&["a", "b"]),
        required(Values::F32(vec![1.0, f32::NAN])),
    ];
    refused(
        schema,
        infinite,
        ":2: found `NaN` as `age`, expected a finite number",
    );
    let schema = "message n { required int64 id (TIMESTAMP(MICROS, true)); }";
    let times = vec![required(Values::I64(vec![1, 2]))];
    refused(schema, times, "column `id` of timestamps is not supported");
    let schema = "message n { required binary id; }";
    let bytes = vec![required(Values::Text(vec![ByteArray::from(vec![
        0xff, 0xfe,
    ])]))];
    refused(schema, bytes, ":1: found bytes that are no UTF-8");
}

/// What other programs write by default: Polars with zstd, pandas with snappy, DuckDB.
#[test]
fn files_of_other_programs_are_read() {
    let files = Files::new();
    let expected = read(
        &files.file("e.csv", "zoe,ann\nann,bob\n"),
        Some(&files.file(
            "n.csv",
            "id;age;member;taste;label;split\nzoe;31;1;[0.5, 1.0];red;train\n\
             ann;-4;0;[2.0, 3.0];;val\nbob;7;1;[0.25, 0.0];blue;test\n",
        )),
    )
    .unwrap();
    for name in ["polars", "pandas", "duckdb"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
        let nodes = root.join(format!("{name}.parquet"));
        let edges = files.file("e.csv", "zoe,ann\nann,bob\n");
        let found = read(&edges, Some(&nodes)).unwrap();
        assert!(
            archive(&found) == archive(&expected),
            "{name}: {:?}",
            found.notes
        );
    }
}

/// Lists with gaps, empty lists and none at all.
#[test]
fn lists_are_fields_in_brackets() {
    let files = Files::new();
    let schema = "message n { required binary id (STRING);
        optional group taste (LIST) { repeated group list { optional float element; } } }";
    let note = |levels: Vec<i16>, repeats: Vec<i16>, values: Vec<f32>| {
        let list = Column {
            values: Values::F32(values),
            levels: Some(levels),
            repeats: Some(repeats),
        };
        let columns = vec![words(&["a", "b"]), list];
        let plain = WriterProperties::builder().build();
        let nodes = files.file("n.parquet", file(schema, vec![columns], plain));
        match read(&files.file("e.csv", "a,b\n"), Some(&nodes)) {
            Ok(found) => found.notes[0].0.clone(),
            Err(error) => error.to_string(),
        }
    };
    let gap = note(vec![3, 3, 3, 2], vec![0, 1, 0, 1], vec![1.0, 2.0, 3.0]);
    assert!(gap.contains("no number at line 2 (`[3, null]`)"), "{gap}");
    let empty = note(vec![3, 3, 1], vec![0, 1, 0], vec![1.0, 2.0]);
    assert!(
        empty.contains("2: found 0 numbers in `taste`, expected 2"),
        "{empty}"
    );
    let none = note(vec![3, 3, 0], vec![0, 1, 0], vec![1.0, 2.0]);
    assert!(none.contains("2: found no value of `taste`"), "{none}");
    let short = note(vec![3, 3, 3], vec![0, 1, 0], vec![1.0, 2.0, 3.0]);
    assert!(
        short.contains("2: found 1 number in `taste`, expected 2"),
        "{short}"
    );
}

#[test]
fn whole_numbers_name_vertices() {
    let files = Files::new();
    let schema = "message e { required int64 src; required int32 dst (INTEGER(32, false)); }";
    let columns = vec![
        required(Values::I64(vec![2, 0])),
        required(Values::I32(vec![0, 1])),
    ];
    let bytes = file(schema, vec![columns], WriterProperties::builder().build());
    let found = read(&files.file("e.parquet", bytes), None).unwrap();
    assert!(found.data.ids.is_empty());
    assert_eq!(found.data.topology.in_neighbours(1), [0]);
    // Without a sign, the largest 32 bits are a large number.
    let columns = vec![
        required(Values::I64(vec![2])),
        required(Values::I32(vec![-2])),
    ];
    let bytes = file(schema, vec![columns], WriterProperties::builder().build());
    let found = read(&files.file("e.parquet", bytes), None).unwrap();
    assert_eq!(found.data.ids.get(1), Some("4294967294"));
}

#[test]
fn many_rows_come_in_order() {
    let files = Files::new();
    let rows = 20_000i64;
    let schema = "message e { required int64 u; required int64 v; }";
    let columns = |numbers: std::ops::Range<i64>| {
        let next = numbers.clone().map(|n| (n + 1) % rows).collect();
        vec![
            required(Values::I64(numbers.collect())),
            required(Values::I64(next)),
        ]
    };
    let groups = vec![columns(0..7000), columns(7000..7001), columns(7001..rows)];
    let bytes = file(schema, groups, WriterProperties::builder().build());
    let found = read(&files.file("e.parquet", bytes), None).unwrap();
    assert_eq!(found.data.topology.edges(), rows as u64);
    for v in 0..rows as u32 {
        let before = (v + rows as u32 - 1) % rows as u32;
        assert_eq!(found.data.topology.in_neighbours(v), [before]);
    }
}

/// A file whose column says that it is compressed with the method of this number.
fn compressed_with(codec: u8) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut bytes = edges(properties.build());
    // In Thrift's compact protocol: the path of a column, then the codec as the next field.
    let path = b"\x06target\x15\x02";
    let place = bytes.windows(path.len()).rposition(|own| own == path);
    bytes[place.unwrap() + path.len() - 1] = codec << 1;
    bytes
}

#[test]
fn other_compressions_are_named() {
    let files = Files::new();
    for (codec, name) in [(3, "lzo"), (4, "brotli")] {
        let path = files.file("e.parquet", compressed_with(codec));
        let error = read(&path, None).unwrap_err().to_string();
        let expected = format!("compression with {name} is not supported; expected plain or");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn other_encodings_are_named() {
    let files = Files::new();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY);
    let schema = "message e { required binary u (STRING); required binary v (STRING); }";
    let columns = vec![words(&["a", "b"]), words(&["b", "a"])];
    let path = files.file("e.parquet", file(schema, vec![columns], properties.build()));
    let error = read(&path, None).unwrap_err().to_string();
    let expected = "the encoding DELTA_LENGTH_BYTE_ARRAY is not supported; expected plain or";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn files_that_are_cut_short_are_refused() {
    let files = Files::new();
    let bytes = people(WriterProperties::builder().build());
    let edges = files.file("e.csv", EDGES_CSV);
    for length in 4..bytes.len() {
        let nodes = files.file("n.parquet", &bytes[..length]);
        let error = read(&edges, Some(&nodes)).unwrap_err();
        assert!(
            matches!(error, GraphError::Archive { .. }),
            "{length}: {error}"
        );
    }
}

/// Every byte is changed; a file may still be read, as something else.
#[test]
fn files_that_were_altered_do_not_panic() {
    let files = Files::new();
    let edges_csv = files.file("e.csv", EDGES_CSV);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let zstd = std::fs::read(root.join("polars.parquet")).unwrap();
    // Plain, with dictionaries and without, and with the second version of pages.
    let some = [0, 4, 5].map(|way| people(ways().swap_remove(way)));
    for bytes in some.into_iter().chain([zstd]) {
        for place in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[place] ^= [1, 0x80, 0xff][place % 3];
            let nodes = files.file("n.parquet", altered);
            let _ = read(&edges_csv, Some(&nodes));
        }
    }
}

/// Claims of a file of some hundred bytes that would take gigabytes, or all of the stack.
#[test]
fn claims_out_of_proportion_are_refused() {
    let files = Files::new();
    let end = |footer: &[u8]| {
        let mut bytes = b"PAR1".to_vec();
        bytes.extend(footer);
        bytes.extend((footer.len() as u32).to_le_bytes());
        bytes.extend(b"PAR1");
        bytes
    };
    let refused = |bytes: Vec<u8>, part: &str| {
        let path = files.file("e.parquet", bytes);
        let error = read(&path, None).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nexpected {part}");
    };
    // A version, and a schema of as many groups inside each other.
    let nested = |groups: usize, children: &[u8]| {
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        footer.extend([
            groups as u8 | 0x80,
            (groups >> 7) as u8 | 0x80,
            (groups >> 14) as u8,
        ]);
        for _ in 0..groups {
            footer.extend([0x48, 1, b'g', 0x15]);
            footer.extend(children);
            footer.push(0);
        }
        footer
    };
    refused(
        end(&nested(100_000, &[2])),
        "more than 64 groups of columns",
    );
    refused(
        end(&nested(3, &[0xfe, 0xff, 0xff, 0xff, 0x0f])),
        "claims more columns",
    );
    // A page that claims gigabytes behind its header.
    let mut bytes = edges(
        WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build(),
    );
    let header = bytes
        .windows(2)
        .position(|own| own == [0x15, 4] || own == [0x15, 0]);
    let header = header.unwrap();
    bytes.splice(header + 2..header + 4, [0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f]);
    refused(bytes, "a page claims 2147483647 bytes");
    // Thirty million times the same edge.
    let schema = "message e { required int32 u; required int32 v; }";
    let same = || required(Values::I32(vec![1; 1 << 20]));
    let groups = (0..30).map(|_| vec![same(), same()]).collect();
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(1 << 24)
        .set_statistics_enabled(EnabledStatistics::None);
    let bytes = file(schema, groups, properties.build());
    assert!(bytes.len() < 1 << 16, "{}", bytes.len());
    refused(bytes, "more values than a file of its size can have");
}

#[test]
fn a_file_that_is_compressed_as_a_whole_is_no_parquet() {
    let files = Files::new();
    let edges = edges(WriterProperties::builder().build());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &edges).unwrap();
    let path = files.file("e.parquet.gz", gzip.finish().unwrap());
    assert!(read(&path, None).is_err());
}
