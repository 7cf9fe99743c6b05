//! Archives of many samples on one graph: features `[samples x vertices x columns]`. They become as many copies
//! of the graph beside each other, of which each has the features and labels of a sample.

use super::{Arrays, Edges};
use crate::read::array::Array;
use crate::topology::check_vertices;
use crate::{EdgeFeatures, GraphError, Topology};
use gnnc_ir::workload::MAX_EDGES;
use std::io::{Read, Seek};

/// Edges that all copies together may have, whatever the size of the file.
const FREE_EDGES: u64 = 1 << 25;

/// Further edges for each stored byte of the features.
const EDGES_PER_BYTE: u64 = 16;

/// Samples of a graph.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    count: u64,
    /// Vertices of the graph.
    vertices: u64,
    /// Most edges of all copies that the size of the file makes plausible.
    most_edges: u64,
}

impl Samples {
    /// Looks whether features have a dimension of samples.
    pub(super) fn of<R: Read + Seek>(
        arrays: &mut Arrays<R>,
        vertices: usize,
    ) -> Result<Option<Self>, GraphError> {
        for name in ["features", "x"] {
            let Some(header) = arrays.header(name)? else {
                continue;
            };
            let [count, rows, columns] = header.shape[..] else {
                return Ok(None);
            };
            let there = arrays.rows(name)?.is_some();
            if rows != vertices as u64 || count == 0 || rows == 0 || columns == 0 || !there {
                return Err(GraphError::Shape {
                    at: format!("{}: `{name}`", arrays.at),
                    found: crate::error::shape_text(&header.shape),
                    expected: format!(
                        "({vertices}, columns), or (samples, {vertices}, columns), with all its elements"
                    ),
                });
            }
            return Ok(Some(Self {
                count,
                vertices: rows,
                most_edges: (FREE_EDGES + EDGES_PER_BYTE * arrays.stored(name)).min(MAX_EDGES),
            }));
        }
        Ok(None)
    }

    /// How many there are.
    pub(super) fn count(self) -> usize {
        self.count as usize
    }

    /// An array with a row for each vertex of each sample.
    ///
    /// # Errors
    /// Other dimensions, or columns before rows.
    pub(super) fn rows(self, mut array: Array) -> Result<Array, GraphError> {
        match array.header.shape[..] {
            [count, vertices, ref rest @ ..]
                if (count, vertices) == (self.count, self.vertices) && rest.len() < 2 =>
            {
                if array.header.fortran_order {
                    let expected = "row-major order; save numpy.ascontiguousarray of it";
                    return Err(array.wrong_shape(expected.to_owned()));
                }
                let mut shape = vec![count * vertices];
                shape.extend_from_slice(rest);
                array.header.shape = shape;
                Ok(array)
            }
            _ => {
                let (count, vertices) = (self.count, self.vertices);
                Err(array.wrong_shape(format!(
                    "({count}, {vertices}) or ({count}, {vertices}, columns), one for each vertex of each sample"
                )))
            }
        }
    }

    /// Refuses lists of vertices, which do not say of which sample these are.
    ///
    /// # Errors
    /// If the archive has one.
    pub(super) fn refuse_lists<R: Read + Seek>(arrays: &Arrays<R>) -> Result<(), GraphError> {
        let lists = ["train_idx", "val_idx", "valid_idx", "test_idx"];
        match lists.into_iter().find(|name| arrays.has(name)) {
            None => Ok(()),
            Some(name) => Err(GraphError::Unsupported {
                at: arrays.at.clone(),
                found: format!("`{name}` beside samples"),
                expected: "`train_mask`, `val_mask` and `test_mask`, with a number for each sample"
                    .to_owned(),
            }),
        }
    }

    /// A split: of samples, or of the vertices of each sample.
    pub(super) fn mask(self, array: Array) -> Result<Vec<bool>, GraphError> {
        match array.header.shape[..] {
            [count] if count == self.count => {
                let each = array.mask()?.into_iter();
                let vertices = self.vertices as usize;
                Ok(each
                    .flat_map(|is_in| std::iter::repeat_n(is_in, vertices))
                    .collect())
            }
            [_, _] => self.rows(array)?.mask(),
            _ => {
                let (count, vertices) = (self.count, self.vertices);
                Err(array.wrong_shape(format!(
                    "({count}), one for each sample, or ({count}, {vertices}), one for each vertex of each"
                )))
            }
        }
    }

    /// The graph once for each sample.
    ///
    /// # Errors
    /// More vertices or edges than a graph can have.
    pub(super) fn edges(self, edges: Edges) -> Result<Edges, GraphError> {
        const AT: &str = "samples";
        let one = &edges.topology;
        let all = u128::from(self.count) * u128::from(one.edges());
        if all > u128::from(self.most_edges) {
            return Err(GraphError::Unsupported {
                at: AT.to_owned(),
                found: format!("{} samples of {} edges", self.count, one.edges()),
                expected: format!(
                    "at most {} edges in all in a file of this size; use fewer samples",
                    self.most_edges
                ),
            });
        }
        let vertices = u128::from(self.count) * u128::from(self.vertices);
        check_vertices(AT, vertices, all as u64)?;
        let mut indptr = vec![0];
        let mut indices = Vec::with_capacity(all as usize);
        for sample in 0..self.count {
            let (edges, first) = (sample * one.edges(), (sample * self.vertices) as u32);
            indptr.extend(one.indptr()[1..].iter().map(|end| edges + end));
            indices.extend(one.indices().iter().map(|source| first + source));
        }
        let count = self.count as usize;
        let topology = Topology::untyped(indptr, indices)
            .with_types(one.all_types(), one.types().repeat(count))
            .with_sets(one.set_names().to_vec())?;
        Ok(Edges {
            topology,
            features: EdgeFeatures {
                columns: edges.features.columns,
                values: edges.features.values.repeat(count),
            },
            dropped: edges.dropped,
        })
    }

    /// The places on a curve of all samples, one behind the other.
    pub(super) fn places(self, one: &[u32]) -> Vec<u32> {
        let samples = 0..self.count as u32;
        samples
            .flat_map(|sample| {
                one.iter()
                    .map(move |place| sample * one.len() as u32 + place)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::read::array::tests::npy;
    use crate::{Features, GraphData, Labels, LoadOptions, write};
    use std::io::{Cursor, Write};
    use zip::ZipWriter;

    fn archive(arrays: &[(&str, &str, &str, Vec<u8>)]) -> Result<GraphData, String> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, descr, shape, data) in arrays {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(&npy(descr, false, shape, data)).unwrap();
        }
        let bytes = zip.finish().unwrap().into_inner();
        let found = crate::read::npz::read("s", Cursor::new(bytes), &LoadOptions::default());
        found
            .map(|(data, _)| data)
            .map_err(|error| error.to_string())
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn path<'a>(
        more: &[(&'a str, &'a str, &'a str, Vec<u8>)],
    ) -> Vec<(&'a str, &'a str, &'a str, Vec<u8>)> {
        let ends = [0i32, 1, 1, 2]
            .into_iter()
            .flat_map(i32::to_le_bytes)
            .collect();
        let mut all = vec![
            ("edge_index", "<i4", "(2, 2)", ends),
            ("edge_attr", "<f4", "(2, 1)", floats(&[5.0, 6.0])),
            (
                "pos",
                "<f4",
                "(3, 2)",
                floats(&[0.0, 0.0, 2.0, 2.0, 1.0, 1.0]),
            ),
        ];
        all.extend_from_slice(more);
        all
    }

    #[test]
    fn each_sample_has_a_graph() {
        let data = archive(&path(&[
            (
                "x",
                "<f4",
                "(2, 3, 1)",
                floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ),
            (
                "y",
                "<f4",
                "(2, 3)",
                floats(&[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]),
            ),
            ("train_mask", "|b1", "(2,)", vec![1, 0]),
            ("test_mask", "|b1", "(2, 3)", vec![0, 0, 0, 1, 0, 1]),
        ]));
        let data = data.unwrap();
        assert_eq!(data.validate(), []);
        let into = |v| data.topology.in_neighbours(v).to_vec();
        assert_eq!(
            (0..6).map(into).collect::<Vec<_>>(),
            [vec![], vec![0], vec![1], vec![], vec![3], vec![4]]
        );
        assert_eq!(data.edge_features.values, [5.0, 6.0, 5.0, 6.0]);
        assert_eq!(data.topology.places_on_curve(), [0, 2, 1, 3, 5, 4]);
        assert_eq!(
            data.features,
            Features::dense(6, 1, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        );
        let values = vec![7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        assert_eq!(data.labels, Labels::Values { width: 1, values });
        assert_eq!(data.train, [true, true, true, false, false, false]);
        assert_eq!(data.test, [false, false, false, true, false, true]);
        let bytes = write::npz(&data, Cursor::new(Vec::new())).unwrap();
        let (again, _) = crate::read::npz::read("s", bytes, &LoadOptions::default()).unwrap();
        assert_eq!(again.topology, data.topology);
    }

    #[test]
    fn samples_that_do_not_fit_are_refused() {
        let x = |shape| ("x", "<f4", shape, floats(&[1.0; 6]));
        let said = |more: &[(&'static str, &'static str, &'static str, Vec<u8>)]| {
            archive(&path(more)).unwrap_err()
        };
        let numbers = |all: &[i32]| all.iter().flat_map(|x| x.to_le_bytes()).collect();
        let rows = [
            ("indptr", "<i4", "(4,)", numbers(&[0, 0, 1, 2])),
            ("indices", "<i4", "(2,)", numbers(&[0, 1])),
            ("features", "<f4", "(3, 2, 1)", floats(&[1.0; 6])),
        ];
        assert!(
            archive(&rows)
                .unwrap_err()
                .contains("(samples, 3, columns)")
        );
        let y = ("y", "<f4", "(6,)", floats(&[1.0; 6]));
        assert!(said(&[x("(2, 3, 1)"), y]).contains("one for each vertex of each sample"));
        let mask = ("train_mask", "|b1", "(3,)", vec![1, 0, 1]);
        assert!(said(&[x("(2, 3, 1)"), mask]).contains("one for each sample"));
        let train = ("train_idx", "<i4", "(1,)", numbers(&[0]));
        assert!(said(&[x("(2, 3, 1)"), train]).contains("`train_idx` beside samples"));
        let none = |shape| ("x", "<f4", shape, Vec::new());
        for shape in [
            "(1000000000, 3, 0)",
            "(1152921504606846976, 0, 1)",
            "(40000000, 3, 1)",
        ] {
            said(&[none(shape)]);
        }
        let mut arrays = path(&[x("(2, 3, 1)")]);
        arrays[2] = ("pos", "<f4", "(1, 6)", floats(&[1.0; 6]));
        let data = archive(&arrays).unwrap();
        assert!(data.topology.places_on_curve().is_empty());
    }
}
