//! `.npz` archives of arrays.

use crate::Names;
use crate::values::LEAST_MAPPED;
use std::io::{self, Seek, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An archive of arrays that is being written. Equal arrays give equal bytes.
pub struct Archive<W: Write + Seek> {
    file: ZipWriter<W>,
    /// Arrays of so many bytes and more are not compressed.
    stored: u64,
    /// These begin at multiples of so many bytes.
    alignment: u16,
}

impl<W: Write + Seek> Archive<W> {
    /// An archive without arrays, which are written to `out`.
    pub fn new(out: W) -> Self {
        Self {
            file: ZipWriter::new(out),
            stored: LEAST_MAPPED,
            alignment: 64,
        }
    }

    /// An archive of which no array is compressed, and whose arrays begin at multiples of a number of bytes.
    #[cfg(test)]
    pub(crate) fn without_compression(self, alignment: u16) -> Self {
        Self {
            stored: 0,
            alignment,
            ..self
        }
    }

    /// Writes an array, whose elements are of NumPy's type `descr`, row by row. Large ones are not compressed, so that
    /// they can be mapped.
    ///
    /// # Errors
    /// Any error of the file.
    pub fn array<const N: usize>(
        &mut self,
        name: &str,
        descr: &str,
        shape: &[usize],
        elements: impl Iterator<Item = [u8; N]>,
    ) -> io::Result<()> {
        let bytes = shape
            .iter()
            .fold(N as u64, |product, &n| product.saturating_mul(n as u64));
        let mut options = SimpleFileOptions::default().large_file(bytes > 1 << 31);
        if bytes >= self.stored {
            options = options
                .compression_method(CompressionMethod::Stored)
                .with_alignment(self.alignment);
        }
        self.file.start_file(format!("{name}.npy"), options)?;
        self.file.write_all(&header(descr, shape))?;
        let mut buffer = Vec::with_capacity(1 << 16);
        for element in elements {
            buffer.extend_from_slice(&element);
            if buffer.len() >= (1 << 16) - N {
                self.file.write_all(&buffer)?;
                buffer.clear();
            }
        }
        self.file.write_all(&buffer)
    }

    /// Writes texts as an array of bytes, in which each has a line.
    ///
    /// # Errors
    /// Any error of the file.
    pub fn lines(&mut self, name: &str, texts: &Names) -> io::Result<()> {
        let lines = texts.lines();
        let bytes = lines.iter().map(|byte| [*byte]);
        self.array(name, "|u1", &[lines.len()], bytes)
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Any error of the file.
    pub fn finish(self) -> io::Result<W> {
        self.file.finish().map_err(io::Error::from)
    }
}

/// The header of a `.npy` file, padded to align the elements to 64 bytes.
pub(crate) fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}",
        sizes.trim_end()
    );
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(10 + length - 1, b' ');
    bytes.push(b'\n');
    bytes
}
