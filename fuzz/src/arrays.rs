//! NumPy arrays derived from arbitrary bytes: valid or nearly so.

use crate::models::Choices;

/// Element types that are read, and some that are not.
const TYPES: &[(&str, usize)] = &[
    ("<f4", 4),
    ("<i8", 8),
    ("<i4", 4),
    ("<f8", 8),
    ("|b1", 1),
    ("|u1", 1),
    ("|i1", 1),
    ("<u2", 2),
    (">i4", 4),
    (">f8", 8),
    ("<u8", 8),
    ("<f2", 2),
    ("<c8", 8),
    ("<U3", 12),
];

/// An array, and its shape if it is a valid matrix.
pub struct Array {
    /// Header and elements.
    pub bytes: Vec<u8>,
    /// Rows and columns, if it is a valid matrix.
    pub matrix: Option<[usize; 2]>,
}

/// Builds an array; the bytes left after all choices become its elements, repeated as needed.
pub fn array(mut choices: Choices) -> Array {
    let kind = choices.below(TYPES.len());
    let (name, size) = TYPES[kind];
    let order = choices.pick(&["False", "True"]);
    let shape: Vec<usize> = (0..choices.pick(&[2, 1, 3, 0]))
        .map(|_| choices.below(9))
        .collect();
    let version = choices.pick(&[1u8, 2, 3]);
    let mistake = choices.below(16);
    let padding = choices.below(70);
    let dimensions: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let mut header =
        format!("{{'descr': '{name}', 'fortran_order': {order}, 'shape': ({dimensions}), }}");
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.into_bytes());
    let elements = choices.rest();
    let elements = if elements.is_empty() { &[0] } else { elements };
    let count = shape.iter().product::<usize>() * size;
    bytes.extend(elements.iter().cycle().take(count));
    match mistake {
        0 => bytes.push(0),
        1 => drop(bytes.pop()),
        _ => {}
    }
    let read = TYPES[..11].iter().any(|(known, _)| *known == name);
    let matrix = match shape[..] {
        [rows, columns] if mistake > 1 && read => Some([rows, columns]),
        _ => None,
    };
    Array { bytes, matrix }
}
