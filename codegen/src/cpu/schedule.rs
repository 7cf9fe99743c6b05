//! Schedules: how a row's columns are cut into windows of vectors.

/// Lanes of a vector.
pub const LANES: u32 = 4;

/// One vector: the head and column of each of its 1 to 4 lanes, relative to its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes(pub Vec<(u32, u32)>);

/// Vectors held in registers at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The vectors.
    pub vectors: Vec<Lanes>,
}

/// A step over the columns of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// One window.
    Once(Window),
    /// A loop over columns: iteration `i` starts `i * step` columns further on.
    Columns {
        /// Iterations, at least 1.
        count: u32,
        /// Columns per iteration.
        step: u32,
        /// The window of iteration 0.
        window: Window,
    },
    /// A loop over heads: iteration `i` starts `i * step` heads further on.
    Heads {
        /// Iterations, at least 1.
        count: u32,
        /// Heads per iteration.
        step: u32,
        /// Passes of one iteration.
        inner: Vec<Pass>,
    },
}

/// Most iterations of a loop that is unrolled.
const WRITTEN_OUT: u32 = 2;

impl Window {
    fn shifted(&self, columns: u32) -> Self {
        let shift = |lanes: &Lanes| Lanes(lanes.0.iter().map(|&(h, c)| (h, c + columns)).collect());
        Self {
            vectors: self.vectors.iter().map(shift).collect(),
        }
    }
}

impl Lanes {
    /// Consecutive lanes of one head from `column`.
    pub fn run(head: u32, column: u32, lanes: u32) -> Self {
        Self((column..column + lanes).map(|c| (head, c)).collect())
    }

    /// Number of lanes in use.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Offset of each lane for an operand with these steps.
    pub fn offsets(&self, head_step: u32, column_step: u32) -> Vec<u32> {
        self.0
            .iter()
            .map(|&(h, c)| h * head_step + c * column_step)
            .collect()
    }
}

/// Cuts `heads x width` columns into windows of at most `tile` vectors. Every column is in exactly
/// one lane, in ascending order.
pub fn passes(heads: u32, width: u32, tile: u32) -> Vec<Pass> {
    if heads == 1 {
        return columns(width, tile, 0);
    }
    let group = (tile * LANES / width).min(heads);
    if group <= 1 {
        let inner = columns(width, tile, 0);
        return vec![Pass::Heads {
            count: heads,
            step: 1,
            inner,
        }];
    }
    let (count, rest) = (heads / group, heads % group);
    let mut passes = Vec::new();
    if count <= WRITTEN_OUT {
        passes.extend((0..count).map(|i| Pass::Once(across(i * group, group, width))));
    } else {
        let inner = vec![Pass::Once(across(0, group, width))];
        passes.push(Pass::Heads {
            count,
            step: group,
            inner,
        });
    }
    if rest > 0 {
        passes.push(Pass::Once(across(count * group, rest, width)));
    }
    passes
}

/// The same passes, with the first window of every sequence peeled off its loop.
pub fn peel(passes: Vec<Pass>) -> Vec<Pass> {
    let mut peeled = Vec::new();
    for (i, pass) in passes.into_iter().enumerate() {
        match pass {
            Pass::Columns {
                count,
                step,
                window,
            } if i == 0 && count > 1 => {
                let next = window.shifted(step);
                peeled.push(Pass::Once(window));
                peeled.push(Pass::Columns {
                    count: count - 1,
                    step,
                    window: next,
                });
            }
            Pass::Heads { count, step, inner } => {
                peeled.push(Pass::Heads {
                    count,
                    step,
                    inner: peel(inner),
                });
            }
            pass => peeled.push(pass),
        }
    }
    peeled
}

/// Whole heads side by side, four columns to a vector.
fn across(first_head: u32, heads: u32, width: u32) -> Window {
    let flat: Vec<(u32, u32)> = (0..heads * width)
        .map(|j| (first_head + j / width, j % width))
        .collect();
    Window {
        vectors: flat
            .chunks(LANES as usize)
            .map(|lanes| Lanes(lanes.to_vec()))
            .collect(),
    }
}

/// The columns of one head in windows of about equal size.
fn columns(width: u32, tile: u32, first: u32) -> Vec<Pass> {
    let vectors = width.div_ceil(LANES);
    let windows = vectors.div_ceil(tile);
    let size = vectors.div_ceil(windows);
    let step = size * LANES;
    let window = |from: u32, to: u32| Window {
        vectors: (from..to)
            .step_by(LANES as usize)
            .map(|c| Lanes::run(0, c, LANES.min(to - c)))
            .collect(),
    };
    let full = width / step;
    let mut passes = Vec::new();
    if full <= WRITTEN_OUT {
        passes.extend(
            (0..full).map(|i| Pass::Once(window(first + i * step, first + (i + 1) * step))),
        );
    } else {
        passes.push(Pass::Columns {
            count: full,
            step,
            window: window(first, first + step),
        });
    }
    if full * step < width {
        passes.push(Pass::Once(window(first + full * step, first + width)));
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(passes: &[Pass], head: u32, column: u32, seen: &mut Vec<(u32, u32)>) {
        for pass in passes {
            match pass {
                Pass::Once(window) => visit_window(window, head, column, seen),
                Pass::Columns {
                    count,
                    step,
                    window,
                } => {
                    (0..*count).for_each(|i| visit_window(window, head, column + i * step, seen));
                }
                Pass::Heads { count, step, inner } => {
                    (0..*count).for_each(|i| visit(inner, head + i * step, column, seen));
                }
            }
        }
    }

    fn visit_window(window: &Window, head: u32, column: u32, seen: &mut Vec<(u32, u32)>) {
        assert!(!window.vectors.is_empty());
        for lanes in &window.vectors {
            assert!((1..=4).contains(&lanes.len()));
            seen.extend(lanes.0.iter().map(|&(h, c)| (h + head, c + column)));
        }
    }

    #[test]
    fn every_column_is_in_one_lane_in_order() {
        for tile in [1, 2, 4, 8] {
            for (heads, width) in [
                (1, 1),
                (1, 7),
                (1, 64),
                (1, 602),
                (8, 8),
                (3, 5),
                (2, 41),
                (8, 1),
                (5, 3),
                (40, 8),
                (7, 130),
            ] {
                let mut seen = Vec::new();
                visit(&passes(heads, width, tile), 0, 0, &mut seen);
                let all: Vec<_> = (0..heads)
                    .flat_map(|h| (0..width).map(move |c| (h, c)))
                    .collect();
                assert_eq!(seen, all, "{heads} x {width}, tile {tile}");
                seen.clear();
                visit(&peel(passes(heads, width, tile)), 0, 0, &mut seen);
                assert_eq!(seen, all, "{heads} x {width}, tile {tile}, peeled");
            }
        }
    }
}
