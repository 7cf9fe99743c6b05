//! Texts in arrays of bytes.

use super::{Array, Kind};
use crate::GraphError;
use crate::names::Names;

impl Array {
    /// The lines of a text, of which the array has the bytes.
    pub(crate) fn names(&self) -> Result<Names, GraphError> {
        self.dimensions(1, "one dimension")?;
        let unsupported = |found: String| GraphError::Unsupported {
            at: self.at.clone(),
            found,
            expected: "unsigned bytes of a text in UTF-8, with a line for each element".to_owned(),
        };
        if (self.element.kind, self.element.size) != (Kind::Unsigned, 1) {
            return Err(unsupported(format!("an array of `{}`", self.header.descr)));
        }
        let text = std::str::from_utf8(&self.bytes);
        let text = text.map_err(|_| unsupported("bytes that are no UTF-8".to_owned()))?;
        Ok(Names::from_lines(text))
    }
}
