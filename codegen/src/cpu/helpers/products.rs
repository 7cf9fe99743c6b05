//! Dot products and weighted sums of rows.
//!
//! Loops stand where closures would be shorter: a closure is compiled without the instructions of
//! the function around it.

use super::Rows;
use super::wide::{LANES, Wide};

/// Most vectors whose sums stay in registers.
const TILE: usize = 8;

/// See [`super::Helpers::dots`].
#[inline(always)]
pub unsafe fn dots<V: Wide>(rows: &Rows, own: *const f32, numbers: *mut f32) {
    let (heads, width) = (rows.heads as usize, rows.width as usize);
    // SAFETY: the caller vouches for rows and numbers.
    unsafe {
        match (heads, width) {
            (8, 8) => dots_of_eight::<V>(rows, own, numbers),
            (1, _) => {
                let count = rows.count as usize;
                let whole = count - count % 4;
                for edge in (0..whole).step_by(4) {
                    let mut theirs = [own; 4];
                    for i in 0..4 {
                        rows.prefetch(edge + i);
                        theirs[i] = rows.row(edge + i);
                    }
                    four_dots::<V>([own; 4], theirs, width, numbers.add(edge));
                }
                for edge in whole..count {
                    rows.prefetch(edge);
                    let row = rows.row(edge);
                    let mut four = [0.0; 4];
                    four_dots::<V>([own; 4], [row; 4], width, four.as_mut_ptr());
                    *numbers.add(edge) = four[0];
                }
            }
            _ => {
                for edge in 0..rows.count as usize {
                    rows.prefetch(edge);
                    let row = rows.row(edge);
                    let out = numbers.add(edge * rows.step as usize);
                    for head in (0..heads).step_by(4) {
                        let (mut mine, mut theirs) = ([own; 4], [row; 4]);
                        for i in 0..4 {
                            let at = (head + i).min(heads - 1) * width;
                            (mine[i], theirs[i]) = (own.add(at), row.add(at));
                        }
                        four_dots::<V>(mine, theirs, width, out.add(head));
                    }
                }
            }
        }
    }
}

/// Eight heads of eight columns: two heads share a vector.
#[inline(always)]
unsafe fn dots_of_eight<V: Wide>(rows: &Rows, own: *const f32, numbers: *mut f32) {
    // SAFETY: rows have four vectors; the caller vouches for the rest.
    unsafe {
        let mut mine = [V::splat(0.0); 4];
        for v in 0..4 {
            mine[v] = V::load(own.add(v * LANES));
        }
        for edge in 0..rows.count as usize {
            rows.prefetch(edge);
            let row = rows.row(edge);
            let mut products = mine;
            for v in 0..4 {
                products[v] = V::load(row.add(v * LANES)).mul(mine[v]);
            }
            V::store_half_sums(products, numbers.add(edge * rows.step as usize));
        }
    }
}

/// Four dot products.
#[inline(always)]
unsafe fn four_dots<V: Wide>(a: [*const f32; 4], b: [*const f32; 4], width: usize, to: *mut f32) {
    // SAFETY: all have `width` floats, and there is room for four.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        let mut at = 0;
        while at + LANES <= width {
            for i in 0..4 {
                let (x, y) = (V::load(a[i].add(at)), V::load(b[i].add(at)));
                sums[i] = x.fma(y, sums[i]);
            }
            at += LANES;
        }
        V::store_sums(sums, to);
        while at < width {
            for i in 0..4 {
                *to.add(i) = (*a[i].add(at)).mul_add(*b[i].add(at), *to.add(i));
            }
            at += 1;
        }
    }
}

/// See [`super::Helpers::sums`].
#[inline(always)]
pub unsafe fn sums<V: Wide>(rows: &Rows, numbers: *const f32, sums: *mut f32) {
    let (heads, width) = (rows.heads as usize, rows.width as usize);
    // SAFETY: the caller vouches for rows, numbers and sums.
    unsafe {
        if (heads, width) == (8, 8) {
            return sums_of_eight::<V>(rows, numbers, sums);
        }
        let part = |column: usize| Part {
            numbers,
            column,
            sums: sums.add(column),
        };
        if width.is_multiple_of(LANES) {
            let (mut column, columns) = (0, heads * width);
            while column < columns {
                column += part(column).vectors::<V>(rows, (columns - column) / LANES);
            }
            return;
        }
        for head in 0..heads {
            let mut at = 0;
            while at < width {
                let part = part(head * width + at);
                at += match (width - at) / LANES {
                    0 => part.narrow(rows, width - at),
                    vectors => part.vectors::<V>(rows, vectors),
                };
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
    /// Its sum.
    sums: *mut f32,
}

impl Part {
    /// Adds as many of the next `vectors` vectors of every row as registers hold; returns their
    /// columns.
    #[inline(always)]
    unsafe fn vectors<V: Wide>(self, rows: &Rows, vectors: usize) -> usize {
        // SAFETY: the caller vouches for the columns.
        unsafe {
            match vectors {
                0 => 0,
                1 => self.wide::<V, 1>(rows),
                2 | 3 => self.wide::<V, 2>(rows),
                4..TILE => self.wide::<V, 4>(rows),
                _ => self.wide::<V, TILE>(rows),
            }
        }
    }

    /// Adds `VECTORS` vectors of every row; returns their columns.
    #[inline(always)]
    unsafe fn wide<V: Wide, const VECTORS: usize>(self, rows: &Rows) -> usize {
        // SAFETY: rows have the columns; the caller vouches for the rest.
        unsafe {
            let mut sums = [V::splat(0.0); VECTORS];
            let mut heads = [0; VECTORS];
            for v in 0..VECTORS {
                sums[v] = V::load(self.sums.add(v * LANES));
                heads[v] = (self.column + v * LANES) / rows.width as usize;
            }
            for edge in 0..rows.count as usize {
                if self.column == 0 {
                    rows.prefetch(edge);
                }
                let row = rows.row(edge).add(self.column);
                let numbers = self.numbers.add(edge * rows.step as usize);
                for v in 0..VECTORS {
                    let number = V::splat(*numbers.add(heads[v]));
                    sums[v] = V::load(row.add(v * LANES)).fma(number, sums[v]);
                }
            }
            for v in 0..VECTORS {
                sums[v].store(self.sums.add(v * LANES));
            }
        }
        VECTORS * LANES
    }

    /// The same for the last columns, which fill no vector.
    #[inline(always)]
    unsafe fn narrow(self, rows: &Rows, columns: usize) -> usize {
        // SAFETY: rows have the columns; the caller vouches for the rest.
        unsafe {
            match columns {
                8.. => self.some::<8>(rows),
                4.. => self.some::<4>(rows),
                2.. => self.some::<2>(rows),
                _ => self.some::<1>(rows),
            }
        }
    }

    #[inline(always)]
    unsafe fn some<const COLUMNS: usize>(self, rows: &Rows) -> usize {
        // SAFETY: rows have the columns; the caller vouches for the rest.
        unsafe {
            let place = self.sums.cast::<[f32; COLUMNS]>();
            let mut sums = place.read_unaligned();
            let head = self.column / rows.width as usize;
            for edge in 0..rows.count as usize {
                if self.column == 0 {
                    rows.prefetch(edge);
                }
                let row = rows.row(edge).add(self.column).cast::<[f32; COLUMNS]>();
                let row = row.read_unaligned();
                let number = *self.numbers.add(edge * rows.step as usize + head);
                for column in 0..COLUMNS {
                    sums[column] = number.mul_add(row[column], sums[column]);
                }
            }
            place.write_unaligned(sums);
        }
        COLUMNS
    }
}

/// Eight heads of eight columns: two heads share a vector.
#[inline(always)]
unsafe fn sums_of_eight<V: Wide>(rows: &Rows, numbers: *const f32, sums: *mut f32) {
    // SAFETY: rows have four vectors; the caller vouches for the rest.
    unsafe {
        let mut acc = [V::splat(0.0); 4];
        for v in 0..4 {
            acc[v] = V::load(sums.add(v * LANES));
        }
        for edge in 0..rows.count as usize {
            rows.prefetch(edge);
            let row = rows.row(edge);
            let of = numbers.add(edge * rows.step as usize);
            for v in 0..4 {
                let number = V::pair(*of.add(2 * v), *of.add(2 * v + 1));
                acc[v] = V::load(row.add(v * LANES)).fma(number, acc[v]);
            }
        }
        for v in 0..4 {
            acc[v].store(sums.add(v * LANES));
        }
    }
}
