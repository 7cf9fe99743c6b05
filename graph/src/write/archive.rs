//! `.npz` archives of arrays.

use crate::Names;
use crate::values::LEAST_MAPPED;
use std::io::{self, Seek, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An archive of arrays that is being written. Equal arrays give equal bytes.
pub struct Archive<W: Write + Seek>(ZipWriter<W>);

impl<W: Write + Seek> Archive<W> {
    /// An archive without arrays, which are written to `out`.
    pub fn new(out: W) -> Self {
        Self(ZipWriter::new(out))
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
        if bytes >= LEAST_MAPPED {
            options = options
                .compression_method(CompressionMethod::Stored)
                .with_alignment(64);
        }
        self.0.start_file(format!("{name}.npy"), options)?;
        self.0.write_all(&header(descr, shape))?;
        let mut buffer = Vec::with_capacity(1 << 16);
        for element in elements {
            buffer.extend_from_slice(&element);
            if buffer.len() >= (1 << 16) - N {
                self.0.write_all(&buffer)?;
                buffer.clear();
            }
        }
        self.0.write_all(&buffer)
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
        self.0.finish().map_err(io::Error::from)
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
