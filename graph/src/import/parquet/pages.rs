//! The pages of a file of Parquet, none of which takes memory out of proportion to the bytes of the file.

use super::checks::Checks;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

/// Bytes that may become of any bytes, and how many more of each: as many as of gzip.
pub(super) const FREE: u64 = 64 << 20;
/// As above.
pub(super) const EXPANSION: u64 = 1032;

/// A file that is read in pieces.
pub(super) struct Source(pub(super) File);

impl Length for Source {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for Source {
    type T = BufReader<File>;

    /// Begins to read a page, whose header says how large it will be.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut reader = self.0.get_read(start)?;
        let sizes = Sizes::of(reader.fill_buf()?);
        let sizes = sizes.ok_or_else(|| error("a page without sizes"))?;
        let most = FREE.saturating_add(sizes.stored.saturating_mul(EXPANSION));
        match sizes.whole <= most {
            true => Ok(reader),
            false => Err(error(&format!(
                "a page claims {} bytes, expected at most {most}",
                sizes.whole
            ))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        match start.checked_add(length as u64) {
            Some(end) if end <= Length::len(self) => self.0.get_bytes(start, length),
            _ => Err(error("a page lies beyond the end of the file")),
        }
    }
}

fn error(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}

/// The sizes of a page, in bytes.
struct Sizes {
    /// Decompressed.
    whole: u64,
    /// In the file.
    stored: u64,
}

impl Sizes {
    /// The sizes in the header of a page: in Thrift's compact protocol, its fields 1 to 3 are 32-bit integers, the
    /// type of the page and these.
    fn of(header: &[u8]) -> Option<Self> {
        const NEXT_FIELD_I32: u8 = 0x15;
        let mut rest = header.iter();
        let mut next = || {
            let field = *rest.next()?;
            let mut number = 0u64;
            for shift in (0..35).step_by(7) {
                let byte = *rest.next()?;
                number |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    // Zigzag: negative numbers are odd.
                    let valid = field == NEXT_FIELD_I32 && number & 1 == 0;
                    return valid.then_some(number >> 1);
                }
            }
            None
        };
        next()?;
        let (whole, stored) = (next()?, next()?);
        Some(Self { whole, stored })
    }
}

/// The pages of a column.
pub(super) struct Pages {
    pages: SerializedPageReader<Source>,
    checks: Checks,
    /// Whether the library leaves them compressed with zstd, which it reads only with a library in C.
    zstd: bool,
}

impl Pages {
    /// Those of a part of a file.
    ///
    /// # Errors
    /// A damaged file.
    pub(super) fn open(
        file: &Arc<Source>,
        chunk: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<Self, ParquetError> {
        let places = [chunk.data_page_offset(), chunk.compressed_size()];
        let mut places = places.into_iter().chain(chunk.dictionary_page_offset());
        if places.any(|place| place < 0) {
            return Err(error("a column lies before the beginning of the file"));
        }
        let zstd = matches!(chunk.compression(), Compression::ZSTD(_));
        let stored = match zstd {
            true => {
                let stored = chunk.clone().into_builder();
                Cow::Owned(stored.set_compression(Compression::UNCOMPRESSED).build()?)
            }
            false => Cow::Borrowed(chunk),
        };
        let pages = SerializedPageReader::new(Arc::clone(file), &stored, rows, None)?;
        Ok(Self {
            pages,
            checks: Checks::of(chunk.column_descr()),
            zstd,
        })
    }

    /// A page whose content is decompressed from zstd. Of the second version of pages, levels come before it
    /// as they are.
    fn from_zstd(mut page: Page) -> Result<Page, ParquetError> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = from_zstd(&[], buf)?.into();
            }
            Page::DataPageV2 {
                buf,
                is_compressed: true,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                let split = buf.split_at_checked(usize::try_from(levels)?);
                let (levels, content) = split.ok_or_else(|| error("a page without its levels"))?;
                *buf = from_zstd(levels, content)?.into();
            }
            Page::DataPageV2 { .. } => {}
        }
        Ok(page)
    }
}

/// Bytes, and behind them what is decompressed from zstd, if there is anything.
fn from_zstd(before: &[u8], stored: &[u8]) -> Result<Vec<u8>, ParquetError> {
    let mut bytes = before.to_vec();
    if stored.is_empty() {
        return Ok(bytes);
    }
    let most = FREE.saturating_add((stored.len() as u64).saturating_mul(EXPANSION));
    let decoder = StreamingDecoder::new(stored).map_err(|e| error(&format!("zstd: {e}")))?;
    let count = decoder.take(most + 1).read_to_end(&mut bytes)?;
    match count as u64 > most {
        true => Err(error("a page is packed more than gzip can")),
        false => Ok(bytes),
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(page) = self.pages.get_next_page()? else {
            return Ok(None);
        };
        let page = match self.zstd {
            true => Self::from_zstd(page)?,
            false => page,
        };
        self.checks.check(&page)?;
        Ok(Some(self.checks.closed(page)))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}
