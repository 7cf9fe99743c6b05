//! Tables: rows of fields, with the names of their columns if the first row has them.

use super::parquet::{self, Content, Rows};
use super::text::{Separator, fields};
use crate::GraphError;
use crate::read::syntax;
use csv::{ByteRecord, Reader, ReaderBuilder};
use gnnc_ir::words::spelling::counted;
use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::path::Path;

/// Most columns of a table.
const MOST_COLUMNS: usize = 1 << 16;

/// Whether a first row has names, given the row behind it.
pub(super) type IsHeader<'a> = dyn Fn(&[String], Option<&[String]>) -> bool + 'a;

/// How to read a table of text.
#[derive(Default)]
pub(super) struct Layout<'a> {
    /// What separates fields; found by looking if open.
    pub(super) separator: Option<Separator>,
    /// Whether the first row has names; if open, `is_header` is asked.
    pub(super) named: Option<bool>,
    /// As above; a first row has no names without it.
    pub(super) is_header: Option<&'a IsHeader<'a>>,
}

/// Rows of fields.
pub(super) struct Table {
    /// The file in messages.
    pub(super) at: String,
    rows: Source,
    /// Names of the columns, if the table has them.
    pub(super) header: Option<Vec<String>>,
    /// Number of columns.
    pub(super) columns: usize,
    /// Rows that were read to find the names.
    ahead: VecDeque<ByteRecord>,
    /// Whether rows may be shorter than the header.
    ragged: bool,
    /// Fewest numbers of a list without brackets.
    pub(super) shortest_list: usize,
}

/// Where rows come from.
enum Source {
    Text(Reader<Box<dyn Read>>),
    Parquet(Box<Rows>),
}

/// A row of a table.
#[derive(Default)]
pub(super) struct Row {
    record: ByteRecord,
    /// Its line in the file; in Parquet, its number from 1.
    pub(super) line: u64,
}

impl Row {
    /// The field in a column; empty if the row is shorter.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }

    /// The field in a column as text.
    ///
    /// # Errors
    /// A field that is no UTF-8.
    pub(super) fn text(&self, at: &str, column: usize) -> Result<&str, GraphError> {
        let wrong = || syntax(at, self.line, "bytes that are no UTF-8", "text in UTF-8");
        std::str::from_utf8(self.field(column)).map_err(|_| wrong())
    }
}

impl Table {
    /// Opens a table.
    ///
    /// # Errors
    /// A file that cannot be read, or whose first row cannot.
    pub(super) fn open(path: &Path, layout: &Layout) -> Result<Self, GraphError> {
        if parquet::is(path)? {
            return Self::of_parquet(path);
        }
        let mut table = Self {
            at: crate::read::place(path),
            rows: Source::Text(fields(path, layout.separator)?),
            header: None,
            columns: 0,
            ahead: VecDeque::new(),
            ragged: false,
            shortest_list: 3,
        };
        let (mut first, mut second) = (ByteRecord::new(), ByteRecord::new());
        let found = [table.read(&mut first)?, table.read(&mut second)?];
        if first.len() > MOST_COLUMNS {
            let found = format!("a row of {}", counted(first.len(), "field"));
            let expected = format!("at most {MOST_COLUMNS}");
            return Err(syntax(&table.at, 1, found, expected));
        }
        let words = |record: &ByteRecord| -> Vec<String> {
            let words = record
                .iter()
                .map(|field| String::from_utf8_lossy(field).into_owned());
            words.collect()
        };
        let (names, behind) = (words(&first), found[1].then(|| words(&second)));
        let is_header = || {
            let asked = layout.is_header;
            asked.is_some_and(|is_header| is_header(&names, behind.as_deref()))
        };
        let named = found[0] && layout.named.unwrap_or_else(is_header);
        table.columns = names.len();
        let rows = [first, second].into_iter().zip(found);
        let rows = rows.filter(|(_, found)| *found).map(|(row, _)| row);
        table.ahead = rows.skip(usize::from(named)).collect();
        table.header = named.then_some(names);
        Ok(table)
    }

    /// Opens a table in Parquet, whose columns always have names.
    fn of_parquet(path: &Path) -> Result<Self, GraphError> {
        let rows = Rows::open(path)?;
        parquet::check_columns(&rows, MOST_COLUMNS)?;
        let names = rows.fields.iter().map(|field| field.name.clone());
        let header: Vec<String> = names.collect();
        Ok(Self {
            at: crate::read::place(path),
            columns: header.len(),
            header: Some(header),
            rows: Source::Parquet(Box::new(rows)),
            ahead: VecDeque::new(),
            ragged: false,
            shortest_list: 3,
        })
    }

    /// A table in memory: its rows as CSV, each at most as long as the header.
    pub(super) fn of(at: String, header: Vec<String>, rows: Vec<u8>) -> Self {
        let rows: Box<dyn Read> = Box::new(Cursor::new(rows));
        Self {
            at,
            rows: Source::Text(
                ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .from_reader(rows),
            ),
            columns: header.len(),
            header: Some(header),
            ahead: VecDeque::new(),
            ragged: true,
            shortest_list: 3,
        }
    }

    fn read(&mut self, record: &mut ByteRecord) -> Result<bool, GraphError> {
        match &mut self.rows {
            Source::Parquet(rows) => rows.read(record),
            Source::Text(rows) => {
                let line = rows.position().line();
                let found = rows.read_byte_record(record);
                found.map_err(|error| syntax(&self.at, line, error.to_string(), "a row of fields"))
            }
        }
    }

    /// Reads the next row, if there is one. It has as many fields as the first one.
    ///
    /// # Errors
    /// A row of another length, or a file that cannot be read.
    pub(super) fn next(&mut self, row: &mut Row) -> Result<bool, GraphError> {
        match self.ahead.pop_front() {
            Some(record) => row.record = record,
            None => {
                if !self.read(&mut row.record)? {
                    return Ok(false);
                }
            }
        }
        row.line = match &self.rows {
            Source::Text(_) => row.record.position().map_or(0, csv::Position::line),
            Source::Parquet(_) => row.line + 1,
        };
        let fields = row.record.len();
        if fields != self.columns && !(self.ragged && fields < self.columns) {
            let found = format!("a row of {}", counted(fields, "field"));
            let expected = format!("{}, as in the first row", counted(self.columns, "field"));
            return Err(syntax(&self.at, row.line, found, expected));
        }
        Ok(true)
    }

    /// The name of a column, or its number, in messages.
    pub(super) fn name(&self, column: usize) -> String {
        match &self.header {
            Some(header) => (header.get(column)).map_or(String::new(), |name| format!("`{name}`")),
            None => format!("column {}", column + 1),
        }
    }

    /// The column with one of these names: as it is written, or else upper or lower case.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        let header = self.header.as_ref()?;
        let of_name = |name: &&str| {
            let exact = header.iter().position(|own| own == name);
            exact.or_else(|| header.iter().position(|own| own.eq_ignore_ascii_case(name)))
        };
        names.iter().find_map(of_name)
    }

    /// What a column holds, if that is neither a text nor a number, nor a list of these.
    pub(super) fn other(&self, column: usize) -> Option<&'static str> {
        let Source::Parquet(rows) = &self.rows else {
            return None;
        };
        match rows.fields.get(column)?.content {
            Content::Values(_) => None,
            Content::Other(what) => Some(what),
        }
    }

    /// The column that an option names, or else one with a usual name.
    ///
    /// # Errors
    /// An option that names no column, or a column of something else than texts and numbers.
    pub(super) fn chosen(
        &self,
        option: &str,
        wanted: Option<&str>,
        usual: &[&str],
    ) -> Result<Option<usize>, GraphError> {
        let Some(name) = wanted else {
            let found = self.column(usual);
            return found
                .map(|column| self.readable(column, option))
                .transpose();
        };
        let found = self.column(&[name]);
        let found = found
            .map(|column| self.readable(column, option))
            .transpose()?;
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

    /// A column of texts and numbers.
    ///
    /// # Errors
    /// If it holds something else.
    fn readable(&self, column: usize, option: &str) -> Result<usize, GraphError> {
        match self.other(column) {
            None => Ok(column),
            Some(what) => Err(GraphError::Unsupported {
                at: self.at.clone(),
                found: format!("column {} of {what}", self.name(column)),
                expected: format!(
                    "texts, numbers or lists of numbers; convert it, or name another column as --{option}"
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8], named: Option<bool>) -> (Option<Vec<String>>, Vec<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let layout = Layout {
            named,
            is_header: Some(&|first, _| first[0] == "a"),
            ..Layout::default()
        };
        let mut table = Table::open(&path, &layout).unwrap();
        let (mut rows, mut row) = (Vec::new(), Row::default());
        while table.next(&mut row).unwrap() {
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

    #[test]
    fn very_wide_tables_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let open = |columns: usize| {
            std::fs::write(&path, format!("{}a\n", "a,".repeat(columns - 1))).unwrap();
            Table::open(&path, &Layout::default()).map(|table| table.columns)
        };
        assert_eq!(open(MOST_COLUMNS).unwrap(), MOST_COLUMNS);
        let error = open(MOST_COLUMNS + 1).unwrap_err().to_string();
        assert!(
            error.contains("65537 fields, expected at most 65536"),
            "{error}"
        );
    }
}
