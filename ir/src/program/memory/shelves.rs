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
    /// The float behind the last one.
    end: u64,
    /// First and last positions at which a buffer on it is live. They are sorted and do not
    /// overlap, since all buffers on a shelf take the same memory.
    taken: Vec<(u32, u32)>,
}

impl Shelf {
    /// Whether it is taken at one of the positions between a first and a last one.
    fn is_taken(&self, (first, last): (u32, u32)) -> bool {
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
            let taken = Vec::new();
            self.all.insert(at, Shelf { begin, end, taken });
            at
        });
        let taken = &mut self.all[at].taken;
        for stretch in life.iter().flatten() {
            let at = taken.partition_point(|other| other.0 < stretch.0);
            taken.insert(at, *stretch);
        }
    }
}
