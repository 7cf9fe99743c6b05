//! Rows in messages are as long as their format says, and come back rounded without bias.

use super::*;
use crate::kernel::{mask_key, vertex_hash};
use proptest::prelude::*;

fn there_and_back(wire: Wire, row: &[f32], hash: u32) -> Vec<f32> {
    let count = row.len() as u32;
    let mut words = vec![0.0; wire.words(count, Storage::F32) as usize];
    wire.encode(row, hash, &mut words);
    let mut back = vec![f32::NAN; row.len()];
    wire.decode(&words, &mut back);
    back
}

/// A row of 16 numbers that begins with these and goes on with zeros.
fn padded(first: &[f32]) -> Vec<f32> {
    let mut row = first.to_vec();
    row.resize(LEAST as usize, 0.0);
    row
}

#[test]
fn rows_have_the_words_of_their_format() {
    for (numbers, expected) in [
        (15, [15, 15, 15]),
        (16, [16, 8, 5]),
        (64, [64, 32, 17]),
        (100, [100, 50, 26]),
        (256, [256, 128, 65]),
        (257, [257, 129, 66]),
    ] {
        let found = [Wire::F32, Wire::Bf16, Wire::Int8].map(|w| w.words(numbers, Storage::F32));
        assert_eq!(found, expected, "{numbers}");
    }
    // What has 16 bits already is sent as it is, or in 8.
    let found = [Wire::F32, Wire::Bf16, Wire::Int8].map(|w| w.words(64, Storage::F16));
    assert_eq!(found, [32, 32, 17]);
    assert!(!Wire::Bf16.encodes(64, Storage::Bf16) && Wire::Int8.encodes(64, Storage::Bf16));
}

/// Row 3 of G8, computed by hand: the step is 5/254 rounded up to bf16.
#[test]
fn a_row_of_the_example_graph_is_encoded_as_by_hand() {
    let row = padded(&[-1.0, -3.0, 2.0, 0.0]);
    let scale = Scale::of(&row);
    assert_eq!((scale.bits, scale.zero), (0x3ca2, 152.0));
    assert_eq!(scale.step(), 81.0 / 4096.0);
    let back = there_and_back(Wire::Int8, &row, 7);
    for (x, y) in row.iter().zip(&back) {
        assert!((x - y).abs() < scale.step(), "{x} {y}");
    }
    assert_eq!(back[3..], row[3..]);
    let below = (-1.0 / scale.step()).floor() * scale.step();
    assert!(
        back[0] == below || back[0] == below + scale.step(),
        "{}",
        back[0]
    );
}

/// The mean of many draws is the number, within four standard deviations of a mean whose draws have a variance of at most a
/// quarter of the squared step.
#[test]
fn rounding_has_no_bias() {
    let row = padded(&[-1.0, -3.0, 2.0, 0.0, 0.3, 1e-3, -1e-3, 1.234]);
    let step = Scale::of(&row).step();
    let draws = 10_000u32;
    let mut sums = vec![0f64; row.len()];
    for draw in 0..draws {
        let hash = vertex_hash(mask_key(3, draw, 1, 0), 5);
        for (sum, x) in sums.iter_mut().zip(there_and_back(Wire::Int8, &row, hash)) {
            *sum += f64::from(x);
        }
    }
    let bound = 4.0 * f64::from(step) / 2.0 / f64::from(draws).sqrt();
    for (sum, x) in sums.iter().zip(&row) {
        let off = sum / f64::from(draws) - f64::from(*x);
        assert!(off.abs() <= bound, "{x}: off by {off}, at most {bound}");
    }
}

/// What two parts send of a vertex is rounded by draws of their own; what all send is not.
#[test]
fn shares_of_a_vertex_are_rounded_apart() {
    let row: Vec<f32> = (0..64).map(|n| (n as f32 * 0.7).sin()).collect();
    let of_part = |part| {
        let key = key_of_part(mask_key(3, 1, 2, 0), part);
        there_and_back(Wire::Int8, &row, vertex_hash(key, 11))
    };
    let all = [0, 1, 2, 3].map(of_part);
    for (n, one) in all.iter().enumerate() {
        assert!(!all[..n].contains(one), "part {n}");
    }
    assert_eq!(key_of_part(99, 0), 99);
}

#[test]
fn numbers_that_are_not_finite_stay_so() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let back = there_and_back(Wire::Int8, &padded(&[1.0, bad]), 0);
        assert!(back.iter().all(|x| !x.is_finite()), "{bad}: {back:?}");
        let back = there_and_back(Wire::Bf16, &padded(&[1.0, bad]), 0);
        assert!(back[0] == 1.0 && !back[1].is_finite());
    }
    // A range that overflows.
    let back = there_and_back(Wire::Int8, &padded(&[f32::MAX, f32::MIN]), 0);
    assert!(back.iter().any(|x| !x.is_finite()), "{back:?}");
    // And one that is too small for a step.
    assert_eq!(
        there_and_back(Wire::Int8, &padded(&[1e-38]), 0),
        padded(&[])
    );
}

proptest! {
    #[test]
    fn every_number_is_one_of_its_neighbors(
        row in prop::collection::vec(-1e3f32..1e3, 16..70),
        scale in -20i32..20,
        hash in any::<u32>(),
    ) {
        let row: Vec<f32> = row.iter().map(|x| x * 2f32.powi(scale)).collect();
        let step = Scale::of(&row).step();
        let back = there_and_back(Wire::Int8, &row, hash);
        for (x, y) in row.iter().zip(&back) {
            // Within a step, up to the rounding of the quotient.
            prop_assert!((x - y).abs() <= step * 1.0001, "{x} became {y} with steps of {step}");
        }
        prop_assert_eq!(there_and_back(Wire::Int8, &row, hash), back);
    }
}
