//! Tables of text: rows of fields, with the names of their columns if the first row has them.

use crate::GraphError;
use crate::read::syntax;
use csv::{ByteRecord, Reader, ReaderBuilder};
use flate2::read::MultiGzDecoder;
use gnnc_ir::words::spelling::counted;
use std::collections::VecDeque;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// Bytes from which the separator is found.
const SEEN: usize = 1 << 16;

/// Whether a first row has names, given the row behind it.
pub(super) type IsHeader = dyn Fn(&[String], Option<&[String]>) -> bool;

/// Rows of fields.
pub(super) struct Table {
    /// The file in messages.
    pub(super) at: String,
    reader: Reader<Box<dyn Read>>,
    /// Names of the columns, if the table has them.
    pub(super) header: Option<Vec<String>>,
    /// Number of columns.
    pub(super) columns: usize,
    /// Rows that were read to find the names.
    ahead: VecDeque<ByteRecord>,
}

/// A row of a table.
pub(super) struct Row {
    record: ByteRecord,
    /// Its line in the file.
    pub(super) line: u64,
}

impl Row {
    /// The field in a column; empty if the row is shorter.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }
}

/// Opens a file, or standard input if the path is `-`; decompresses gzip.
fn open(path: &Path) -> Result<Box<dyn Read>, GraphError> {
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    let mut source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(gnnc_files::open(path).map_err(failed)?),
    };
    let start = peek(&mut source, 2).map_err(failed)?;
    let is_gzip = start == [0x1f, 0x8b];
    let whole = Cursor::new(start).chain(source);
    Ok(match is_gzip {
        true => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
        false => Box::new(whole),
    })
}

/// The first bytes of a source, at most `count`.
fn peek(source: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    source.take(count as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// What separates the fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Byte(u8),
    /// Any number of spaces and tabs.
    White,
}

impl Separator {
    /// The separator of a text that starts with these bytes: the one of `, ; |` and tab that makes most
    /// fields of the first line, or white space.
    fn of(start: &[u8]) -> Self {
        let lines = start.split(|byte| *byte == b'\n');
        let mut written =
            lines.filter(|line| !matches!(line.trim_ascii().first(), None | Some(b'#')));
        let line = written.next().unwrap_or_default();
        let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
        let best = [b',', b'\t', b';', b'|']
            .into_iter()
            .rev()
            .max_by_key(|byte| count(*byte));
        match best.filter(|byte| count(*byte) > 0) {
            // Tabs beside spaces align columns.
            Some(b'\t') if line.windows(2).any(|pair| pair == b"\t\t") => Self::White,
            Some(byte) => Self::Byte(byte),
            None => Self::White,
        }
    }
}

/// A text in which white space within a line becomes one tab, and that at its ends nothing.
struct Squeezed<R> {
    source: R,
    pending: bool,
    begun: bool,
}

impl<R: Read> Read for Squeezed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // A byte that ends white space makes two.
        let mut bytes = vec![0; (out.len() / 2).max(1)];
        if out.len() < 2 {
            return Err(io::Error::other("a buffer of one byte"));
        }
        loop {
            let count = self.source.read(&mut bytes)?;
            let mut written = 0;
            for byte in &bytes[..count] {
                match byte {
                    b' ' | b'\t' | b'\r' => self.pending = self.begun,
                    b'\n' => {
                        (self.pending, self.begun) = (false, false);
                        out[written] = b'\n';
                        written += 1;
                    }
                    byte => {
                        if self.pending {
                            out[written] = b'\t';
                            written += 1;
                        }
                        (self.pending, self.begun) = (false, true);
                        out[written] = *byte;
                        written += 1;
                    }
                }
            }
            if written > 0 || count == 0 {
                return Ok(written);
            }
        }
    }
}

impl Table {
    /// Opens a table. `named` says whether the first row has names; `None` asks `is_header` about it and
    /// the row behind it.
    ///
    /// # Errors
    /// A file that cannot be read, or whose first row cannot.
    pub(super) fn open(
        path: &Path,
        named: Option<bool>,
        is_header: &IsHeader,
    ) -> Result<Self, GraphError> {
        let mut source = open(path)?;
        let at = crate::read::place(path);
        let failed = |source| GraphError::Io {
            file: path.to_owned(),
            source,
        };
        let mut start = peek(&mut source, SEEN).map_err(failed)?;
        if start.starts_with(b"\xef\xbb\xbf") {
            start.drain(..3);
        }
        let separator = Separator::of(&start);
        let whole = Cursor::new(start).chain(source);
        let (byte, text): (u8, Box<dyn Read>) = match separator {
            Separator::Byte(byte) => (byte, Box::new(whole)),
            Separator::White => {
                let squeezed = Squeezed {
                    source: BufReader::new(whole),
                    pending: false,
                    begun: false,
                };
                (b'\t', Box::new(squeezed))
            }
        };
        let reader = ReaderBuilder::new()
            .delimiter(byte)
            .comment(Some(b'#'))
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text);
        let mut table = Self {
            at,
            reader,
            header: None,
            columns: 0,
            ahead: VecDeque::new(),
        };
        let first = table.read()?;
        let second = table.read()?;
        let words = |record: &ByteRecord| -> Vec<String> {
            let words = record
                .iter()
                .map(|field| String::from_utf8_lossy(field).into_owned());
            words.collect()
        };
        let names = first.as_ref().map(words).unwrap_or_default();
        let behind = second.as_ref().map(words);
        table.columns = names.len();
        table.ahead = first.into_iter().chain(second).collect();
        if !names.is_empty() && named.unwrap_or_else(|| is_header(&names, behind.as_deref())) {
            table.ahead.pop_front();
            table.header = Some(names);
        }
        Ok(table)
    }

    fn read(&mut self) -> Result<Option<ByteRecord>, GraphError> {
        let mut record = ByteRecord::new();
        let line = self.reader.position().line();
        match self.reader.read_byte_record(&mut record) {
            Ok(true) => Ok(Some(record)),
            Ok(false) => Ok(None),
            Err(error) => Err(syntax(&self.at, line, error.to_string(), "a row of fields")),
        }
    }

    /// The next row. It has as many fields as the first one.
    ///
    /// # Errors
    /// A row of another length, or a file that cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Row>, GraphError> {
        let record = match self.ahead.pop_front() {
            Some(record) => Some(record),
            None => self.read()?,
        };
        let Some(record) = record else {
            return Ok(None);
        };
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != self.columns {
            let found = format!("a row of {}", counted(record.len(), "field"));
            let expected = format!("{}, as in the first row", counted(self.columns, "field"));
            return Err(syntax(&self.at, line, found, expected));
        }
        Ok(Some(Row { record, line }))
    }

    /// The column with one of these names, upper or lower case.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        let header = self.header.as_ref()?;
        let of_name = |name: &&str| header.iter().position(|own| own.eq_ignore_ascii_case(name));
        names.iter().find_map(of_name)
    }

    /// The column that an option names, or else one with a usual name.
    ///
    /// # Errors
    /// An option that names no column.
    pub(super) fn chosen(
        &self,
        option: &str,
        wanted: Option<&str>,
        usual: &[&str],
    ) -> Result<Option<usize>, GraphError> {
        let Some(name) = wanted else {
            return Ok(self.column(usual));
        };
        let found = self.column(&[name]);
        found.map(Some).ok_or_else(|| GraphError::Unsupported {
            at: self.at.clone(),
            found: format!("column `{name}` of --{option}"),
            expected: match &self.header {
                Some(header) => format!("one of {}", header.join(", ")),
                None => {
                    "a first row with the names of the columns; pass --header yes if there is one"
                        .to_owned()
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8], named: Option<bool>) -> (Option<Vec<String>>, Vec<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let mut table = Table::open(&path, named, &|first, _| first[0] == "a").unwrap();
        let mut rows = Vec::new();
        while let Some(row) = table.next().unwrap() {
            let text = |n| String::from_utf8(row.field(n).to_vec()).unwrap();
            rows.push((0..table.columns).map(text).collect());
        }
        (table.header, rows)
    }

    #[test]
    fn separators_are_found() {
        for text in [
            "a,b\n1,2\n3,4\n",
            "\u{feff}a;b\r\n1;2\r\n\r\n3;4",
            "# c, d\na\tb\n1\t2\n3\t4\n",
            "a|b\n1|2\n3|4\n",
            "  a   b\n1 2 \n\n 3\t 4",
            "a, b\n\"1\", 2\n3 ,4\n",
        ] {
            let (header, found) = rows(text.as_bytes(), None);
            assert_eq!(header.unwrap(), ["a", "b"], "{text:?}");
            assert_eq!(found, [["1", "2"], ["3", "4"]], "{text:?}");
        }
        let (header, found) = rows(b"a,b\n1,2\n", Some(false));
        assert_eq!((header, found.len()), (None, 2));
        assert_eq!(rows(b"", None).1.len(), 0);
    }
}
