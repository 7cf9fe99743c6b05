//! Dense products of every kind, against plain loops in double precision.

use crate::live;
use crate::support::Random;
use gnnc::ir::words::storage::Storage;
use gnnc::runtime::device::gpu::driver::{Address, Driver, Matrix, Product, ProductEnd};

/// Storage of the factors and of the result.
const KINDS: [(Storage, Storage); 5] = [
    (Storage::F32, Storage::F32),
    (Storage::Bf16, Storage::Bf16),
    (Storage::Bf16, Storage::F32),
    (Storage::F16, Storage::F16),
    (Storage::F16, Storage::F32),
];

fn bytes(floats: &[f32], storage: Storage) -> Vec<u8> {
    let mut words = vec![0.0; floats.len().div_ceil(storage.in_word() as usize)];
    storage.pack(floats, &mut words);
    words.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8], count: usize, storage: Storage) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    let words: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let mut numbers = vec![0.0; count];
    storage.unpack(&words, &mut numbers);
    numbers
}

#[test]
fn products_agree_with_loops() {
    let Some(mut live) = live("products_agree_with_loops") else {
        return;
    };
    let stream = live.stream(false).unwrap();
    let random = &mut Random(11);
    let shapes = [
        (1, 1, 1),
        (3, 0, 5),
        (7, 5, 3),
        (64, 16, 33),
        (1000, 7, 1),
        (1, 300, 40),
        (130, 602, 41),
    ];
    for (rows, inner, columns) in shapes {
        let turned = [(false, false), (true, false), (false, true), (true, true)];
        let kinds = KINDS
            .into_iter()
            .flat_map(|kind| turned.map(|turned| (kind, turned)));
        // Without an epilogue, with a bias, with ReLU, with both; sums of nothing have no
        // epilogue.
        let ends = [[false, false], [true, false], [false, true], [true, true]];
        let kinds = kinds.flat_map(|kind| ends.map(|end| (kind, end)));
        let kinds = kinds.filter(|(_, end)| inner > 0 || *end == [false, false]);
        for (((factors, result), (a_transposed, b_transposed)), [biased, relu]) in kinds {
            let [a_rows, a_columns] = if a_transposed {
                [inner, rows]
            } else {
                [rows, inner]
            };
            let [b_rows, b_columns] = if b_transposed {
                [columns, inner]
            } else {
                [inner, columns]
            };
            // Rows are farther apart than they are wide; what lies between must not change.
            let [a_stride, b_stride, stride] = [a_columns + 3, b_columns + 1, columns + 2];
            let mut floats = |n: u64, storage: Storage| -> Vec<f32> {
                (0..n).map(|_| storage.round(random.float())).collect()
            };
            let a = floats(a_rows * a_stride + 1, factors);
            let b = floats(b_rows * b_stride + 1, factors);
            let before = floats(rows * stride, result);
            let bias = floats(columns + 8, result);
            let all = [
                (&a, factors),
                (&b, factors),
                (&before, result),
                (&bias, result),
            ];
            let addresses = all.map(|(x, storage)| {
                let at = live.allocate(x.len() as u64 * 4).unwrap();
                live.upload(stream, &bytes(x, storage), at).unwrap();
                at
            });
            let matrix = |at: Address, stride: u64| Matrix { at, stride };
            let product = Product {
                a_transposed,
                b_transposed,
                a: matrix(addresses[0], a_stride),
                b: matrix(addresses[1], b_stride),
                out: matrix(addresses[2], stride),
                rows,
                inner,
                columns,
                factors,
                result,
                end: (biased || relu).then(|| ProductEnd {
                    // Not at the start of an allocation.
                    bias: biased.then(|| addresses[3].plus(8 * result.bytes())),
                    relu,
                }),
            };
            // If the library has no algorithm with the epilogue, a kernel applies it.
            if product.end.is_some() && !live.ends(stream, &product).unwrap() {
                println!("no algorithm for {product:?}");
                addresses.iter().for_each(|at| live.release(*at).unwrap());
                continue;
            }
            live.multiply(stream, &product).unwrap();
            let mut found = vec![0; bytes(&before, result).len()];
            live.download(stream, addresses[2], &mut found).unwrap();
            let found = numbers(&found, before.len(), result);
            for r in 0..rows {
                for c in 0..stride {
                    let place = (r * stride + c) as usize;
                    let value = f64::from(found[place]);
                    if c >= columns {
                        assert_eq!(value, f64::from(before[place]), "between rows");
                        continue;
                    }
                    let term = |l: u64| {
                        let x = if a_transposed {
                            l * a_stride + r
                        } else {
                            r * a_stride + l
                        };
                        let y = if b_transposed {
                            c * b_stride + l
                        } else {
                            l * b_stride + c
                        };
                        f64::from(a[x as usize]) * f64::from(b[y as usize])
                    };
                    let added = if biased {
                        f64::from(bias[c as usize + 8])
                    } else {
                        0.0
                    };
                    let exact = (0..inner).map(term).sum::<f64>();
                    let sum = exact + added;
                    let expected = if relu { sum.max(0.0) } else { sum };
                    let largest = (0..inner).map(|l| term(l).abs()).sum::<f64>() + added.abs();
                    // cuBLASLt has algorithms that store the product in 16 bits and add the bias
                    // to what they stored, as a launch of its own would.
                    let stored = if biased { exact.abs() } else { 0.0 };
                    let rounded = if result.is_f32() {
                        0.0
                    } else {
                        result.roundoff() * (expected.abs() + stored)
                    };
                    let close = (value - expected).abs() <= 1e-6 * largest + rounded;
                    assert!(
                        close,
                        "{product:?}: [{r}, {c}] is {value}, expected {expected}"
                    );
                }
            }
            addresses.iter().for_each(|at| live.release(*at).unwrap());
        }
    }
}
