//! NumPy arrays: header and conversion of elements, for `.npy` and `.npz`.
//!
//! The header is parsed by hand: it is untrusted, and a general parser of Python literals recurses
//! as deep as the file tells it to.

mod text;

pub(crate) use text::names;

use crate::GraphError;
use crate::error::shape_text;
use gnnc_ir::workload::MAX_WIDTH;
use std::io::{self, Read};

/// Longest header accepted; NumPy's own are below 200 bytes.
const MAX_HEADER: usize = 16 * 1024;

/// The header of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Type string: `<i4`, `|b1`, ...
    pub(crate) descr: String,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<u64>,
    /// Bytes before the first element.
    pub(crate) size: usize,
}

/// An array as read: raw bytes and their interpretation.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// `file: array`, for messages.
    pub(crate) at: String,
    pub(crate) header: Header,
    element: Element,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element {
    kind: Kind,
    size: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

impl Header {
    /// Reads a header from the start of `reader`.
    pub(crate) fn read(at: &str, reader: &mut impl Read) -> Result<Self, GraphError> {
        let bad = |found: String| GraphError::ArrayHeader {
            at: at.to_owned(),
            found,
        };
        let short = |e: io::Error| bad(format!("it ends early ({e})"));
        let mut start = [0u8; 10];
        reader.read_exact(&mut start).map_err(short)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(bad("it does not start with \\x93NUMPY".to_owned()));
        }
        let (prefix, length) = match start[6] {
            1 => (10, usize::from(u16::from_le_bytes([start[8], start[9]]))),
            2 | 3 => {
                let mut rest = [0u8; 2];
                reader.read_exact(&mut rest).map_err(short)?;
                (
                    12,
                    u32::from_le_bytes([start[8], start[9], rest[0], rest[1]]) as usize,
                )
            }
            version => return Err(bad(format!("format version {version}, expected 1, 2 or 3"))),
        };
        if length > MAX_HEADER {
            return Err(bad(format!(
                "it claims {length} bytes, expected at most {MAX_HEADER}"
            )));
        }
        let mut text = vec![0u8; length];
        reader.read_exact(&mut text).map_err(short)?;
        let text = std::str::from_utf8(&text).map_err(|e| bad(e.to_string()))?;
        let mut header = parse_dictionary(text).map_err(bad)?;
        header.size = prefix + length;
        Ok(header)
    }

    /// Bytes of all elements, according to the header; there may be fewer.
    pub(crate) fn claimed(&self, element_size: usize) -> u128 {
        self.shape.iter().fold(element_size as u128, |product, &n| {
            product.saturating_mul(u128::from(n))
        })
    }
}

impl Array {
    /// Reads an array from `reader`, which yields at most `available` bytes.
    pub(crate) fn read(
        at: String,
        reader: &mut impl Read,
        available: u64,
    ) -> Result<Self, GraphError> {
        let header = Header::read(&at, reader)?;
        let element = element(&at, &header.descr)?;
        let claimed = header.claimed(element.size);
        if claimed > u128::from(available) {
            return Err(GraphError::ClaimTooLarge {
                at,
                claimed,
                available,
            });
        }
        let mut bytes = Vec::new();
        // Read one byte more than claimed, to notice an array that is too long.
        reader
            .take(claimed as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| GraphError::Archive {
                at: at.clone(),
                reason: e.to_string(),
            })?;
        if bytes.len() as u128 != claimed {
            let (found, expected) = (bytes.len() as u64, claimed as u64);
            return Err(GraphError::WrongLength {
                at,
                unit: "bytes",
                found,
                expected,
            });
        }
        Ok(Self {
            at,
            header,
            element,
            bytes,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.element.size
    }

    /// Checks the number of dimensions.
    pub(crate) fn dimensions(&self, expected: usize, what: &str) -> Result<(), GraphError> {
        if self.header.shape.len() == expected {
            return Ok(());
        }
        Err(self.wrong_shape(what.to_owned()))
    }

    pub(crate) fn wrong_shape(&self, expected: String) -> GraphError {
        GraphError::Shape {
            at: self.at.clone(),
            found: shape_text(&self.header.shape),
            expected,
        }
    }

    /// Checks a number of columns, of features or of classes.
    pub(crate) fn width(&self, columns: u64) -> Result<u32, GraphError> {
        width(&self.at, &self.header.shape, columns)
    }

    /// Non-negative integers below `limit`.
    pub(crate) fn indices(&self, limit: u64) -> Result<Vec<u32>, GraphError> {
        let limit = limit.min(1 << 32);
        self.integers("integers", |position, x| match u32::try_from(x) {
            Ok(index) if u64::from(index) < limit => Ok(index),
            _ => Err(self.out_of_range(position, x, limit)),
        })
    }

    /// Row pointers: non-negative integers.
    pub(crate) fn offsets(&self) -> Result<Vec<u64>, GraphError> {
        self.integers("integers", |position, x| {
            u64::try_from(x).map_err(|_| GraphError::RowPointer {
                at: self.at.clone(),
                position,
                found: x,
                expected: "0 or more".to_owned(),
            })
        })
    }

    /// Booleans, or integers that are 0 or 1.
    pub(crate) fn mask(&self) -> Result<Vec<bool>, GraphError> {
        self.dimensions(1, "one dimension; choose one of several splits")?;
        self.integers("bool", |position, x| match x {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong_element(position, x, "0 or 1")),
        })
    }

    /// Numbers of any type as `f32`, row-major.
    pub(crate) fn floats(&self) -> Vec<f32> {
        let values: Vec<f32> = match self.element.kind {
            Kind::Float if self.element.size == 4 => self.map(|raw| f32::from_bits(raw as u32)),
            Kind::Float => self.map(|raw| f64::from_bits(raw) as f32),
            _ => self.map(|raw| self.integer(raw) as f32),
        };
        match self.header.shape[..] {
            [rows, columns] if self.header.fortran_order => {
                transpose(&values, rows as usize, columns as usize)
            }
            _ => values,
        }
    }

    /// Whether the elements are floating-point numbers.
    pub(crate) fn is_float(&self) -> bool {
        self.element.kind == Kind::Float
    }

    pub(super) fn integers<T>(
        &self,
        expected: &'static str,
        mut convert: impl FnMut(usize, i128) -> Result<T, GraphError>,
    ) -> Result<Vec<T>, GraphError> {
        if self.is_float() {
            return Err(GraphError::ElementType {
                at: self.at.clone(),
                found: self.header.descr.clone(),
                expected,
            });
        }
        let raws = self
            .bytes
            .chunks_exact(self.element.size)
            .map(|bytes| self.raw(bytes));
        raws.enumerate()
            .map(|(i, raw)| convert(i, self.integer(raw)))
            .collect()
    }

    fn map<T>(&self, convert: impl Fn(u64) -> T) -> Vec<T> {
        self.bytes
            .chunks_exact(self.element.size)
            .map(|bytes| convert(self.raw(bytes)))
            .collect()
    }

    /// The bits of one element, zero-extended.
    fn raw(&self, bytes: &[u8]) -> u64 {
        let mut wide = [0u8; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        if self.element.big_endian {
            wide[..bytes.len()].reverse();
        }
        u64::from_le_bytes(wide)
    }

    /// The value of an element that is not a float.
    fn integer(&self, raw: u64) -> i128 {
        let unused = 64 - 8 * self.element.size as u32;
        match self.element.kind {
            Kind::Signed => i128::from((raw << unused) as i64 >> unused),
            _ => i128::from(raw),
        }
    }

    pub(super) fn wrong_element(
        &self,
        position: usize,
        found: i128,
        expected: &'static str,
    ) -> GraphError {
        GraphError::Element {
            at: self.at.clone(),
            position,
            found,
            expected,
        }
    }

    fn out_of_range(&self, position: usize, found: i128, limit: u64) -> GraphError {
        GraphError::IndexOutOfRange {
            at: self.at.clone(),
            position: position as u64,
            found,
            limit,
        }
    }
}

/// Checks a number of columns against the widest a model can have: later steps allocate memory for
/// each.
pub(crate) fn width(at: &str, shape: &[u64], columns: u64) -> Result<u32, GraphError> {
    u32::try_from(columns)
        .ok()
        .filter(|columns| *columns <= MAX_WIDTH)
        .ok_or_else(|| GraphError::Shape {
            at: at.to_owned(),
            found: shape_text(shape),
            expected: format!(
                "at most {MAX_WIDTH} columns; leave out columns or hash them into fewer"
            ),
        })
}

fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for r in 0..rows {
        out.extend((0..columns).map(|c| values[c * rows + r]));
    }
    out
}

/// Parses a NumPy type string.
fn element(at: &str, descr: &str) -> Result<Element, GraphError> {
    let unknown = || GraphError::ElementType {
        at: at.to_owned(),
        found: descr.to_owned(),
        expected: "bool, integers of 8 to 64 bits, float32 or float64",
    };
    let mut chars = descr.chars();
    let big_endian = match chars.next() {
        Some('<' | '|' | '=') => false,
        Some('>') => true,
        _ => return Err(unknown()),
    };
    let (kind, size) = match chars.as_str() {
        "b1" | "?" => (Kind::Bool, 1),
        "i1" => (Kind::Signed, 1),
        "i2" => (Kind::Signed, 2),
        "i4" => (Kind::Signed, 4),
        "i8" => (Kind::Signed, 8),
        "u1" => (Kind::Unsigned, 1),
        "u2" => (Kind::Unsigned, 2),
        "u4" => (Kind::Unsigned, 4),
        "u8" => (Kind::Unsigned, 8),
        "f4" => (Kind::Float, 4),
        "f8" => (Kind::Float, 8),
        _ => return Err(unknown()),
    };
    Ok(Element {
        kind,
        size,
        big_endian,
    })
}

/// Parses `{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse_dictionary(text: &str) -> Result<Header, String> {
    let value = |key: &str| -> Result<&str, String> {
        let (_, rest) = text
            .split_once(&format!("'{key}'"))
            .or_else(|| text.split_once(&format!("\"{key}\"")))
            .ok_or_else(|| format!("no '{key}'"))?;
        let rest = rest
            .trim_start()
            .strip_prefix(':')
            .ok_or_else(|| format!("no value for '{key}'"))?;
        Ok(rest.trim_start())
    };
    let descr = value("descr")?;
    let descr = match descr.chars().next() {
        Some(quote @ ('\'' | '"')) => descr[1..]
            .split_once(quote)
            .ok_or("the string of 'descr' does not end")?
            .0
            .to_owned(),
        _ => return Err("'descr' is not a plain type (records are not read)".to_owned()),
    };
    let order = value("fortran_order")?;
    let fortran_order = match (order.starts_with("True"), order.starts_with("False")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err("'fortran_order' is neither True nor False".to_owned()),
    };
    let shape = value("shape")?;
    let (shape, _) = shape
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .ok_or("'shape' is not a tuple")?;
    let shape = shape.split(',').map(str::trim).filter(|n| !n.is_empty());
    let shape = shape.map(|n| {
        n.parse::<u64>()
            .map_err(|_| format!("'shape' contains {n:?}"))
    });
    let shape = shape.collect::<Result<Vec<_>, _>>()?;
    if shape.len() > 32 {
        return Err(format!("'shape' has {} dimensions", shape.len()));
    }
    Ok(Header {
        descr,
        fortran_order,
        shape,
        size: 0,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Array, GraphError> {
        Array::read("t".to_owned(), &mut &bytes[..], bytes.len() as u64)
    }

    #[test]
    fn every_element_type_is_read() {
        let labels = |descr: &str, shape: &str, data: &[u8]| {
            let array = read(&npy(descr, false, shape, data)).unwrap();
            let number = |_, x| Ok(x as i64);
            array.integers("integers", number).unwrap()
        };
        assert_eq!(labels("<i2", "(2,)", &[1, 0, 255, 255]), [1, -1]);
        assert_eq!(labels(">i4", "(1,)", &[0, 0, 1, 2]), [258]);
        assert_eq!(labels("|u1", "(2,)", &[3, 255]), [3, 255]);
        assert_eq!(labels("<i8", "(1,)", &(-7i64).to_le_bytes()), [-7]);
        assert_eq!(
            read(&npy(">f8", false, "()", &1.5f64.to_be_bytes()))
                .unwrap()
                .floats(),
            [1.5]
        );
        assert_eq!(
            read(&npy("|b1", false, "(3,)", &[0, 1, 1]))
                .unwrap()
                .mask()
                .unwrap(),
            [false, true, true]
        );
    }

    #[test]
    fn column_major_matrices_are_turned() {
        let array = read(&npy("|u1", true, "(2, 3)", &[1, 4, 2, 5, 3, 6])).unwrap();
        assert_eq!(array.floats(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let huge = "(18446744073709551615, 18446744073709551615)";
        assert!(matches!(
            read(&npy("<f8", false, huge, &[])),
            Err(GraphError::ClaimTooLarge { .. })
        ));
        assert!(matches!(
            read(&npy("<i4", false, "(1,)", &[1, 2])),
            Err(GraphError::WrongLength {
                found: 2,
                expected: 4,
                ..
            })
        ));
        assert!(matches!(
            read(&npy("<i4", false, "(0,)", &[1])),
            Err(GraphError::WrongLength { .. })
        ));
        assert!(matches!(
            read(&npy("|O", false, "(1,)", &[1])),
            Err(GraphError::ElementType { .. })
        ));
        assert!(matches!(
            read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
            Err(GraphError::ArrayHeader { .. })
        ));
        assert!(matches!(read(b"PK"), Err(GraphError::ArrayHeader { .. })));
        assert!(matches!(
            read(&npy("<i4", false, "(-1,)", &[])),
            Err(GraphError::ArrayHeader { .. })
        ));
        let negative = read(&npy("<i4", false, "(1,)", &[255; 4])).unwrap();
        assert!(matches!(
            negative.indices(9),
            Err(GraphError::IndexOutOfRange {
                found: -1,
                limit: 9,
                ..
            })
        ));
        assert!(matches!(
            negative.offsets(),
            Err(GraphError::RowPointer { found: -1, .. })
        ));
        let float = read(&npy("<f4", false, "(1,)", &[0; 4])).unwrap();
        assert!(matches!(
            float.indices(9),
            Err(GraphError::ElementType { .. })
        ));
        assert!(matches!(float.mask(), Err(GraphError::ElementType { .. })));
    }
}
