//! Arrays and archives in the format that NumPy writes.

use std::io::{Cursor, Write};

/// The bytes of an `.npy` file.
pub fn array(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(elements);
    bytes
}

/// An array of 64-bit integers.
pub fn i64s(values: &[i64]) -> Vec<u8> {
    let elements: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    array("<i8", &format!("({},)", values.len()), &elements)
}

/// The bytes of an `.npz` file.
pub fn archive(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        zip.start_file(
            format!("{name}.npy"),
            zip::write::SimpleFileOptions::default(),
        )
        .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
