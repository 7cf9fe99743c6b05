//! Memory that buffers share: the stretches of memory that are taken, and when.

/// Buffers that lie side by side or share memory because they are live at different times.
#[derive(Default)]
pub(super) struct Shelves {
    /// Sorted by their memory.
    all: Vec<Shelf>,
}

/// A stretch of memory that one or several buffers take, one after another.
struct Shelf {
    /// First float.
    begin: u64,
    /// One past the last float.
    end: u64,
    /// The first and the last position at which any buffer on it is live.
    hull: (u32, u32),
    /// First and last positions at which a buffer on it is live. They are sorted and do not
    /// overlap, since all buffers on a shelf take the same memory.
    taken: Vec<(u32, u32)>,
}

impl Shelf {
    /// Whether it is taken at one of the positions between a first and a last one.
    fn is_taken(&self, (first, last): (u32, u32)) -> bool {
        if last < self.hull.0 || self.hull.1 < first {
            return false;
        }
        let after = self.taken.partition_point(|taken| taken.0 <= last);
        self.taken[..after]
            .last()
            .is_some_and(|taken| taken.1 >= first)
    }
}

impl Shelves {
    /// The lowest offset at which a buffer meets no other buffer.
    ///
    /// `life` has the first and last positions of each stretch of time in which the buffer is
    /// live.
    pub(super) fn lowest(&self, floats: u64, life: &[Option<(u32, u32)>]) -> u64 {
        let mut offset = 0u64;
        for shelf in &self.all {
            if offset.saturating_add(floats) <= shelf.begin {
                break;
            }
            if shelf.end > offset
                && life
                    .iter()
                    .flatten()
                    .any(|stretch| shelf.is_taken(*stretch))
            {
                offset = shelf.end;
            }
        }
        offset
    }

    /// Takes memory for a buffer.
    pub(super) fn take(&mut self, begin: u64, end: u64, life: &[Option<(u32, u32)>]) {
        let key = (begin, end);
        let found = (self.all).binary_search_by_key(&key, |shelf| (shelf.begin, shelf.end));
        let at = found.unwrap_or_else(|at| {
            let (hull, taken) = ((u32::MAX, 0), Vec::new());
            self.all.insert(
                at,
                Shelf {
                    begin,
                    end,
                    hull,
                    taken,
                },
            );
            at
        });
        let Shelf { hull, taken, .. } = &mut self.all[at];
        for stretch in life.iter().flatten() {
            *hull = (hull.0.min(stretch.0), hull.1.max(stretch.1));
            let at = taken.partition_point(|other| other.0 < stretch.0);
            taken.insert(at, *stretch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Life = [Option<(u32, u32)>; 2];

    /// Sizes and lives of buffers: each is live in up to two stretches of time.
    fn buffers() -> impl Strategy<Value = Vec<(u64, Life)>> {
        let stretch = |from: u32| {
            let some = (from..from + 20, 0..12u32);
            prop::option::of(some.prop_map(|(first, length)| (first, first + length)))
        };
        let one = (1..5u64, stretch(0), stretch(40));
        let one = one.prop_map(|(floats, a, b)| (floats, [a, b]));
        prop::collection::vec(one, 0..40)
    }

    proptest! {
        /// Each buffer gets the lowest offset at which it meets none of the others, looked at one by one.
        #[test]
        fn the_lowest_free_offset_is_found(buffers in buffers()) {
            let mut shelves = Shelves::default();
            let mut placed: Vec<(u64, u64, Life)> = Vec::new();
            for (floats, life) in buffers {
                let offset = shelves.lowest(floats, &life);
                let is_free = |offset: u64| placed.iter().all(|(begin, end, other)| {
                    let apart = offset + floats <= *begin || *end <= offset;
                    let pairs = life.iter().flatten().flat_map(|a| other.iter().flatten().map(move |b| (a, b)));
                    apart || pairs.into_iter().all(|(a, b)| a.1 < b.0 || b.1 < a.0)
                });
                prop_assert!(is_free(offset));
                prop_assert!((0..offset).all(|lower| !is_free(lower)));
                shelves.take(offset, offset + floats, &life);
                placed.push((offset, offset + floats, life));
            }
        }
    }
}
