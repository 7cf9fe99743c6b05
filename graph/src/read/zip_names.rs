//! Names in a zip archive's directory, including repeats: the `zip` crate keeps only the last entry
//! of a name.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

/// The first bytes of a directory entry.
const SIGNATURE: &[u8] = b"PK\x01\x02";
/// Bytes of a directory entry before its name.
const FIXED: usize = 46;

/// The first repeated name in the directory, if any. `start` is the directory's offset.
pub(super) fn repeated(reader: &mut (impl Read + Seek), start: u64) -> io::Result<Option<String>> {
    reader.seek(SeekFrom::Start(start))?;
    let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
    loop {
        let mut fixed = Vec::with_capacity(FIXED);
        reader.by_ref().take(FIXED as u64).read_to_end(&mut fixed)?;
        if fixed.len() < FIXED || !fixed.starts_with(SIGNATURE) {
            return Ok(None);
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        let mut name = Vec::new();
        reader.by_ref().take(length(28)).read_to_end(&mut name)?;
        // Skip the extra field and the comment.
        let rest = length(30) + length(32);
        io::copy(&mut reader.by_ref().take(rest), &mut io::sink())?;
        if seen.contains(&name) {
            return Ok(Some(String::from_utf8_lossy(&name).into_owned()));
        }
        seen.insert(name);
    }
}
