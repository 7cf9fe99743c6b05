//! Edges that are read, of which memory holds the last ones only: the others rest in a file, are sorted there piece by
//! piece, and merged.

use crate::topology::Dropped;
use crate::{GraphError, Topology, Values};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// Keys that memory holds, 256 MiB of them.
const ROOM: usize = 1 << 25;
/// Bytes of a key in a file.
const KEY: usize = 8;
/// Bytes of each piece that are read at a time while pieces are merged.
const BLOCK: usize = 1 << 20;

/// Keys `target << 32 | source` of edges, in the order in which they are read.
pub(super) struct Keys {
    /// The last ones.
    recent: Vec<u64>,
    /// Those before, and how many these are.
    earlier: Option<BufWriter<File>>,
    stored: u64,
    /// How many keys memory holds before they move to the file.
    room: usize,
}

impl Keys {
    /// No keys; all of them stay in memory.
    pub(super) fn in_memory() -> Self {
        Self {
            recent: Vec::new(),
            earlier: None,
            stored: 0,
            room: usize::MAX,
        }
    }

    /// Lets keys move to a file from now on.
    pub(super) fn on_disk(&mut self) {
        self.room = ROOM;
    }

    /// Adds a key.
    ///
    /// # Errors
    /// A file for temporary data that cannot be made or written.
    pub(super) fn push(&mut self, key: u64) -> Result<(), GraphError> {
        self.recent.push(key);
        if self.recent.len() >= self.room {
            self.store().map_err(refused)?;
        }
        Ok(())
    }

    /// Moves the keys in memory to the file.
    fn store(&mut self) -> io::Result<()> {
        let file = match &mut self.earlier {
            Some(file) => file,
            none => none.insert(BufWriter::new(tempfile::tempfile()?)),
        };
        write(file, &self.recent)?;
        self.stored += self.recent.len() as u64;
        self.recent.clear();
        Ok(())
    }

    /// Number of keys.
    pub(super) fn len(&self) -> u64 {
        self.stored + self.recent.len() as u64
    }

    /// All keys, if they are in memory.
    pub(super) fn all(&self) -> &[u64] {
        &self.recent
    }

    /// The edges between so many vertices, of which each end is renamed. Repeats and self loops are left out and counted.
    /// If some keys are in a file, so are the edges.
    ///
    /// # Errors
    /// As [`Topology::from_edges`], and files for temporary data that cannot be made, written or read.
    pub(super) fn topology(
        self,
        vertices: u32,
        name: &dyn Fn(u32) -> u32,
    ) -> Result<(Topology, Dropped), GraphError> {
        let renamed = |key: u64| {
            let [target, source] = [(key >> 32) as u32, key as u32].map(name);
            u64::from(target) << 32 | u64::from(source)
        };
        let mut keys = self.recent;
        keys.iter_mut().for_each(|key| *key = renamed(*key));
        let Some(earlier) = self.earlier else {
            return Topology::from_keys(vertices, keys);
        };
        let mut sorted = Sorted::default();
        keys = sorted.take(vertices, keys)?;
        let mut earlier = earlier
            .into_inner()
            .map_err(|error| refused(error.into_error()))?;
        earlier.seek(SeekFrom::Start(0)).map_err(refused)?;
        let mut earlier = BufReader::with_capacity(BLOCK, earlier);
        let mut left = self.stored;
        while left > 0 {
            let count = left.min(self.room as u64);
            keys.clear();
            for _ in 0..count {
                keys.push(renamed(read(&mut earlier).map_err(refused)?));
            }
            left -= count;
            keys = sorted.take(vertices, keys)?;
        }
        drop(keys);
        sorted.merged(vertices).map_err(refused)
    }
}

/// Pieces of keys that are sorted, each in a file of its own.
#[derive(Default)]
struct Sorted {
    pieces: Vec<Piece>,
    dropped: Dropped,
}

struct Piece {
    file: BufReader<File>,
    /// Keys that are not read yet.
    left: u64,
}

impl Sorted {
    /// Sorts keys and writes them to a file. Returns their memory.
    fn take(&mut self, vertices: u32, keys: Vec<u64>) -> Result<Vec<u64>, GraphError> {
        let (keys, dropped) = Topology::sorted_keys(vertices, keys)?;
        self.dropped.self_loops += dropped.self_loops;
        self.dropped.repeats += dropped.repeats;
        let written = || -> io::Result<File> {
            let mut file = BufWriter::new(tempfile::tempfile()?);
            write(&mut file, &keys)?;
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        self.pieces.push(Piece {
            file: BufReader::with_capacity(BLOCK, written().map_err(refused)?),
            left: keys.len() as u64,
        });
        Ok(keys)
    }

    /// The topology of all pieces, whose edges rest in a file.
    fn merged(mut self, vertices: u32) -> io::Result<(Topology, Dropped)> {
        let mut indptr = vec![0u64; vertices as usize + 1];
        let mut sources = BufWriter::with_capacity(BLOCK, tempfile::tempfile()?);
        let mut next = BinaryHeap::new();
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            if let Some(key) = piece.next()? {
                next.push(Reverse((key, number)));
            }
        }
        let mut last = None;
        while let Some(Reverse((key, number))) = next.pop() {
            if last == Some(key) {
                self.dropped.repeats += 1;
            } else {
                indptr[(key >> 32) as usize + 1] += 1;
                sources.write_all(&(key as u32).to_ne_bytes())?;
                last = Some(key);
            }
            if let Some(key) = self.pieces[number].next()? {
                next.push(Reverse((key, number)));
            }
        }
        for vertex in 0..vertices as usize {
            indptr[vertex + 1] += indptr[vertex];
        }
        let sources = sources
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        Ok((
            Topology::untyped(indptr, Values::in_file(&sources)?),
            self.dropped,
        ))
    }
}

impl Piece {
    fn next(&mut self) -> io::Result<Option<u64>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        read(&mut self.file).map(Some)
    }
}

fn read(file: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; KEY];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn write(file: &mut impl Write, keys: &[u64]) -> io::Result<()> {
    keys.iter()
        .try_for_each(|key| file.write_all(&key.to_le_bytes()))
}

/// The error of a file for temporary data.
fn refused(source: io::Error) -> GraphError {
    GraphError::Temporary {
        folder: std::env::temp_dir(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Many repeats and some loops, in pieces of every size: the same as in memory.
    #[test]
    fn keys_in_files_make_the_same_graph() {
        let stream = Stream::new(3, 1);
        let name = |vertex: u32| (vertex * 7 + 3) % 50;
        let fill = |room: usize| {
            let mut keys = Keys::in_memory();
            keys.room = room;
            for draw in 0..1000 {
                let [target, source] = [0, 1].map(|n| Stream::below(stream.bits(2 * draw + n), 50));
                keys.push(target << 32 | source).unwrap();
            }
            assert_eq!(keys.len(), 1000);
            keys.topology(50, &name).unwrap()
        };
        let (expected, counted) = fill(usize::MAX);
        assert!(
            counted.self_loops > 5 && counted.repeats > 100,
            "{counted:?}"
        );
        for room in [1, 7, 250, 999, 1000, 1001] {
            let (found, dropped) = fill(room);
            assert_eq!((found, &dropped), (expected.clone(), &counted), "{room}");
        }
    }

    #[test]
    fn unknown_ends_are_refused_in_files_too() {
        let mut keys = Keys::in_memory();
        keys.room = 2;
        for key in [1 << 32, 5, 2 << 32] {
            keys.push(key).unwrap();
        }
        let found = keys.topology(3, &|vertex| vertex);
        assert!(matches!(found, Err(GraphError::IndexOutOfRange { .. })));
    }
}
