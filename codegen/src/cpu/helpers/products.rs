//! Dot products and weighted sums of rows.
//!
//! Loops stand where closures would be shorter: a closure is compiled without the instructions of
//! the function around it.

use super::Rows;
use super::rows::View;
use super::wide::{LANES, Wide};

/// Most vectors whose sums stay in registers.
const TILE: usize = 8;

/// The first `lanes` floats of a vector of a neighbor's row, as they are seen.
#[inline(always)]
unsafe fn read<V: Wide, S: View>(row: *const f32, near: *const f32, slope: V, lanes: usize) -> V {
    // SAFETY: the caller has the floats in the row and, if they are read, in the own row.
    unsafe {
        let x = V::load_first(row, lanes);
        if S::NEAR {
            S::of(x, V::load_first(near, lanes), slope)
        } else {
            x
        }
    }
}

/// See [`super::Helpers::dots`].
#[inline(always)]
pub unsafe fn dots<V: Wide, S: View>(rows: &Rows, own: *const f32, numbers: *mut f32) {
    let (heads, width) = (rows.heads as usize, rows.width as usize);
    let near = rows.near;
    // SAFETY: the caller vouches for rows and numbers.
    unsafe {
        let slope = V::splat(rows.slope());
        match (heads, width) {
            (8, 8) => dots_of_eight::<V, S>(rows, own, numbers),
            (1, _) => {
                let count = rows.count as usize;
                let whole = count - count % 4;
                for edge in (0..whole).step_by(4) {
                    let mut theirs = [own; 4];
                    for i in 0..4 {
                        rows.prefetch(edge + i);
                        theirs[i] = rows.row(edge + i);
                    }
                    let of = Pairs {
                        own: [own; 4],
                        rows: theirs,
                        near: [near; 4],
                    };
                    of.dots::<V, S>(slope, width, numbers.add(edge));
                }
                for edge in whole..count {
                    rows.prefetch(edge);
                    let mut four = [0.0; 4];
                    let of = Pairs {
                        own: [own; 4],
                        rows: [rows.row(edge); 4],
                        near: [near; 4],
                    };
                    of.dots::<V, S>(slope, width, four.as_mut_ptr());
                    *numbers.add(edge) = four[0];
                }
            }
            _ => {
                for edge in 0..rows.count as usize {
                    rows.prefetch(edge);
                    let row = rows.row(edge);
                    let out = numbers.add(edge * rows.step as usize);
                    for head in (0..heads).step_by(4) {
                        let mut of = Pairs {
                            own: [own; 4],
                            rows: [row; 4],
                            near: [near; 4],
                        };
                        for i in 0..4 {
                            let at = (head + i).min(heads - 1) * width;
                            of.own[i] = own.add(at);
                            of.rows[i] = row.add(at);
                            of.near[i] = near.wrapping_add(at);
                        }
                        of.dots::<V, S>(slope, width, out.add(head));
                    }
                }
            }
        }
    }
}

/// Eight heads of eight columns: two heads share a vector.
#[inline(always)]
unsafe fn dots_of_eight<V: Wide, S: View>(rows: &Rows, own: *const f32, numbers: *mut f32) {
    // SAFETY: rows have four vectors; the caller vouches for the rest.
    unsafe {
        let slope = V::splat(rows.slope());
        let mut mine = [V::splat(0.0); 4];
        let mut near = mine;
        for v in 0..4 {
            mine[v] = V::load(own.add(v * LANES));
            if S::NEAR {
                near[v] = V::load(rows.near.add(v * LANES));
            }
        }
        for edge in 0..rows.count as usize {
            rows.prefetch(edge);
            let row = rows.row(edge);
            let mut products = mine;
            for v in 0..4 {
                let x = S::of(V::load(row.add(v * LANES)), near[v], slope);
                products[v] = x.mul(mine[v]);
            }
            V::store_half_sums(products, numbers.add(edge * rows.step as usize));
        }
    }
}

/// Four pairs of rows to multiply, and the own rows beside which the second ones are seen.
#[derive(Clone, Copy)]
struct Pairs {
    own: [*const f32; 4],
    rows: [*const f32; 4],
    near: [*const f32; 4],
}

impl Pairs {
    /// Four dot products.
    #[inline(always)]
    unsafe fn dots<V: Wide, S: View>(self, slope: V, width: usize, to: *mut f32) {
        // SAFETY: all have `width` floats, and there is room for four.
        unsafe {
            let mut sums = [V::splat(0.0); 4];
            for at in (0..width).step_by(LANES) {
                let lanes = (width - at).min(LANES);
                for i in 0..4 {
                    let (row, near) = (self.rows[i].add(at), self.near[i].wrapping_add(at));
                    let x = read::<V, S>(row, near, slope, lanes);
                    sums[i] = x.fma(V::load_first(self.own[i].add(at), lanes), sums[i]);
                }
            }
            V::store_sums(sums, to);
        }
    }
}

/// Where sums go.
#[derive(Clone, Copy)]
pub struct Total {
    /// The first column.
    pub sums: *mut f32,
    /// Whether they go on; otherwise they begin at 0.
    pub begun: bool,
}

impl Total {
    /// The first `lanes` sums from `column`.
    #[inline(always)]
    unsafe fn load<V: Wide>(self, column: usize, lanes: usize) -> V {
        // SAFETY: the caller vouches for the columns.
        unsafe {
            if self.begun {
                V::load_first(self.sums.add(column), lanes)
            } else {
                V::splat(0.0)
            }
        }
    }
}

/// See [`super::Helpers::sums`].
#[inline(always)]
pub unsafe fn sums<V: Wide, S: View>(rows: &Rows, numbers: *const f32, total: Total) {
    let (heads, width) = (rows.heads as usize, rows.width as usize);
    // SAFETY: the caller vouches for rows, numbers and sums.
    unsafe {
        if (heads, width) == (8, 8) {
            return sums_of_eight::<V, S>(rows, numbers, total);
        }
        // Heads of whole vectors are summed together, others one by one.
        let run = if width.is_multiple_of(LANES) {
            heads * width
        } else {
            width
        };
        for first in (0..heads * width).step_by(run) {
            let mut at = 0;
            while at < run {
                let part = Part {
                    numbers,
                    column: first + at,
                    columns: run - at,
                    total,
                };
                at += part.add::<V, S>(rows);
            }
        }
    }
}

/// Some columns of a row.
#[derive(Clone, Copy)]
struct Part {
    /// The numbers of the first edge.
    numbers: *const f32,
    /// The first column.
    column: usize,
    /// Columns from there on.
    columns: usize,
    /// The sums of all columns.
    total: Total,
}

impl Part {
    /// Adds as many of the columns of every row as registers hold; returns their number.
    #[inline(always)]
    unsafe fn add<V: Wide, S: View>(self, rows: &Rows) -> usize {
        // SAFETY: the caller vouches for the columns.
        unsafe {
            match self.columns.div_ceil(LANES) {
                0 | 1 => self.wide::<V, S, 1>(rows),
                2 => self.wide::<V, S, 2>(rows),
                3 => self.wide::<V, S, 3>(rows),
                4..TILE => self.wide::<V, S, 4>(rows),
                _ => self.wide::<V, S, TILE>(rows),
            }
        }
    }

    /// Adds `VECTORS` vectors of every row, the last of which may have fewer columns; returns the
    /// columns.
    #[inline(always)]
    unsafe fn wide<V: Wide, S: View, const VECTORS: usize>(self, rows: &Rows) -> usize {
        let columns = self.columns.min(VECTORS * LANES);
        let last = columns - (VECTORS - 1) * LANES;
        // SAFETY: rows have the columns; the caller vouches for the rest.
        unsafe {
            let slope = V::splat(rows.slope());
            let mut sums = [V::splat(0.0); VECTORS];
            let mut heads = [0; VECTORS];
            for v in 0..VECTORS {
                let lanes = if v + 1 == VECTORS { last } else { LANES };
                sums[v] = self.total.load::<V>(self.column + v * LANES, lanes);
                heads[v] = (self.column + v * LANES) / rows.width as usize;
            }
            let near = rows.near.wrapping_add(self.column);
            for edge in 0..rows.count as usize {
                if self.column == 0 {
                    rows.prefetch(edge);
                }
                let row = rows.row(edge).add(self.column);
                let numbers = self.numbers.add(edge * rows.step as usize);
                for v in 0..VECTORS {
                    let lanes = if v + 1 == VECTORS { last } else { LANES };
                    let near = near.wrapping_add(v * LANES);
                    let x = read::<V, S>(row.add(v * LANES), near, slope, lanes);
                    sums[v] = x.fma(V::splat(*numbers.add(heads[v])), sums[v]);
                }
            }
            for v in 0..VECTORS {
                let lanes = if v + 1 == VECTORS { last } else { LANES };
                sums[v].store_first(self.total.sums.add(self.column + v * LANES), lanes);
            }
        }
        columns
    }
}

/// Eight heads of eight columns: two heads share a vector.
#[inline(always)]
unsafe fn sums_of_eight<V: Wide, S: View>(rows: &Rows, numbers: *const f32, total: Total) {
    // SAFETY: rows have four vectors; the caller vouches for the rest.
    unsafe {
        let slope = V::splat(rows.slope());
        let mut acc = [V::splat(0.0); 4];
        let mut near = acc;
        for v in 0..4 {
            acc[v] = total.load::<V>(v * LANES, LANES);
            if S::NEAR {
                near[v] = V::load(rows.near.add(v * LANES));
            }
        }
        for edge in 0..rows.count as usize {
            rows.prefetch(edge);
            let row = rows.row(edge);
            let of = numbers.add(edge * rows.step as usize);
            for v in 0..4 {
                let number = V::pair(*of.add(2 * v), *of.add(2 * v + 1));
                let x = S::of(V::load(row.add(v * LANES)), near[v], slope);
                acc[v] = x.fma(number, acc[v]);
            }
        }
        for v in 0..4 {
            acc[v].store(total.sums.add(v * LANES));
        }
    }
}
