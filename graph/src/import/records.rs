//! Rows whose columns are found as they come, such as objects with attributes.

use super::table::Table;
use crate::GraphError;
use csv::{Writer, WriterBuilder};
use std::collections::HashMap;

/// Most columns, so that a file cannot make many rows of many empty fields.
const MOST: usize = 1 << 12;

/// Bytes of rows beside [`EXPANSION`] times those of the values that were set: a small file can give
/// long defaults, or many empty fields, to many rows.
const FREE: usize = 64 << 20;
/// As above.
const EXPANSION: usize = 16;

/// Rows of fields by name.
pub(super) struct Records {
    /// The columns in the order in which they were first seen.
    header: Vec<String>,
    places: HashMap<String, usize>,
    /// The fields of the row that is being read.
    row: Vec<String>,
    /// The rows before it as CSV, each as long as its last field.
    text: Writer<Vec<u8>>,
    /// Bytes of the rows.
    written: usize,
    /// Bytes of the values that were set, and no defaults.
    given: usize,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            header: Vec::new(),
            places: HashMap::new(),
            row: Vec::new(),
            text: WriterBuilder::new().flexible(true).from_writer(Vec::new()),
            written: 0,
            given: 0,
        }
    }
}

impl Records {
    /// Sets a field of the row.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.given += value.len();
        self.fill(name, value);
    }

    /// Sets a field of the row to what the file says once for all rows.
    pub(super) fn fill(&mut self, name: &str, value: &str) {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.header.len());
                self.header.push(name.to_owned());
                self.header.len() - 1
            }
        };
        if self.row.len() <= place {
            self.row.resize_with(place + 1, String::new);
        }
        self.row[place] = value.to_owned();
    }

    /// Ends the row.
    ///
    /// # Errors
    /// More columns than a table may have.
    pub(super) fn end(&mut self) -> Result<(), String> {
        if self.header.len() > MOST {
            return Err(format!(
                "more than {MOST} attributes, expected as many at most"
            ));
        }
        if self.row.is_empty() {
            return Err("an object without fields, expected at least an id".to_owned());
        }
        self.written += self.row.iter().map(|field| field.len() + 1).sum::<usize>();
        if self.written > FREE.saturating_add(self.given.saturating_mul(EXPANSION)) {
            return Err(format!(
                "rows of more than {} MiB of empty fields and defaults, expected most values to be given",
                FREE >> 20
            ));
        }
        let written = self.text.write_record(&self.row);
        self.row.clear();
        written.map_err(|error| error.to_string())
    }

    /// The rows as a table.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub(super) fn table(self, at: String) -> Result<Table, GraphError> {
        let text = self.text.into_inner();
        let text = text.map_err(|error| GraphError::Archive {
            at: at.clone(),
            reason: error.to_string(),
        })?;
        Ok(Table::of(at, self.header, text))
    }
}
