//! Programs that a search has made, and may want again.

use gnnc_ir::program::memory::positions;
use gnnc_ir::program::trace::Phase;
use gnnc_planner::LowerError;
use gnnc_planner::lower::Training;
use gnnc_planner::placement;
use gnnc_planner::search::{PlacementSpec, Programs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most instructions of the programs that are kept, about 50 MB; the last program is always kept. Layouts that are mixed
/// for one partition are mixed for the next one too, and the programs of one search over layouts stay below this.
const MOST: u64 = 100_000;

/// Programs that the first thread that wants them makes.
type Lowered = OnceLock<Result<Programs, LowerError>>;

/// Programs by candidate; the oldest are dropped if there are too many.
#[derive(Default)]
pub(super) struct KeptPrograms(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    programs: BTreeMap<PlacementSpec, Arc<Lowered>>,
    /// Those that are made, the oldest first, with their instructions.
    order: VecDeque<(PlacementSpec, u64)>,
    /// Instructions of all of them.
    instructions: u64,
}

impl KeptPrograms {
    /// The programs of a candidate, made of the graphs that it runs.
    ///
    /// # Errors
    /// The candidate has no graphs or no programs.
    pub(super) fn lowered<'a>(
        &self,
        spec: &PlacementSpec,
        training: impl FnOnce() -> Result<&'a Training, LowerError>,
    ) -> Result<Programs, LowerError> {
        // The program does not depend on the partitioner.
        let mut key = spec.clone();
        key.knobs.partitioner = None;
        self.get_or_make(key, || placement::lower(training()?, spec).map(Arc::new))
    }

    /// The programs of a candidate. A second thread that wants the same ones waits for the first.
    ///
    /// `make` must not give work to rayon. While a thread waits for such work, rayon may let it start another task, and
    /// if that task wants the programs that this thread is making, it waits forever.
    ///
    /// # Errors
    /// Those of `make`.
    fn get_or_make(
        &self,
        key: PlacementSpec,
        make: impl FnOnce() -> Result<Programs, LowerError>,
    ) -> Result<Programs, LowerError> {
        let known = Arc::clone(self.kept().programs.entry(key.clone()).or_default());
        let mut is_new = false;
        let made = known.get_or_init(|| {
            is_new = true;
            make()
        });
        if is_new {
            self.kept().add(key, made);
        }
        made.clone()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, key: PlacementSpec, made: &Result<Programs, LowerError>) {
        let instructions = made.as_ref().map_or(0, |programs| {
            let lists = programs
                .iter()
                .flat_map(|program| Phase::ALL.map(|phase| program.list(phase)));
            lists.map(|list| u64::from(positions(list))).sum()
        });
        self.order.push_back((key, instructions));
        self.instructions += instructions;
        while self.instructions > MOST
            && self.order.len() > 1
            && let Some((oldest, instructions)) = self.order.pop_front()
        {
            self.instructions -= instructions;
            self.programs.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::plan::Placement;
    use gnnc_ir::program::instr::AllReduce;
    use gnnc_ir::program::{Instr, Program};

    #[test]
    fn the_oldest_programs_are_dropped() {
        let large = || {
            let one = Instr::AllReduce(AllReduce::whole(Vec::new()));
            let step = vec![one; MOST as usize / 2];
            let program = Program {
                step,
                ..Program::default()
            };
            Ok(Arc::new(vec![program]))
        };
        let kept = KeptPrograms::default();
        let made = std::cell::Cell::new(0);
        let get = |ranks: u32| {
            let before = made.get();
            let key = PlacementSpec::new(Placement::Graph, ranks);
            let make = || {
                made.set(made.get() + 1);
                large()
            };
            assert!(kept.get_or_make(key, make).is_ok());
            made.get() > before
        };
        let is_made: Vec<bool> = [1, 2, 1, 2, 3, 2, 3, 1].into_iter().map(get).collect();
        let [t, f] = [true, false];
        assert_eq!(is_made, [t, t, f, f, t, f, f, t]);
    }

    #[test]
    fn errors_are_kept_as_well() {
        let kept = KeptPrograms::default();
        let key = PlacementSpec::new(Placement::Graph, 2);
        let refused = || Err(LowerError::Illegal("no".to_owned()));
        let first = kept.get_or_make(key.clone(), refused);
        let second = kept.get_or_make(key, || Ok(Programs::default()));
        assert_eq!(first, second);
        assert!(second.is_err());
    }
}
