//! Every instruction set computes the same bits, and what is meant.

use super::*;

/// Heads and widths: whole vectors, several heads in one, and columns that fill none.
const SHAPES: [(usize, usize); 10] = [
    (1, 8),
    (1, 40),
    (1, 64),
    (1, 602),
    (2, 16),
    (3, 5),
    (5, 7),
    (8, 8),
    (8, 16),
    (4, 33),
];
const VERTICES: usize = 50;
const EDGES: usize = 37;

fn floats(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn padded(heads: usize) -> usize {
    if heads == 1 {
        1
    } else {
        heads.next_multiple_of(4)
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Runs `body` with the rows of random neighbors.
fn with_rows(heads: usize, width: usize, body: impl Fn(&Rows, &[f32], &[u32])) {
    let features = floats(VERTICES * heads * width, 3);
    let indices: Vec<u32> = (0..EDGES).map(|k| (k * 17 % VERTICES) as u32).collect();
    let rows = Rows {
        start: features.as_ptr(),
        indices: indices.as_ptr(),
        count: EDGES as u64 - 3,
        known: EDGES as u64,
        stride: (heads * width) as u64,
        heads: heads as u64,
        width: width as u64,
        step: padded(heads) as u64,
    };
    body(&rows, &features, &indices);
}

#[test]
fn products_are_the_same_bits_everywhere() {
    for (heads, width) in SHAPES {
        with_rows(heads, width, |rows, features, indices| {
            let (columns, step) = (heads * width, padded(heads));
            let own = floats(columns, 5);
            let weights = floats(EDGES * step + LANES, 7);
            let mut found: Vec<[Vec<u32>; 2]> = Vec::new();
            for helpers in levels() {
                let mut numbers = vec![0.0; EDGES * step + LANES];
                let mut sums = floats(columns, 9);
                // SAFETY: all memory is as large as the rows say.
                unsafe {
                    (helpers.dots)(rows, own.as_ptr(), numbers.as_mut_ptr());
                    (helpers.sums)(rows, weights.as_ptr(), sums.as_mut_ptr());
                    (helpers.fetch)(rows);
                }
                let before = floats(columns, 9);
                for edge in 0..rows.count as usize {
                    let row = &features[indices[edge] as usize * columns..][..columns];
                    for head in 0..heads {
                        let columns = head * width..(head + 1) * width;
                        let dot: f64 = columns.map(|c| f64::from(own[c]) * f64::from(row[c])).sum();
                        let found = f64::from(numbers[edge * step + head]);
                        assert!(
                            (found - dot).abs() < 1e-5,
                            "{heads} x {width}: {found} {dot}"
                        );
                    }
                }
                for column in 0..columns {
                    let head = column / width;
                    let term = |edge: usize| {
                        let x = features[indices[edge] as usize * columns + column];
                        f64::from(weights[edge * step + head]) * f64::from(x)
                    };
                    let sum: f64 = (0..rows.count as usize).map(term).sum();
                    let sum = sum + f64::from(before[column]);
                    let found = f64::from(sums[column]);
                    assert!(
                        (found - sum).abs() < 1e-4,
                        "{heads} x {width}: {found} {sum}"
                    );
                }
                // Padding holds whatever is convenient.
                let kept = (0..rows.count as usize * step).filter(|i| i % step < heads);
                let kept: Vec<f32> = kept.map(|i| numbers[i]).collect();
                found.push([bits(&kept), bits(&sums)]);
            }
            assert!(
                found.windows(2).all(|pair| pair[0] == pair[1]),
                "{heads} x {width}"
            );
        });
    }
}

#[test]
fn exponentials_are_accurate_and_the_same_bits_everywhere() {
    let mut numbers: Vec<f32> = (-12_000..9_000).map(|n| n as f32 * 0.01).collect();
    numbers.extend([0.0, -0.0, 88.7, f32::NEG_INFINITY, 1e-30]);
    let results: Vec<Vec<f32>> = levels()
        .map(|helpers| {
            let mut found = numbers.clone();
            // SAFETY: the count is that of the numbers.
            unsafe { (helpers.exps)(found.as_mut_ptr(), found.len() as u64) };
            found
        })
        .collect();
    for (x, y) in numbers.iter().zip(&results[0]) {
        let exact = f64::from(*x).exp();
        let close = (f64::from(*y) - exact).abs() <= 2.5e-7 * exact + 1e-44;
        assert!(close || *x > 88.7, "exp({x}) is {y}, expected {exact}");
    }
    assert!(
        results
            .windows(2)
            .all(|pair| bits(&pair[0]) == bits(&pair[1]))
    );
    for helpers in levels() {
        let mut nan = [f32::NAN; 3];
        // SAFETY: there are three numbers.
        unsafe { (helpers.exps)(nan.as_mut_ptr(), 3) };
        assert!(nan.iter().all(|x| x.is_nan()));
    }
}

/// Two blocks of a row: the second one scales what came before.
#[test]
fn weights_of_blocks_are_those_of_the_row() {
    for step in [1, 4, 8, 12, 16] {
        let scores = floats(EDGES * step, 11);
        let mut found: Vec<Vec<u32>> = Vec::new();
        for helpers in levels() {
            let room = step.max(4);
            let mut state = vec![0.0; 4 * room];
            let mut weights = Vec::new();
            let mut scales = vec![1.0f64; step];
            let first = 10;
            for (from, to) in [(0, first), (first, EDGES)] {
                let mut part = scores[from * step..to * step].to_vec();
                part.extend([0.0; LANES]);
                let mut out = part.clone();
                let block = Scores {
                    scores: part.as_mut_ptr(),
                    weights: out.as_mut_ptr(),
                    state: state.as_mut_ptr(),
                    count: (to - from) as u64,
                    step: step as u64,
                    begun: u64::from(from > 0),
                };
                // SAFETY: both parts have room for a vector behind the edges.
                unsafe { (helpers.weigh)(&block) };
                if from > 0 {
                    scales = (0..step).map(|h| f64::from(state[2 * room + h])).collect();
                }
                weights.push(out[..(to - from) * step].to_vec());
            }
            for head in 0..step {
                let at = |edge: usize| f64::from(scores[edge * step + head]);
                let total: f64 = (0..EDGES).map(|edge| at(edge).exp()).sum();
                for edge in 0..EDGES {
                    let (part, place, scale) = match edge < first {
                        true => (0, edge, scales[head]),
                        false => (1, edge - first, 1.0),
                    };
                    let inverse = f64::from(state[3 * room + head]);
                    let found = f64::from(weights[part][place * step + head]) * scale * inverse;
                    assert!(
                        (found - at(edge).exp() / total).abs() < 1e-6,
                        "{step}: {edge}"
                    );
                }
            }
            found.push(bits(&[state, weights.concat()].concat()));
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{step}");
    }
}
