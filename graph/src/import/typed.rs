//! Vertices of several types, each with features, labels and splits of its own, as one graph: the types one
//! after the other, with a block of columns for the features of each.

use crate::features::Entry;
use crate::names::Names;
use crate::vertex_types::VertexTypes;
use crate::{Features, GraphData, GraphError, Labels};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::{MAX_VERTEX_TYPES, MAX_WIDTH};

/// The vertices of one type.
pub(super) struct OfType {
    pub(super) name: String,
    /// How many there are.
    pub(super) rows: usize,
    pub(super) features: Features,
    pub(super) labels: Labels,
    pub(super) class_names: Names,
    /// Training, validation and test vertices; empty without a split.
    pub(super) masks: [Vec<bool>; 3],
}

/// Gives a graph what is known about its vertices, those of the first type first. Labels and splits are those
/// of the type `chosen`, or else of the only one with labels.
///
/// # Errors
/// Labels of more than one type, too many types, or too many columns.
pub(super) fn describe(
    at: &str,
    mut types: Vec<OfType>,
    chosen: Option<&str>,
    data: &mut GraphData,
) -> Result<(), GraphError> {
    let wrong = |found: String, expected: &str| GraphError::Unsupported {
        at: at.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if let Some(chosen) = chosen {
        if !types.iter().any(|of| of.name == chosen) {
            let names: Vec<&str> = types.iter().map(|of| &of.name[..]).collect();
            let found = format!("--label-type {chosen}");
            return Err(wrong(found, &format!("one of {}", names.join(", "))));
        }
        for other in types.iter_mut().filter(|of| of.name != chosen) {
            other.labels = Labels::None;
            other.masks = Default::default();
        }
    }
    let labeled = types.iter().filter(|of| of.labels != Labels::None);
    let labeled: Vec<&str> = labeled.map(|of| &of.name[..]).collect();
    if labeled.len() > 1 {
        let found = format!("labels of the types {}", labeled.join(", "));
        return Err(wrong(found, "those of one type: name it as --label-type"));
    }
    if types.len() > MAX_VERTEX_TYPES as usize {
        let found = counted(types.len(), "type") + " of vertices";
        return Err(wrong(found, &format!("at most {MAX_VERTEX_TYPES}")));
    }
    data.features = blocks(&types).map_err(|columns| {
        let found = format!("{columns} features of all types together");
        wrong(found, &format!("at most {MAX_WIDTH}"))
    })?;
    let kinds = (0u16..).zip(&types);
    VertexTypes {
        of: kinds
            .flat_map(|(kind, of)| std::iter::repeat_n(kind, of.rows))
            .collect(),
        names: types.iter().map(|of| &of.name).collect(),
    }
    .give(at, data)?;
    let vertices = data.vertices() as usize;
    let mut first = 0;
    for of in types {
        let rows = first..first + of.rows;
        let masks = [&mut data.train, &mut data.val, &mut data.test];
        for (mask, own) in masks.into_iter().zip(&of.masks) {
            for (all, own) in mask[rows.clone()].iter_mut().zip(own) {
                *all = *own;
            }
        }
        match of.labels {
            Labels::None => {}
            Labels::Single(own) => {
                let mut all = vec![-1; vertices];
                all[rows].copy_from_slice(&own);
                (data.labels, data.class_names) = (Labels::Single(all), of.class_names);
            }
            Labels::Values { width, values } => {
                let (begin, columns) = (rows.start, width as usize);
                let mut all = vec![f32::NAN; vertices * columns];
                all[begin * columns..][..values.len()].copy_from_slice(&values);
                (data.labels, data.class_names) =
                    (Labels::Values { width, values: all }, of.class_names);
            }
        }
        first += of.rows;
    }
    Ok(())
}

/// The features of all types, each in a block of columns. The error is the number of columns, if it is too
/// large.
fn blocks(types: &[OfType]) -> Result<Features, u64> {
    let columns = types
        .iter()
        .map(|of| u64::from(of.features.columns()))
        .sum();
    if columns == 0 {
        return Ok(Features::None);
    }
    if columns > u64::from(MAX_WIDTH) {
        return Err(columns);
    }
    let rows = types.iter().map(|of| of.rows).sum();
    let (mut row, mut column) = (0, 0);
    let entries = types.iter().flat_map(|of| {
        let (first_row, first_column) = (row, column);
        (row, column) = (row + of.rows, column + of.features.columns());
        of.features.entries().map(move |entry| Entry {
            row: first_row + entry.row,
            column: first_column + entry.column,
            ..entry
        })
    });
    let all = Features::of_entries(rows, columns as u32, entries);
    Ok(all.in_best_storage())
}
