//! A part in a file: an archive of arrays.

use super::{Degrees, LocalChunks, LocalPart};
use crate::GraphError;
use crate::csr::{Csr, check_indptr};
use crate::partition::Partition;
use crate::read::npz::Arrays;
use crate::write::Archive;
use std::fs::File;
use std::io::{self, BufReader, Seek, Write};
use std::ops::Range;
use std::path::Path;

impl LocalPart {
    /// Writes a part of a graph without named sets of edges.
    ///
    /// # Errors
    /// Any error of `out`.
    pub(crate) fn write(&self, out: impl Write + Seek) -> io::Result<()> {
        let mut archive = Archive::new(out);
        let mut numbers = |name: &str, numbers: &[u32]| {
            let bytes = numbers.iter().map(|n| n.to_le_bytes());
            archive.array(name, "<u4", &[numbers.len()], bytes)
        };
        numbers("inner", &[self.inner as u32])?;
        numbers("global", &self.global)?;
        let halo = self.halo_of.iter();
        let halo: Vec<u32> = halo
            .flat_map(|(rank, rows)| [*rank, rows.len() as u32])
            .collect();
        numbers("halo", &halo)?;
        let send = self.send.iter();
        let send: Vec<u32> = send
            .flat_map(|(rank, rows)| [*rank, rows.len() as u32])
            .collect();
        numbers("send", &send)?;
        let rows: Vec<u32> = self
            .send
            .iter()
            .flat_map(|(_, rows)| rows.iter().copied())
            .collect();
        numbers("send_rows", &rows)?;
        let none = &[][..];
        let [into, from] = match self.degrees.first() {
            Some(degrees) => [&degrees.into[..], &degrees.out],
            None => [none, none],
        };
        numbers("edges_into", into)?;
        numbers("edges_from", from)?;
        numbers("sources", &self.edges.indices)?;
        let offsets = self.edges.indptr.iter().map(|offset| offset.to_le_bytes());
        archive.array("offsets", "<u8", &[self.edges.indptr.len()], offsets)?;
        if !self.types.is_empty() {
            let types = self.types.iter().map(|kind| kind.to_le_bytes());
            archive.array("types", "<u2", &[self.types.len()], types)?;
        }
        archive.finish().map(drop)
    }

    /// The vertices that part `rank` owns, in the order of its rows.
    ///
    /// # Errors
    /// As [`LocalPart::read`], of this array.
    pub(crate) fn read_own(
        path: &Path,
        rank: u32,
        partition: &Partition,
    ) -> Result<Vec<u32>, GraphError> {
        let (global, inner) = vertices(&mut open(path)?, path, rank, partition)?;
        Ok(global[..inner].to_vec())
    }

    /// Reads part `rank` of a partition of a graph with so many types of edges.
    ///
    /// # Errors
    /// A file that cannot be read, or whose arrays do not fit each other or the partition.
    pub(crate) fn read(
        path: &Path,
        rank: u32,
        relations: u32,
        partition: &Partition,
    ) -> Result<Self, GraphError> {
        let mut arrays = open(path)?;
        let wrong = wrong(path);
        let (global, inner) = vertices(&mut arrays, path, rank, partition)?;
        let (rows, parts, owner) = (global.len(), partition.parts(), partition.owner());
        let mut indices = |name: &str, limit: u64| arrays.required(name)?.indices(limit);
        let halo = counts(&indices("halo", 1 << 32)?, parts, inner);
        let fits = |halo: &Vec<(u32, Range<usize>)>| {
            let end = halo.last().map_or(inner, |(_, rows)| rows.end);
            let of_owner = |(part, rows): &(u32, Range<usize>)| {
                *part != rank
                    && global[rows.clone()]
                        .iter()
                        .all(|v| owner[*v as usize] == *part)
            };
            end == rows && halo.iter().all(of_owner)
        };
        let Some(halo_of) = halo.filter(fits) else {
            return Err(wrong(
                "a halo of other parts' vertices".to_owned(),
                "one by owner",
            ));
        };
        let sent = indices("send_rows", inner as u64)?;
        let send = counts(&indices("send", 1 << 32)?, parts, 0);
        let send = send.filter(|send| send.last().map_or(0, |(_, rows)| rows.end) == sent.len());
        let Some(send) = send else {
            return Err(wrong(
                "rows to send that are not counted".to_owned(),
                "a number for each reader",
            ));
        };
        let into = indices("edges_into", 1 << 32)?;
        let out = indices("edges_from", 1 << 32)?;
        if into.len() != rows || out.len() != rows {
            return Err(wrong(format!("{} degrees", into.len()), "one for each row"));
        }
        let sources = indices("sources", rows as u64)?;
        let offsets = arrays.required("offsets")?.offsets()?;
        check_indptr(&path.display().to_string(), &offsets, sources.len())?;
        if offsets.len() != inner + 1 {
            return Err(wrong(
                format!("{} offsets", offsets.len()),
                "one for each own vertex, and one",
            ));
        }
        let types: Vec<u16> = match arrays.optional("types")? {
            Some(types) => types
                .indices(u64::from(relations).min(1 << 16))?
                .into_iter()
                .map(|kind| kind as u16)
                .collect(),
            None => Vec::new(),
        };
        let typed = relations > 0;
        if types.len() != if typed { sources.len() } else { 0 } {
            return Err(wrong(
                format!("{} types of edges", types.len()),
                "one for each edge if there are types",
            ));
        }
        let mut part = Self {
            rank,
            parts,
            inner,
            global,
            halo_of,
            ghosts_of: Vec::new(),
            open: Vec::new(),
            send: send
                .into_iter()
                .map(|(reader, rows)| (reader, sent[rows].to_vec()))
                .collect(),
            chunks: LocalChunks::default(),
            by_global_id: false,
            degrees: vec![Degrees { into, out }],
            edges: Csr {
                indptr: offsets,
                indices: sources,
            },
            types,
            sets: None,
        };
        part.chunks = LocalChunks::new(&part, partition);
        Ok(part)
    }
}

/// The vertices of a part's rows, and how many of them it owns, which are the first.
fn vertices(
    arrays: &mut Arrays<BufReader<File>>,
    path: &Path,
    rank: u32,
    partition: &Partition,
) -> Result<(Vec<u32>, usize), GraphError> {
    let (wrong, owner) = (wrong(path), partition.owner());
    let mut indices = |name: &str, limit: u64| arrays.required(name)?.indices(limit);
    let global = indices("global", owner.len() as u64)?;
    let inner = match indices("inner", global.len() as u64 + 1)?[..] {
        [inner] => inner as usize,
        _ => return Err(wrong("no number of inner vertices".to_owned(), "one")),
    };
    let own = global[..inner].iter().all(|v| owner[*v as usize] == rank);
    match own && inner == owner.iter().filter(|part| **part == rank).count() {
        true => Ok((global, inner)),
        false => Err(wrong(
            "other vertices than the part has".to_owned(),
            "all of them, each once",
        )),
    }
}

/// What is wrong in a file: what was found, and what was expected.
fn wrong(path: &Path) -> impl Fn(String, &str) -> GraphError {
    let at = path.display().to_string();
    move |found, expected| GraphError::Unsupported {
        at: at.clone(),
        found,
        expected: expected.to_owned(),
    }
}

/// Opens an archive of numbers.
pub(crate) fn open(path: &Path) -> Result<Arrays<BufReader<File>>, GraphError> {
    let file = gnnc_files::open(path).map_err(|source| GraphError::Io {
        file: path.to_owned(),
        source,
    })?;
    Arrays::open(&path.display().to_string(), BufReader::new(file))
}

/// Pairs of a part and a number of rows, as ranges of rows from `begin` on. `None` if parts do not ascend.
fn counts(pairs: &[u32], parts: u32, begin: usize) -> Option<Vec<(u32, Range<usize>)>> {
    let mut at = begin;
    let mut found: Vec<(u32, Range<usize>)> = Vec::new();
    for pair in pairs.chunks(2) {
        let [part, count] = pair[..] else {
            return None;
        };
        let ascends = found.last().is_none_or(|(last, _)| *last < part);
        if !ascends || part >= parts {
            return None;
        }
        found.push((part, at..at + count as usize));
        at += count as usize;
    }
    Some(found)
}
