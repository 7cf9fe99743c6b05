//! Rows that messages carry in fewer bits than memory.

use crate::graph::op::Site;
use crate::program::text::line::after;
use crate::program::text::{Reader, Text, TextError};
use crate::program::{Buffer, Program, Ref};
use crate::words::storage::Storage;
use crate::words::wire::Wire;
use serde::{Deserialize, Serialize};

/// How the rows of an instruction travel, if not as they are in memory; only in `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encoded {
    /// The format.
    pub wire: Wire,
    /// The site of the draws by which numbers are rounded; no dropout and no other message has it.
    pub site: Site,
}

impl Text for Encoded {
    fn print(&self, out: &mut String) {
        *out += &format!("as {} {}", self.wire, self.site.text());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("as")?;
        let names: Vec<(&str, Wire)> = Wire::ALL.iter().map(|one| (one.name(), *one)).collect();
        Ok(Self {
            wire: from.named(&names)?,
            site: Site::parse(from)?,
        })
    }
}

impl Encoded {
    /// Words of a row of so many numbers in a message; `encoded` is `None` where rows travel as they are in memory.
    pub fn words(encoded: &Option<Self>, numbers: u32, storage: Storage) -> u32 {
        let wire = encoded.map_or(Wire::F32, |encoded| encoded.wire);
        wire.words(numbers, storage)
    }

    /// Words of a whole row of a buffer in a message.
    pub fn row_words(encoded: &Option<Self>, buffer: &Buffer) -> u32 {
        Self::words(encoded, buffer.columns, buffer.storage)
    }
}

/// Bytes of a whole row of a buffer in a message.
pub(super) fn message_bytes(program: &Program, at: Ref, encoded: &Option<Encoded>) -> u64 {
    4 * u64::from(Encoded::row_words(encoded, program.buffer(at.buffer)))
}

/// Reads how rows travel, if that is next.
pub(super) fn encoded(from: &mut Reader<'_>) -> Result<Option<Encoded>, TextError> {
    match from.next_word() == Some("as") {
        true => Encoded::parse(from).map(Some),
        false => Ok(None),
    }
}

/// The text behind an instruction whose rows are encoded.
pub(super) fn as_encoded(encoded: &Option<Encoded>) -> String {
    after(" ", encoded.as_ref())
}
