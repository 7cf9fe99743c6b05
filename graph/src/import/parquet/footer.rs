//! The schema in the last part of a file of Parquet, before a library reads it: the library descends as deep as the
//! file says, and makes room for as many children of a group as it claims.

use super::pages::Source;
use parquet::file::reader::{ChunkReader, Length};

/// Most groups inside each other.
const DEEPEST: usize = 64;
/// Bytes at the end of a file: the length of the footer, and the magic number.
const END: u64 = 8;

/// The kinds of values of Thrift's compact protocol that matter here.
const I32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;
/// Numbers of fields: the schema of a file, and the children of an element of a schema.
const SCHEMA: i64 = 2;
const CHILDREN: i64 = 5;

/// Checks the schema of a file.
///
/// # Errors
/// Why the file is damaged.
pub(super) fn check(file: &Source) -> Result<(), String> {
    let length = Length::len(file);
    let begin = length.checked_sub(END);
    let end = begin.and_then(|begin| file.get_bytes(begin, END as usize).ok());
    let size = end.and_then(|end| Some(u32::from_le_bytes(end.get(..4)?.try_into().ok()?)));
    let place = size.and_then(|size| begin?.checked_sub(u64::from(size)));
    let (Some(size), Some(place)) = (size, place) else {
        return Err("it is shorter than its last part says".to_owned());
    };
    let footer = file.get_bytes(place, size as usize);
    let footer = footer.map_err(|error| error.to_string())?;
    let mut walk = Walk { rest: &footer };
    let checked = walk.schema();
    checked.unwrap_or_else(|| Err("its last part cannot be read".to_owned()))
}

/// A walk over values in Thrift's compact protocol.
struct Walk<'a> {
    rest: &'a [u8],
}

/// A field of a struct.
struct Field {
    number: i64,
    kind: u8,
}

impl Walk<'_> {
    /// Walks to the schema and checks it. `None` if the file is damaged in another way.
    fn schema(&mut self) -> Option<Result<(), String>> {
        let mut number = 0;
        while let Some(field) = self.field(&mut number)? {
            if field.number == SCHEMA && field.kind == LIST {
                let (kind, elements) = self.list()?;
                return match kind {
                    STRUCT => self.elements(elements),
                    _ => None,
                };
            }
            self.skip(field.kind, 0)?;
        }
        None
    }

    /// Checks the elements of a schema, which is a tree in the order of its nodes.
    fn elements(&mut self, count: u64) -> Option<Result<(), String>> {
        // Children that are still to come of each open group.
        let mut open: Vec<u64> = Vec::new();
        for place in 0..count {
            let (mut number, mut children) = (0, 0);
            while let Some(field) = self.field(&mut number)? {
                match (field.number, field.kind) {
                    (CHILDREN, I32) => children = self.signed()?,
                    (_, kind) => self.skip(kind, 0)?,
                }
            }
            let left = count - place - 1;
            let children = u64::try_from(children).ok().filter(|own| *own <= left);
            let Some(children) = children else {
                return Some(Err("a group claims more columns than there are".to_owned()));
            };
            if let Some(last) = open.last_mut() {
                *last = last.saturating_sub(1);
            }
            if children > 0 {
                open.push(children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > DEEPEST {
                let found = format!("more than {DEEPEST} groups of columns inside each other");
                return Some(Err(found));
            }
        }
        Some(Ok(()))
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, count: u64) -> Option<()> {
        let count = usize::try_from(count).ok()?;
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number in zigzag form.
    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The next field of a struct, whose numbers ascend from `number`; inner `None` at its end.
    fn field(&mut self, number: &mut i64) -> Option<Option<Field>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *number = match byte >> 4 {
            0 => self.signed()?,
            step => *number + i64::from(step),
        };
        Some(Some(Field {
            number: *number,
            kind: byte & 15,
        }))
    }

    /// The kind of the elements of a list, and how many there are.
    fn list(&mut self) -> Option<(u8, u64)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.unsigned()?,
            count => u64::from(count),
        };
        Some((byte & 15, count))
    }

    /// Skips a value.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            // Truth values of fields are their kinds.
            1 | 2 => {}
            3 => self.take(1)?,
            4..=6 => {
                self.unsigned()?;
            }
            7 => self.take(8)?,
            8 => {
                let length = self.unsigned()?;
                self.take(length)?;
            }
            LIST | 10 => {
                let (kind, count) = self.list()?;
                for _ in 0..count {
                    match kind {
                        1 | 2 => self.take(1)?,
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            STRUCT => {
                let mut number = 0;
                while let Some(field) = self.field(&mut number)? {
                    self.skip(field.kind, depth + 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}
