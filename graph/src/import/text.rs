//! Files of text: opened, decompressed, and split into fields.

use crate::GraphError;
use crate::read::foreign;
use csv::{Reader, ReaderBuilder};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// Bytes from which the separator is found.
const SEEN: usize = 1 << 16;
/// Longest stretch without an end of it, such as a line: a small file of gzip can hold any.
const LONGEST: usize = 256 << 20;

/// Opens a file, or standard input if the path is `-`; decompresses gzip. Every stretch of at most 256 MiB
/// has the byte `end`.
///
/// # Errors
/// A file that cannot be read, or that belongs to another program.
pub(super) fn open(path: &Path, end: u8) -> Result<impl Read + use<>, GraphError> {
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    let mut source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(gnnc_files::open(path).map_err(failed)?),
    };
    let start = peek(&mut source, foreign::SEEN).map_err(failed)?;
    foreign::check(path, &start)?;
    if start.starts_with(super::parquet::MAGIC) {
        return Err(GraphError::Unsupported {
            at: crate::read::place(path),
            found: "Parquet from standard input".to_owned(),
            expected: "the name of a file, since its last part is read first".to_owned(),
        });
    }
    let is_gzip = start.starts_with(&[0x1f, 0x8b]);
    let whole = Cursor::new(start).chain(source);
    let source: Box<dyn Read> = match is_gzip {
        true => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
        false => Box::new(whole),
    };
    Ok(Stretches {
        source,
        end,
        run: 0,
    })
}

/// The first bytes of a source, at most `count`.
fn peek(source: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    source.take(count as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// A source whose stretches between two `end` are not too long.
struct Stretches {
    source: Box<dyn Read>,
    end: u8,
    run: usize,
}

impl Read for Stretches {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(out)?;
        self.run = match out[..count].iter().rposition(|byte| *byte == self.end) {
            Some(last) => count - last,
            None => self.run + count,
        };
        match self.run > LONGEST {
            true => Err(io::Error::other(format!(
                "found more than {} MiB without a {}",
                LONGEST >> 20,
                match self.end {
                    b'\n' => "line end".to_owned(),
                    end => format!("`{}`", char::from(end)),
                }
            ))),
            false => Ok(count),
        }
    }
}

/// What separates the fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// This byte.
    Byte(u8),
    /// Any number of spaces and tabs.
    White,
}

impl Separator {
    /// The separator of a text that starts with these bytes: the one of `, ; |` and tab that makes most
    /// fields of the first line, or white space.
    pub(super) fn of(start: &[u8]) -> Self {
        let lines = start.split(|byte| *byte == b'\n');
        let mut written =
            lines.filter(|line| !matches!(line.trim_ascii().first(), None | Some(b'#')));
        let line = written.next().unwrap_or_default();
        let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
        let best = [b',', b'\t', b';', b'|']
            .into_iter()
            .rev()
            .max_by_key(|byte| count(*byte));
        match best.filter(|byte| count(*byte) > 0) {
            // Tabs beside spaces align columns.
            Some(b'\t') if line.windows(2).any(|pair| pair == b"\t\t") => Self::White,
            Some(byte) => Self::Byte(byte),
            None => Self::White,
        }
    }
}

/// A text in which white space within a line becomes one tab, and that at its ends nothing.
struct Squeezed<R> {
    source: R,
    pending: bool,
    begun: bool,
}

impl<R: Read> Read for Squeezed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // A byte that ends white space makes two.
        let mut bytes = vec![0; (out.len() / 2).max(1)];
        if out.len() < 2 {
            return Err(io::Error::other("a buffer of one byte"));
        }
        loop {
            let count = self.source.read(&mut bytes)?;
            let mut written = 0;
            for byte in &bytes[..count] {
                match byte {
                    b' ' | b'\t' | b'\r' => self.pending = self.begun,
                    b'\n' => {
                        (self.pending, self.begun) = (false, false);
                        out[written] = b'\n';
                        written += 1;
                    }
                    byte => {
                        if self.pending {
                            out[written] = b'\t';
                            written += 1;
                        }
                        (self.pending, self.begun) = (false, true);
                        out[written] = *byte;
                        written += 1;
                    }
                }
            }
            if written > 0 || count == 0 {
                return Ok(written);
            }
        }
    }
}

/// The fields of a file of text. A line that starts with `#` is a comment.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn fields(
    path: &Path,
    separator: Option<Separator>,
) -> Result<Reader<Box<dyn Read>>, GraphError> {
    let mut source = open(path, b'\n')?;
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    let mut start = peek(&mut source, SEEN).map_err(failed)?;
    if start.starts_with(b"\xef\xbb\xbf") {
        start.drain(..3);
    }
    let separator = separator.unwrap_or_else(|| Separator::of(&start));
    let whole = Cursor::new(start).chain(source);
    let (byte, text): (u8, Box<dyn Read>) = match separator {
        Separator::Byte(byte) => (byte, Box::new(whole)),
        Separator::White => {
            let squeezed = Squeezed {
                source: BufReader::new(whole),
                pending: false,
                begun: false,
            };
            (b'\t', Box::new(squeezed))
        }
    };
    Ok(ReaderBuilder::new()
        .delimiter(byte)
        .comment(Some(b'#'))
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text))
}
