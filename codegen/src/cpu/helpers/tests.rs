//! Every instruction set computes the same bits, and what is meant.

use super::*;

/// Heads and widths: whole vectors, several heads in one, and columns that fill none.
const SHAPES: [(usize, usize); 12] = [
    (1, 4),
    (1, 7),
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

const SLOPE: f32 = 0.2;

/// The rows of random neighbors.
struct Sample {
    heads: usize,
    width: usize,
    seen: Seen,
    features: Vec<f32>,
    near: Vec<f32>,
    indices: Vec<u32>,
}

impl Sample {
    fn new(heads: usize, width: usize, seen: Seen) -> Self {
        Self {
            heads,
            width,
            seen,
            features: floats(VERTICES * heads * width, 3),
            near: floats(heads * width, 4),
            indices: (0..EDGES).map(|k| (k * 17 % VERTICES) as u32).collect(),
        }
    }

    fn columns(&self) -> usize {
        self.heads * self.width
    }

    /// All edges but the last three.
    fn rows(&self) -> Rows {
        Rows {
            start: self.features.as_ptr(),
            indices: self.indices.as_ptr(),
            count: EDGES as u64 - 3,
            known: EDGES as u64,
            stride: self.columns() as u64,
            heads: self.heads as u64,
            width: self.width as u64,
            step: padded(self.heads) as u64,
            seen: self.seen as u64,
            near: self.near.as_ptr(),
            slope: SLOPE.to_bits().into(),
        }
    }

    /// What is seen of an element of an edge's row.
    fn element(&self, edge: usize, column: usize) -> f64 {
        let x = self.features[self.indices[edge] as usize * self.columns() + column];
        let sum = x + self.near[column];
        let seen = match self.seen {
            Seen::Row => x,
            Seen::Leaky if sum > 0.0 => sum,
            Seen::Leaky => SLOPE * sum,
            Seen::Step if sum > 0.0 => 1.0,
            Seen::Step => SLOPE,
        };
        seen.into()
    }

    fn check(&self) {
        let (columns, step) = (self.columns(), padded(self.heads));
        let name = format!("{:?} {} x {}", self.seen, self.heads, self.width);
        let (rows, own, before) = (self.rows(), floats(columns, 5), floats(columns, 9));
        let weights = floats(EDGES * step + LANES, 7);
        let edges = 0..rows.count as usize;
        let mut found: Vec<[Vec<u32>; 2]> = Vec::new();
        for helpers in levels() {
            let mut numbers = vec![0.0; EDGES * step + LANES];
            let mut sums = before.clone();
            // SAFETY: all memory is as large as the rows say.
            unsafe {
                (helpers.dots)(&rows, own.as_ptr(), numbers.as_mut_ptr());
                let mut fresh = vec![f32::NAN; columns];
                (helpers.sums)(&rows, weights.as_ptr(), sums.as_mut_ptr(), 1);
                (helpers.sums)(&rows, weights.as_ptr(), fresh.as_mut_ptr(), 0);
                for (fresh, (sum, before)) in fresh.iter().zip(sums.iter().zip(&before)) {
                    assert!((fresh - (sum - before)).abs() < 1e-4, "{name}");
                }
            }
            for edge in edges.clone() {
                for head in 0..self.heads {
                    let columns = head * self.width..(head + 1) * self.width;
                    let dot: f64 = columns
                        .map(|c| f64::from(own[c]) * self.element(edge, c))
                        .sum();
                    let found = f64::from(numbers[edge * step + head]);
                    assert!((found - dot).abs() < 2e-5, "{name}: {found} {dot}");
                }
            }
            for column in 0..columns {
                let head = column / self.width;
                let term = |edge: usize| {
                    f64::from(weights[edge * step + head]) * self.element(edge, column)
                };
                let sum = edges.clone().map(term).sum::<f64>() + f64::from(before[column]);
                let found = f64::from(sums[column]);
                assert!((found - sum).abs() < 1e-4, "{name}: {found} {sum}");
            }
            // Padding holds whatever is convenient.
            let kept = (0..rows.count as usize * step).filter(|i| i % step < self.heads);
            let kept: Vec<f32> = kept.map(|i| numbers[i]).collect();
            found.push([bits(&kept), bits(&sums)]);
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{name}");
    }
}

#[test]
fn products_are_the_same_bits_everywhere() {
    for (heads, width) in SHAPES {
        for seen in [Seen::Row, Seen::Leaky, Seen::Step] {
            Sample::new(heads, width, seen).check();
        }
    }
}

#[test]
fn prefetching_reads_no_index_behind_the_known_ones() {
    let indices: Vec<u32> = (0..EDGES as u32).collect();
    let features = floats(VERTICES * 4, 3);
    let table = Table {
        start: features.as_ptr(),
        stride: 4,
        columns: 3,
    };
    for (count, known) in [(0, 0), (3, 3), (EDGES - 3, EDGES), (EDGES, EDGES)] {
        // Memory checkers see a read behind this copy.
        let indices = indices[..known].to_vec();
        let of = Fetch {
            indices: indices.as_ptr(),
            count: count as u64,
            known: known as u64,
            tables: &table,
            len: 1,
        };
        for helpers in levels() {
            // SAFETY: the indices and the table are as large as it says.
            unsafe { (helpers.fetch)(&of) };
        }
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
