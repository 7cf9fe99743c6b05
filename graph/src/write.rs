//! Writing data graphs to files: to a temporary file that is then renamed.

mod archive;

pub use archive::Archive;
pub(crate) use archive::header;

use crate::read::metis::check_symmetric;
use crate::read::{Format, place};
use crate::{Features, GraphData, GraphError, Labels, Names, Topology};
use flate2::Compression;
use flate2::write::GzEncoder;
use gnnc_files::Replacement;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

/// Writes a graph in the format the file name implies, including `.gz`. An existing file stays
/// until the new one is complete. Text formats hold only the topology; the result names what was
/// left out (`features`, `labels`, `split`).
///
/// # Errors
/// A name without a known extension, a METIS file of an asymmetric graph, or any error of the
/// system.
pub fn save(data: &GraphData, path: impl AsRef<Path>) -> Result<Vec<&'static str>, GraphError> {
    let path = path.as_ref();
    let format = Format::of_name(path).ok_or_else(|| GraphError::UnknownFormat {
        at: place(path),
        found: "a name without a known extension".to_owned(),
    })?;
    if format == Format::Metis {
        check_symmetric(&place(path), &data.topology)?;
    }
    let ending = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let compress = ending == "gz";
    let separator = match path
        .file_name()
        .and_then(|n| n.to_str())
        .map(str::to_ascii_lowercase)
    {
        Some(name) if name.ends_with(".csv") || name.ends_with(".csv.gz") => ',',
        Some(name) if name.ends_with(".tsv") || name.ends_with(".tsv.gz") => '\t',
        _ => ' ',
    };
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    replace(path, |file| {
        let topology = &data.topology;
        if format == Format::Npz {
            return npz(data, file).map(drop);
        }
        let text = |out: &mut dyn Write| match format {
            Format::MatrixMarket => matrix_market(topology, out),
            Format::Metis => metis(topology, out),
            _ => edges(topology, separator, out),
        };
        if compress {
            let mut encoder = GzEncoder::new(file, Compression::default());
            text(&mut encoder)?;
            encoder.finish().map(drop)
        } else {
            text(file)
        }
    })
    .map_err(failed)?;
    let has_split = [&data.train, &data.val, &data.test]
        .into_iter()
        .any(|mask| mask.contains(&true));
    let kept = [
        ("features", data.features != Features::None),
        ("labels", data.labels != Labels::None),
        ("split", has_split),
        ("edge types", data.topology.relations() > 0),
        ("vertex types", !data.vertex_types.is_empty()),
        ("named sets of edges", !data.topology.is_plain()),
        ("edge features", data.edge_features.columns > 0),
    ];
    let is_text = format != Format::Npz;
    Ok(kept
        .into_iter()
        .filter(|(_, present)| is_text && *present)
        .map(|(what, _)| what)
        .collect())
}

/// Writes a graph as an `.npz` archive in gnnc's layout ([`read::npz`](crate::read::npz)).
/// Equal graphs give equal bytes.
///
/// # Errors
/// Any error of `out`.
pub fn npz<W: Write + Seek>(data: &GraphData, out: W) -> io::Result<W> {
    let mut archive = Archive::new(out);
    let (n, edges) = (data.vertices() as usize, data.topology.indices().len());
    archive.array(
        "indptr",
        "<i8",
        &[n + 1],
        data.topology.indptr().iter().map(|p| p.to_le_bytes()),
    )?;
    archive.array(
        "indices",
        index_type(n),
        &[edges],
        data.topology.indices().iter().map(|u| u.to_le_bytes()),
    )?;
    if !data.topology.types().is_empty() {
        let (types, count) = (data.topology.types(), data.topology.all_types());
        let each = types.iter().map(|kind| kind.to_le_bytes());
        archive.array("edge_type", "<u2", &[edges], each)?;
        archive.array("relations", "<u4", &[1], [count.to_le_bytes()].into_iter())?;
    }
    let mut sets = Names::default();
    data.topology
        .set_names()
        .iter()
        .for_each(|name| sets.push(name));
    if data.edge_features.columns > 0 {
        let shape = [edges, data.edge_features.columns as usize];
        let values = data.edge_features.values.iter().map(|x| x.to_le_bytes());
        archive.array("edge_features", "<f4", &shape, values)?;
    }
    match &data.features {
        Features::None => {}
        Features::Dense {
            rows,
            columns,
            values,
        } => {
            let values = values.as_slice().iter().map(|x| x.to_le_bytes());
            archive.array("features", "<f4", &[*rows, *columns as usize], values)?;
        }
        Features::Sparse {
            columns,
            indptr,
            indices,
            values,
        } => {
            let shape = [indptr.len() as u64 - 1, u64::from(*columns)];
            let stored = indices.len();
            archive.array(
                "feat_indptr",
                "<i8",
                &[indptr.len()],
                indptr.iter().map(|p| p.to_le_bytes()),
            )?;
            archive.array(
                "feat_indices",
                index_type(*columns as usize),
                &[stored],
                indices.iter().map(|c| c.to_le_bytes()),
            )?;
            archive.array(
                "feat_data",
                "<f4",
                &[stored],
                values.iter().map(|x| x.to_le_bytes()),
            )?;
            archive.array(
                "feat_shape",
                "<i8",
                &[2],
                shape.iter().map(|x| x.to_le_bytes()),
            )?;
        }
    }
    match &data.labels {
        Labels::None => {}
        Labels::Single(labels) => {
            archive.array(
                "labels",
                "<i4",
                &[labels.len()],
                labels.iter().map(|l| l.to_le_bytes()),
            )?;
        }
        Labels::Values { width, values } => {
            let width = *width as usize;
            let shape = [values.len() / width.max(1), width];
            archive.array(
                "labels",
                "<f4",
                &shape,
                values.iter().map(|x| x.to_le_bytes()),
            )?;
        }
    }
    for (name, mask) in [
        ("train_mask", &data.train),
        ("val_mask", &data.val),
        ("test_mask", &data.test),
    ] {
        if mask.contains(&true) {
            archive.array(
                name,
                "|b1",
                &[mask.len()],
                mask.iter().map(|&m| [u8::from(m)]),
            )?;
        }
    }
    for (name, texts) in [
        ("edge_sets", &sets),
        ("vertex_type_names", &data.vertex_types),
        ("vertex_ids", &data.ids),
        ("class_names", &data.class_names),
    ] {
        if !texts.is_empty() {
            archive.lines(name, texts)?;
        }
    }
    let places = data.topology.places_on_curve();
    if !places.is_empty() {
        let rows = places.iter().map(|place| place.to_le_bytes());
        archive.array("curve_places", "<u4", &[places.len()], rows)?;
    }
    if data.subjects > 0 {
        let subjects = [data.subjects.to_le_bytes()].into_iter();
        archive.array("subjects", "<u4", &[1], subjects)?;
    }
    archive.finish()
}

/// Writes a topology as a Matrix Market file ([`read::mtx`](crate::read::mtx)).
///
/// # Errors
/// Any error of `out`.
pub fn matrix_market(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    let n = topology.vertices();
    writeln!(out, "%%MatrixMarket matrix coordinate pattern general")?;
    writeln!(out, "{n} {n} {}", topology.edges())?;
    for v in 0..n {
        for &u in topology.in_neighbours(v) {
            writeln!(out, "{} {}", u64::from(u) + 1, u64::from(v) + 1)?;
        }
    }
    Ok(())
}

/// Writes a symmetric topology as a METIS graph file ([`read::metis`](crate::read::metis)).
///
/// # Errors
/// Any error of `out`.
pub fn metis(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", topology.vertices(), topology.edges() / 2)?;
    for v in 0..topology.vertices() {
        for (i, &u) in topology.in_neighbours(v).iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(out, "{space}{}", u64::from(u) + 1)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a topology as an edge list ([`read::edges`](crate::read::edges)).
///
/// # Errors
/// Any error of `out`.
pub fn edges(topology: &Topology, separator: char, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "# vertices {} edges {}",
        topology.vertices(),
        topology.edges()
    )?;
    for v in 0..topology.vertices() {
        for u in topology.in_neighbours(v) {
            writeln!(out, "{u}{separator}{v}")?;
        }
    }
    Ok(())
}

/// Replaces a file with whatever `write` writes, once all of it is on disk.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<Replacement>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, Replacement::begin(path)?);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.finish()
}

/// NumPy's type for 32-bit indices below `limit`: signed, as SciPy prefers, as long as they fit.
fn index_type(limit: usize) -> &'static str {
    if limit <= 1 << 31 { "<i4" } else { "<u4" }
}
