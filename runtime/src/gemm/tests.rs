//! Products against sums in double precision, and in pieces.
// Each test owns the memory that its products touch.
#![allow(clippy::undocumented_unsafe_blocks)]

use super::*;
use crate::arena::Arena;
use crate::init::uniform;
use proptest::prelude::*;
use std::sync::Mutex;

struct Case {
    arena: Arena,
    multiply: Multiply,
    scratch: Span,
}

fn case(product: Product, rows: usize, inner: usize, columns: usize, pad: usize) -> Case {
    let (b_rows, b_columns) = match product {
        Product::Nn => (inner, columns),
        Product::Nt => (columns, inner),
        Product::Tn => (rows, columns),
    };
    let out_rows = if product == Product::Tn { inner } else { rows };
    let blocks = rows.div_ceil(product_block(rows as u64) as usize);
    let sizes = [
        rows * (inner + pad),
        b_rows * (b_columns + pad),
        out_rows * (columns + pad),
        blocks * inner * columns,
    ];
    let arena = Arena::new(sizes.iter().sum()).unwrap();
    let mut begin = 0;
    let spans = sizes.map(|size| {
        begin += size;
        arena.span(begin - size, size)
    });
    for (key, span) in spans.iter().enumerate() {
        let floats = unsafe { span.write() };
        floats
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| *x = uniform(key as u64, i as u64) as f32);
    }
    let dense = |at: Span, columns: usize| Dense {
        at,
        first: 0,
        storage: Storage::F32,
        stride: columns + pad,
    };
    let multiply = Multiply {
        product,
        a: dense(spans[0], inner),
        b: dense(spans[1], b_columns),
        out: dense(spans[2], columns),
        rows: rows as u64,
        inner: inner as u64,
        columns: columns as u64,
        total: rows as u64,
        adds: false,
    };
    Case {
        arena,
        multiply,
        scratch: spans[3],
    }
}

fn result(case: &Case) -> Vec<f32> {
    unsafe { case.multiply.out.at.read() }.to_vec()
}

fn check(product: Product, rows: usize, inner: usize, columns: usize, pad: usize) {
    let case = case(product, rows, inner, columns, pad);
    let m = &case.multiply;
    let before = result(&case);
    let team = Team::new(0, 1).unwrap();
    let finished = Mutex::new(Vec::new());
    unsafe {
        m.run(
            &team,
            case.scratch,
            Some(&|begin, end| finished.lock().unwrap().push((begin, end))),
        )
    };
    let mut finished = finished.into_inner().unwrap();
    finished.sort_unstable();
    let (a, b, out) = unsafe { (m.a.at.read(), m.b.at.read(), m.out.at.read()) };
    let (out_rows, sum) = if product == Product::Tn {
        (inner, rows)
    } else {
        (rows, inner)
    };
    assert!(finished.windows(2).all(|w| w[0].1 == w[1].0));
    assert!(
        out_rows == 0 || (finished[0].0, finished[finished.len() - 1].1) == (0, out_rows as u64)
    );
    for r in 0..out_rows {
        for c in 0..columns {
            let term = |k: usize| {
                let a = if product == Product::Tn {
                    a[k * m.a.stride + r]
                } else {
                    a[r * m.a.stride + k]
                };
                let b = if product == Product::Nt {
                    b[c * m.b.stride + k]
                } else {
                    b[k * m.b.stride + c]
                };
                (
                    f64::from(a) * f64::from(b),
                    (f64::from(a) * f64::from(b)).abs(),
                )
            };
            let (want, size) = (0..sum)
                .map(term)
                .fold((0.0, 0.0), |s, t| (s.0 + t.0, s.1 + t.1));
            let got = f64::from(out[r * m.out.stride + c]);
            // The rounding error of a sum grows with the size of its terms; k/2 ulps is a loose
            // bound.
            assert!(
                (got - want).abs() <= size * 6e-8 * (sum as f64).sqrt().max(2.0) * 2.0,
                "{product:?} {r} {c}: {got} {want}"
            );
        }
        for c in columns..m.out.stride.min(before.len() - r * m.out.stride) {
            assert_eq!(out[r * m.out.stride + c], before[r * m.out.stride + c]);
        }
    }
    drop(case.arena);
}

#[test]
fn sizes_at_the_edges() {
    for product in [Product::Nn, Product::Nt, Product::Tn] {
        for (rows, inner, columns) in [
            (0, 3, 4),
            (3, 0, 4),
            (3, 4, 0),
            (1, 1, 1),
            (2000, 1, 1),
            (1537, 7, 16),
            (700, 300, 41),
            (90, 33, 64),
            (90, 33, 65),
            (5, 600, 3),
        ] {
            check(product, rows, inner, columns, 0);
            check(product, rows, inner, columns, 3);
        }
    }
}

/// 16-bit factors give the same results as the same numbers in 32 bits, up to the order of sums and
/// the last rounding.
#[test]
fn halves_agree_with_floats() {
    let kinds = [Storage::Bf16, Storage::F16].map(|half| [(half, half), (half, Storage::F32)]);
    for (factors, results) in kinds.into_iter().flatten() {
        for product in [Product::Nn, Product::Nt, Product::Tn] {
            // The result of a transposed product is a parameter's gradient, in 32 bits.
            if product == Product::Tn && !results.is_f32() {
                continue;
            }
            for (rows, inner, columns, pad) in [
                (1, 1, 1, 0),
                (3, 5, 7, 1),
                (1537, 7, 16, 0),
                (700, 300, 41, 3),
                (257, 33, 65, 2),
                (5000, 20, 30, 0),
                (0, 3, 4, 0),
            ] {
                let case = case(product, rows, inner, columns, pad);
                let m = &case.multiply;
                for dense in [m.a, m.b] {
                    let numbers = unsafe { dense.at.write() };
                    numbers.iter_mut().for_each(|x| *x = factors.round(*x));
                }
                let team = Team::new(0, 1).unwrap();
                unsafe { m.run(&team, case.scratch, None) };
                let expected = result(&case);
                // Start at an odd element.
                let packed = |dense: Dense, storage: Storage| {
                    let numbers = unsafe { dense.at.read() };
                    let first = usize::from(!storage.is_f32());
                    let all = [&vec![0.0; first], numbers].concat();
                    let mut words = vec![0.0; all.len().div_ceil(storage.in_word() as usize)];
                    storage.pack(&all, &mut words);
                    (words, first)
                };
                let ends = [(m.a, factors), (m.b, factors), (m.out, results)];
                let mut memory = ends.map(|(dense, storage)| packed(dense, storage));
                let mut denses = ends.into_iter().zip(&mut memory);
                let mut next = || {
                    let ((dense, storage), (words, first)) = denses.next().unwrap();
                    let at = Span {
                        ptr: words.as_mut_ptr(),
                        len: words.len(),
                    };
                    Dense {
                        at,
                        first: *first,
                        storage,
                        ..dense
                    }
                };
                let (a, b, out) = (next(), next(), next());
                let halves = Multiply { a, b, out, ..*m };
                unsafe { halves.run(&team, case.scratch, None) };
                let (words, first) = &memory[2];
                let mut found = vec![0.0; first + expected.len()];
                results.unpack(words, &mut found);
                for (f, e) in found[*first..].iter().zip(&expected) {
                    let rounded = if results.is_f32() {
                        0.0
                    } else {
                        results.roundoff()
                    };
                    let most = (rounded * f64::from(e.abs())) as f32 + 2e-4;
                    assert!(
                        (f - e).abs() <= most,
                        "{product:?} {rows} {factors} {results}: {f} {e}"
                    );
                }
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for product in [Product::Nn, Product::Nt, Product::Tn] {
        let results: Vec<Vec<f32>> = [1, 2, 3]
            .into_iter()
            .map(|threads| {
                let case = case(product, 5000, 37, 24, 1);
                let team = Team::new(0, threads).unwrap();
                team.enter(|| unsafe { case.multiply.run(&team, case.scratch, None) });
                result(&case)
            })
            .collect();
        assert!(results.windows(2).all(|w| {
            w[0].iter()
                .zip(&w[1])
                .all(|(a, b)| a.to_bits() == b.to_bits())
        }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn products_are_sums(product in 0usize..3, rows in 0usize..1200, inner in 0usize..40, columns in 0usize..80, pad in 0usize..4) {
        check([Product::Nn, Product::Nt, Product::Tn][product], rows, inner, columns, pad);
    }

    #[test]
    fn rows_are_the_same_in_pieces(
        transposed: bool,
        rows in 1u64..150,
        inner in 1usize..700,
        columns in 1usize..140,
        cuts in prop::collection::vec(0u64..150, 0..5),
    ) {
        let product = if transposed { Product::Nt } else { Product::Nn };
        let case = case(product, rows as usize, inner, columns, 1);
        let team = Team::new(0, 1).unwrap();
        unsafe { case.multiply.run(&team, case.scratch, None) };
        let whole = result(&case);
        unsafe { case.multiply.out.at.write() }.fill(f32::NAN);
        let mut bounds: Vec<u64> = cuts.into_iter().map(|cut| cut % rows).collect();
        bounds.extend([0, rows]);
        bounds.sort_unstable();
        for pair in bounds.windows(2) {
            let some = case.multiply.within(&(pair[0]..pair[1]), [0; 3]);
            unsafe { some.run(&team, case.scratch, None) };
        }
        let stride = columns + 1;
        for (n, (a, b)) in whole.iter().zip(&result(&case)).enumerate() {
            if n % stride < columns {
                prop_assert_eq!(a.to_bits(), b.to_bits(), "row {} of {}", n / stride, rows);
            }
        }
    }
}
