//! Edges and features of large graphs, which are used where they are in the file.

use super::{Arrays, EDGE_FEATURES, types};
use crate::read::array::{Header, width};
use crate::values::{Number, Values};
use crate::{Features, GraphError, Topology};
use gnnc_ir::workload::MAX_RELATIONS;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use zip::CompressionMethod;

/// The topology of a graph without features of edges whose rows are in order and not compressed; `None` if the arrays have
/// to be read, as if something is wrong with them.
///
/// # Errors
/// A damaged archive.
pub(super) fn in_neighbours<R: Read + Seek>(
    arrays: &mut Arrays<R>,
) -> Result<Option<Topology>, GraphError> {
    if arrays.has(EDGE_FEATURES) {
        return Ok(None);
    }
    // Negative numbers become too large ones, which are refused.
    let Some(indices) = arrays.in_place::<u32, 1>("indices", &["<i4", "<u4"])? else {
        return Ok(None);
    };
    let indptr = match arrays.in_place::<u64, 1>("indptr", &["<i8", "<u8"])? {
        Some(indptr) => indptr.values,
        None => Values::from(arrays.required("indptr")?.offsets()?),
    };
    if !arrays.has("edge_type") {
        return Ok(Topology::new(indptr, indices.values).ok());
    }
    let relations = types::relations(arrays)?.and_then(|count| u32::try_from(count).ok());
    let types = arrays.in_place::<u16, 1>("edge_type", &["<u2"])?;
    let (Some(relations), Some(types)) = (relations, types) else {
        return Ok(None);
    };
    if !(1..=MAX_RELATIONS).contains(&relations) {
        return Ok(None);
    }
    let typed = Topology::with_edge_types(indptr, indices.values, relations, types.values);
    Ok(typed.ok())
}

/// Dense features that are not compressed; `None` if they have to be read, are mostly zeros, or if there are none.
///
/// # Errors
/// A damaged archive.
pub(super) fn features<R: Read + Seek>(
    arrays: &mut Arrays<R>,
) -> Result<Option<Features>, GraphError> {
    if arrays.has("feat_shape") {
        return Ok(None);
    }
    let Some(found) = arrays.in_place::<f32, 2>("features", &["<f4"])? else {
        return Ok(None);
    };
    let [rows, columns] = found.shape;
    let features = Features::Dense {
        rows: rows as usize,
        columns: width(&arrays.at, &found.shape, columns)?,
        values: found.values,
    };
    Ok((!features.suits_sparse()).then_some(features))
}

/// An array that is used where it is.
struct InPlace<T, const N: usize> {
    shape: [u64; N],
    values: Values<T>,
}

impl<R: Read + Seek> Arrays<R> {
    /// A large array of `N` dimensions, if its elements have one of these types and can be used where they are.
    fn in_place<T: Number, const N: usize>(
        &mut self,
        array: &str,
        types: &[&str],
    ) -> Result<Option<InPlace<T, N>>, GraphError> {
        if self.stored(array) < self.least_mapped {
            return Ok(None);
        }
        let index = self.archive.index_for_name(&format!("{array}.npy"));
        let (Some(map), Some(index)) = (&self.map, index) else {
            return Ok(None);
        };
        let at = format!("{}: `{array}`", self.at);
        let damaged = |reason: String| GraphError::Archive {
            at: at.clone(),
            reason,
        };
        let entry = self.archive.by_index(index);
        let mut entry = entry.map_err(|error| damaged(error.to_string()))?;
        if entry.compression() != CompressionMethod::Stored {
            return Ok(None);
        }
        let (Some(start), size) = (entry.data_start(), entry.size()) else {
            return Ok(None);
        };
        let header = Header::read(&at, &mut entry)?;
        let elements = size.saturating_sub(header.size as u64);
        let Ok(shape) = <[u64; N]>::try_from(&header.shape[..]) else {
            return Ok(None);
        };
        let usable = types.contains(&header.descr.as_str())
            && !header.fortran_order
            && header.claimed(size_of::<T>()) == u128::from(elements);
        if !usable {
            return Ok(None);
        }
        // To read all of it checks it.
        io::copy(&mut entry, &mut io::sink()).map_err(|error| damaged(error.to_string()))?;
        let first = start as usize + header.size;
        let range = first..first + elements as usize;
        let values = Values::mapped(Arc::clone(map), range);
        let found = values.map(|values| InPlace { shape, values });
        if found.is_some() {
            self.asked.insert(array.to_owned());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{LoadOptions, load, npz};
    use crate::write::{Archive, save};
    use crate::{GraphData, Values, example};
    use std::fs::File;

    /// An archive whose arrays are not compressed, and begin at multiples of a number of bytes.
    fn archive(alignment: u16, indptr: &[i64], indices: &[i32], features: &[f32]) -> File {
        let archive = Archive::new(tempfile::tempfile().unwrap());
        let mut archive = archive.without_compression(alignment);
        let mut lists = || -> io::Result<()> {
            let numbers = indices.iter().map(|n| n.to_le_bytes());
            archive.array("indices", "<i4", &[indices.len()], numbers)?;
            let numbers = indptr.iter().map(|n| n.to_le_bytes());
            archive.array("indptr", "<i8", &[indptr.len()], numbers)?;
            if let Some(rows) = indptr.len().checked_sub(1).filter(|_| !features.is_empty()) {
                let shape = [rows, features.len() / rows];
                let numbers = features.iter().map(|x| x.to_le_bytes());
                archive.array("features", "<f4", &shape, numbers)?;
            }
            Ok(())
        };
        lists().unwrap();
        archive.finish().unwrap()
    }

    /// The graph of an archive that is mapped however small it is.
    fn graph(file: &File) -> Result<GraphData, GraphError> {
        let mut arrays = Arrays::open("a.npz", file).unwrap();
        arrays.map = Some(crate::values::map(file).unwrap());
        arrays.least_mapped = 0;
        npz::graph(arrays, &LoadOptions::default()).map(|(data, _)| data)
    }

    #[test]
    fn features_are_used_where_they_are_unless_most_are_zeros() {
        let some = [1.0, 0.0, 0.5, -2.0, 0.0, 0.0, 0.0, 3.0];
        let few = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0];
        for (values, is_mapped) in [(some, true), (few, false)] {
            let file = archive(64, &[0, 1, 2], &[1, 0], &values);
            let data = graph(&file).unwrap();
            let Features::Dense {
                rows,
                columns,
                values: found,
            } = &data.features
            else {
                panic!("sparse features");
            };
            assert_eq!((*rows, *columns, &found[..]), (2, 4, &values[..]));
            assert_eq!(found.is_mapped(), is_mapped);
        }
    }

    #[test]
    fn lists_are_used_where_they_are_if_they_can() {
        let g8 = example::g8().topology;
        let indptr: Vec<i64> = g8.indptr().iter().map(|n| *n as i64).collect();
        let indices: Vec<i32> = g8.indices().iter().map(|n| *n as i32).collect();
        for (alignment, is_mapped) in [(64, true), (4, true), (1, false)] {
            let file = archive(alignment, &indptr, &indices, &[]);
            let found = graph(&file).unwrap().topology;
            assert_eq!(found, g8, "{alignment}");
            assert_eq!(found.is_mapped(), is_mapped, "{alignment}");
        }
        let mut reversed = indices.clone();
        reversed[..g8.indptr()[1] as usize].reverse();
        let file = archive(64, &indptr, &reversed, &[]);
        let found = graph(&file).unwrap().topology;
        assert!(
            found == g8 && !found.is_mapped(),
            "rows that are not in order are sorted"
        );
    }

    /// Edges of several types from one vertex to another.
    #[test]
    fn types_of_edges_are_used_where_they_are() {
        let edges = [(1, 0, 2), (1, 0, 0), (2, 0, 1), (0, 2, 1), (1, 2, 2)];
        let (typed, _) = Topology::typed(3, 3, edges).unwrap();
        let archive = |types: &[u16], relations: u32| {
            let mut archive = Archive::new(tempfile::tempfile().unwrap()).without_compression(64);
            let indptr = typed.indptr().iter().map(|n| n.to_le_bytes());
            archive.array("indptr", "<i8", &[4], indptr).unwrap();
            let indices = typed.indices().iter().map(|n| n.to_le_bytes());
            archive.array("indices", "<i4", &[5], indices).unwrap();
            let types = types.iter().map(|n| n.to_le_bytes());
            archive.array("edge_type", "<u2", &[5], types).unwrap();
            let relations = [relations.to_le_bytes()].into_iter();
            archive.array("relations", "<u4", &[1], relations).unwrap();
            archive.finish().unwrap()
        };
        let found = graph(&archive(typed.types(), 3)).unwrap().topology;
        assert!(found == typed && found.is_mapped());
        // Types that are not in order are sorted, and a wrong one is said as of a list that is read.
        let swapped = [2, 0, 1, 1, 2];
        let found = graph(&archive(&swapped, 3)).unwrap().topology;
        assert!(found == typed && !found.is_mapped());
        let file = archive(typed.types(), 2);
        let read = npz::read("a.npz", &file, &LoadOptions::default()).unwrap_err();
        assert_eq!(graph(&file).unwrap_err().to_string(), read.to_string());
    }

    #[test]
    fn what_is_wrong_is_said_as_of_lists_that_are_read() {
        let wrong: [(&[i64], &[i32]); 5] = [
            (&[0, 1, 2], &[1, -1]),
            (&[0, 1, 2], &[1, 2]),
            (&[0, -1, 2], &[1, 0]),
            (&[0, 1, 3], &[1, 0]),
            (&[], &[]),
        ];
        for (indptr, indices) in wrong {
            let file = archive(64, indptr, indices, &[]);
            let read = npz::read("a.npz", &file, &LoadOptions::default()).unwrap_err();
            let mapped = graph(&file).unwrap_err();
            assert_eq!(mapped.to_string(), read.to_string());
        }
    }

    /// 4,200 vertices with edges between all of them, which are 67 MiB.
    #[test]
    fn edges_of_a_large_graph_stay_in_its_file() {
        let vertices = 4200u32;
        let rows = (0..vertices).flat_map(|v| (0..vertices).filter(move |u| *u != v));
        let degree = u64::from(vertices) - 1;
        let indptr: Vec<u64> = (0..=u64::from(vertices)).map(|v| v * degree).collect();
        let topology = Topology::new(indptr, rows.collect::<Vec<u32>>()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.npz");
        save(&GraphData::new("all", topology.clone()), &path).unwrap();
        let found = load(&path, &LoadOptions::default()).unwrap().topology;
        assert!(found.is_mapped() && found == topology);

        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let damaged = load(&path, &LoadOptions::default());
        assert!(matches!(damaged, Err(GraphError::Archive { .. })));
    }

    #[test]
    fn ranges_that_cannot_be_used_are_refused() {
        let file = archive(64, &[0, 1], &[7], &[]);
        let map = crate::values::map(&file).unwrap();
        let end = map.len();
        assert!(Values::<u32>::mapped(Arc::clone(&map), end - 4..end + 4).is_none());
        assert!(Values::<u32>::mapped(Arc::clone(&map), 1..5).is_none());
        assert!(Values::<u32>::mapped(map, 0..6).is_none());
    }
}
