//! Schedules cover all items.

use super::*;

#[test]
fn shapes_cover_all_columns() {
    for columns in 1..3000 {
        for vector in [1, 2, 4, 8] {
            if columns % vector != 0 {
                continue;
            }
            for shape in [gather_shape(columns, vector), column_shape(columns, vector)] {
                let slab = shape.vector * shape.lanes * shape.tiles;
                assert!(slab * shape.slabs >= columns, "{columns} {shape:?}");
                assert!(slab * (shape.slabs - 1) < columns, "{columns} {shape:?}");
                assert!(shape.tiles * shape.vector <= ACCUMULATORS);
                assert!((shape.lanes * shape.apart).is_power_of_two());
            }
        }
    }
}

#[test]
fn hubs_are_cut_into_chunks() {
    let hubs = Hubs::of(&[0, 3, 10, 14, 14], 0..4, 3);
    assert_eq!(hubs.rows, [1, 2]);
    assert_eq!(hubs.first_chunks, [0, 3, 5]);
    assert_eq!(hubs.chunk_rows, [1, 1, 1, 2, 2]);
    assert_eq!(hubs.chunk_edges, [3, 6, 6, 9, 9, 10, 10, 13, 13, 14]);
    assert_eq!(Hubs::of(&[0, 3], 0..1, 3).rows, [0u32; 0]);
}

/// At least two blocks for each of 132 multiprocessors, even for Cora's 2,708 vertices, and never
/// more than can be added at once.
#[test]
fn column_sums_fill_a_gpu() {
    let schedule = Schedule {
        shape: column_shape(16, 4),
        team: BLOCK,
        partial: 16,
        over: Items::Rows,
        passes: vec![Pass {
            entry: "k".to_owned(),
            items: Items::Partials,
            per_item: 1,
            teams: 1,
            slabs: 1,
            shared_bytes: 0,
        }],
    };
    for rows in [2_708, 80_000, 233_000, 2_000_000, 100_000_000] {
        let size = Size {
            rows,
            ..Size::default()
        };
        let partials = schedule.partials(&size);
        assert!(
            (264..=MOST_PARTIALS).contains(&partials),
            "{rows}: {partials}"
        );
        let covered = partials * schedule.partial_items(&size);
        assert!(covered >= rows && covered - rows < schedule.partial_items(&size));
    }
}
