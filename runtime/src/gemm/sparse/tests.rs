//! Sparse products against sums in double precision, on every instruction set and in any number of
//! pieces.
// Each test owns the memory that its products touch.
#![allow(clippy::undocumented_unsafe_blocks)]

use super::*;
use crate::arena::Arena;
use crate::gemm::vectors::{Level, levels, run_at};
use crate::init::uniform;
use gnnc_graph::rng::Stream;
use gnnc_ir::words::storage::Storage;

/// A matrix with about a third of its values, among them empty rows and columns.
struct Matrix {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
    columns: usize,
}

impl Matrix {
    fn new(rows: usize, columns: usize, seed: u64) -> Self {
        let draws = Stream::new(seed, 1);
        let mut matrix = Self {
            indptr: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
            columns,
        };
        for row in 0..rows {
            for column in 0..columns {
                let draw = draws.bits((row * columns + column) as u64);
                if draw.is_multiple_of(3) && row % 5 != 3 && column % 7 != 2 {
                    matrix.indices.push(column as u32);
                    matrix.values.push(uniform(seed, draw >> 40) as f32);
                }
            }
            matrix.indptr.push(matrix.indices.len() as u64);
        }
        matrix
    }

    fn nonzeros(&self) -> Nonzeros<'_> {
        Nonzeros {
            indptr: &self.indptr,
            indices: &self.indices,
            values: &self.values,
            columns: self.columns,
        }
    }

    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.columns];
        let columns = self.indices.iter();
        columns.for_each(|column| counts[*column as usize] += 1);
        counts
    }

    /// `(row, column, value)` of the nonzeros.
    fn triples(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let rows = self.indptr.len() - 1;
        (0..rows).flat_map(move |row| {
            let of_row = self.indptr[row] as usize..self.indptr[row + 1] as usize;
            of_row.map(move |at| (row, self.indices[at] as usize, f64::from(self.values[at])))
        })
    }
}

/// A dense matrix of a storage whose rows begin a few elements apart.
fn dense(arena: &Arena, words: Range<usize>, stride: usize, storage: Storage) -> Dense {
    let at = arena.span(words.start, words.len());
    Dense {
        at,
        first: 0,
        stride,
        storage,
    }
}

/// The rows of a matrix.
fn numbers(matrix: Dense, rows: usize, columns: usize) -> Vec<f32> {
    let mut found = vec![0.0; rows * columns];
    for (row, to) in found.chunks_exact_mut(columns).enumerate() {
        unsafe { matrix.read(row, 0, to) };
    }
    found
}

/// Multiplies and compares; returns the result.
fn multiplied(transposed: bool, columns: usize, storage: Storage, threads: usize) -> Vec<f32> {
    let (rows, inner, pad) = (83, 37, 4);
    let a = Matrix::new(rows, inner, 7);
    let (of_b, of_out) = match transposed {
        true => (rows, inner),
        false => (inner, rows),
    };
    let stride = columns + pad;
    let arena = Arena::new((of_b + of_out) * stride).unwrap();
    let b = dense(&arena, 0..of_b * stride, stride, storage);
    let out = dense(
        &arena,
        of_b * stride..(of_b + of_out) * stride,
        stride,
        storage,
    );
    for row in 0..of_b {
        let number = |column| uniform(3, (row * columns + column) as u64) as f32;
        let from: Vec<f32> = (0..columns).map(number).collect();
        unsafe { b.write(row, 0, &from) };
    }
    // What stands there before must not matter, and what stands beside must stay.
    for row in 0..of_out {
        unsafe { out.write(row, 0, &vec![5.0; stride]) };
    }
    let team = Team::new(0, threads).unwrap();
    let product = SparseMultiply {
        a: a.nonzeros(),
        b,
        out,
        columns,
    };
    team.enter(|| unsafe {
        match transposed {
            true => product.transposed(&team, &a.counts()),
            false => product.rows(&team, &[0, 20, 21, rows as u64]),
        }
    });
    let dense = numbers(b, of_b, columns);
    let mut expected = vec![0.0; of_out * columns];
    for (row, column, value) in a.triples() {
        let (to, from) = if transposed {
            (column, row)
        } else {
            (row, column)
        };
        for n in 0..columns {
            expected[to * columns + n] += value * f64::from(dense[from * columns + n]);
        }
    }
    let found = numbers(out, of_out, columns);
    let tolerance = if storage.is_f32() { 1e-5 } else { 0.05 };
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (f64::from(*found) - expected).abs() < tolerance,
            "{found} {expected}"
        );
    }
    for row in 0..of_out {
        let mut beside = vec![0.0; pad];
        unsafe { out.read(row, columns, &mut beside) };
        assert_eq!(beside, vec![5.0; pad]);
    }
    found
}

#[test]
fn products_are_right_and_the_same_on_any_number_of_threads() {
    for transposed in [false, true] {
        for columns in [1, 7, 16, 40, 64, 65, 128, 150] {
            for storage in [Storage::F32, Storage::Bf16, Storage::F16] {
                let one = multiplied(transposed, columns, storage, 1);
                for threads in [2, 3, 50] {
                    assert_eq!(one, multiplied(transposed, columns, storage, threads));
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let (a, columns) = (Matrix::new(61, 29, 3), 48);
    let b: Vec<f32> = (0..61 * columns)
        .map(|n| uniform(9, n as u64) as f32)
        .collect();
    let run = |level| {
        let mut sums = vec![0.0f32; 29 * columns];
        let mut read = |row: usize, to: &mut PanelRow| {
            to[..columns].copy_from_slice(&b[row * columns..][..columns]);
        };
        let rows = Rows {
            at: sums.as_mut_ptr(),
            stride: columns,
            len: sums.len(),
        };
        let a = a.nonzeros();
        let task = Task::Columns {
            a,
            columns: 0..29,
            read: &mut read,
            sums: rows,
        };
        unsafe { run_at(level, task, columns / LANES) };
        sums
    };
    let expected = run(Level::Portable);
    for level in levels() {
        assert_eq!(run(level), expected, "{level:?}");
    }
}

#[test]
fn parts_have_equally_many_nonzeros() {
    let bounds = equal_parts(&[10, 1, 1, 1, 1, 1, 1, 10, 10], 12, 3);
    assert_eq!(bounds, [0, 3, 8, 12]);
    for parts in [1, 2, 7, 100] {
        for counts in [&[][..], &[0, 0, 0], &[9, 0, 0], &[0, 0, 9]] {
            let bounds = equal_parts(counts, 3, parts);
            assert_eq!((bounds[0], bounds.last()), (0, Some(&3)), "{bounds:?}");
            assert!(
                bounds.is_sorted() && bounds.len() <= parts + 1,
                "{bounds:?}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "outside of its buffer")]
fn a_short_operand_is_caught() {
    let a = Matrix::new(4, 3, 1);
    let arena = Arena::new(64).unwrap();
    let product = SparseMultiply {
        a: a.nonzeros(),
        b: dense(&arena, 0..11, 4, Storage::F32),
        out: dense(&arena, 16..32, 4, Storage::F32),
        columns: 4,
    };
    let team = Team::new(0, 1).unwrap();
    unsafe { product.rows(&team, &[0, 4]) };
}
