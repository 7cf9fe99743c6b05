//! Which layouts to mix: changes one at a time as long as that helps.

use crate::layout::Pure;
use gnnc_ir::plan::{Layout, Layouts, Placement};
use std::collections::BTreeMap;

/// Smaller is better; the first number that differs decides.
pub(super) type Cost = Vec<f64>;

/// The cost of layouts. `None` if no program has them, or if their cost is certainly not below the
/// given one.
pub(super) type Price<'a> = dyn Fn(&Layouts, Option<&Cost>) -> Result<Option<Cost>, String> + 'a;

/// Layouts to start from: all rows and all columns, with the features by rows and by columns. With
/// `features`, only those with that layout of the features.
pub(super) fn starts(pure: &Pure, features: Option<Layout>) -> Vec<Layouts> {
    let tensor = Layouts {
        features: Layout::Columns,
        ..pure.tensor.clone()
    };
    let mut starts: Vec<Layouts> = Vec::new();
    for start in [&pure.graph, &pure.tensor, &pure.push_pull, &tensor] {
        if features.is_none_or(|f| f == start.features) && !starts.contains(start) {
            starts.push(start.clone());
        }
    }
    starts
}

/// The cheapest layouts found from `starts` by changing one at a time as long as that helps. `None`
/// if no program has any of the starting layouts.
///
/// # Errors
/// The error of `price` for layouts that cannot be priced.
pub(super) fn best(starts: &[Layouts], price: &Price) -> Result<Option<Layouts>, String> {
    let mut known: BTreeMap<Layouts, Cost> = BTreeMap::new();
    let mut cost = |layouts: &Layouts, beat: Option<&Cost>| {
        if let Some(cost) = known.get(layouts) {
            return Ok(Some(cost.clone()));
        }
        let found = price(layouts, beat)?;
        if let Some(found) = &found {
            known.insert(layouts.clone(), found.clone());
        }
        Ok(found)
    };
    let mut best: Option<(Cost, Layouts)> = None;
    for start in starts {
        let found = climb(start.clone(), &mut cost)?;
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| less(&found.0, &best.0))
        {
            best = Some(found);
        }
    }
    Ok(best.map(|(_, layouts)| layouts))
}

/// A [`Price`] that remembers its results.
type Costs<'a> = dyn FnMut(&Layouts, Option<&Cost>) -> Result<Option<Cost>, String> + 'a;

/// The least cost reached by single changes, and its layouts. The features keep their layout.
fn climb(mut layouts: Layouts, cost: &mut Costs) -> Result<Option<(Cost, Layouts)>, String> {
    let Some(mut least) = cost(&layouts, None)? else {
        return Ok(None);
    };
    loop {
        let mut better = false;
        for n in 0..layouts.epoch.len() + layouts.eval.len() {
            flip(&mut layouts, n);
            match cost(&layouts, Some(&least))?.filter(|changed| less(changed, &least)) {
                Some(changed) => (least, better) = (changed, true),
                None => flip(&mut layouts, n),
            }
        }
        if !better {
            return Ok(Some((least, layouts)));
        }
    }
}

fn flip(layouts: &mut Layouts, n: usize) {
    let all = layouts.epoch.iter_mut().chain(&mut layouts.eval);
    for layout in all.skip(n).take(1) {
        *layout = match layout {
            Layout::Rows => Layout::Columns,
            Layout::Columns => Layout::Rows,
        };
    }
}

fn less(a: &[f64], b: &[f64]) -> bool {
    let differ = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    differ
        .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        .is_lt()
}

/// The pure placement that a mixture equals in an epoch, if any.
pub(super) fn same(pure: &Pure, layouts: &Layouts) -> Option<Placement> {
    let kinds = [
        (Placement::Graph, &pure.graph),
        (Placement::Tensor, &pure.tensor),
        (Placement::PushPull, &pure.push_pull),
    ];
    let same = |kind: &Layouts| kind.features == layouts.features && kind.epoch == layouts.epoch;
    let mut kinds = kinds.into_iter();
    kinds.find_map(|(placement, kind)| same(kind).then_some(placement))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Layout::{Columns, Rows};

    /// Only the first component reads nothing but features.
    fn pure(epoch: usize, eval: usize) -> Pure {
        let all = |layout| Layouts {
            features: Rows,
            epoch: vec![layout; epoch],
            eval: vec![layout; eval],
        };
        let mut push_pull = all(Rows);
        push_pull.features = Columns;
        push_pull
            .epoch
            .iter_mut()
            .take(1)
            .for_each(|l| *l = Columns);
        Pure {
            graph: all(Rows),
            tensor: all(Columns),
            push_pull,
        }
    }

    /// Number of layouts that are not as wanted.
    fn wrong(found: &Layouts, wanted: &Layouts) -> f64 {
        let list = |l: &Layouts| [&[l.features][..], &l.epoch, &l.eval].concat();
        let pairs = list(found).into_iter().zip(list(wanted));
        pairs.filter(|(a, b)| a != b).count() as f64
    }

    #[test]
    fn what_is_cheapest_each_by_itself_is_found() {
        for features in [Rows, Columns] {
            let wanted = Layouts {
                features,
                epoch: vec![Rows, Columns, Columns],
                eval: vec![Rows, Columns],
            };
            let tried = std::cell::Cell::new(0);
            let cost = |layouts: &Layouts, _: Option<&Cost>| {
                tried.set(tried.get() + 1);
                Ok(Some(vec![1.0, wrong(layouts, &wanted)]))
            };
            let found = best(&starts(&pure(3, 2), None), &cost).unwrap();
            assert_eq!(found, Some(wanted.clone()));
            assert!(tried.get() <= 48, "{} tries", tried.get());
            // Pinned layouts are kept.
            let pinned = starts(&pure(3, 2), Some(Columns));
            let found = best(&pinned, &cost).unwrap().unwrap();
            assert_eq!(found.features, Columns);
            assert_eq!(found.epoch, wanted.epoch);
        }
    }

    /// Changing adjacent layouts pays only for all of them together; starting from the other end
    /// finds that.
    #[test]
    fn both_ends_are_tried() {
        let of = |layouts: &Layouts, cheap: Layout| {
            let changes = layouts.epoch.windows(2).filter(|w| w[0] != w[1]).count();
            let dear = layouts.epoch.iter().filter(|l| **l != cheap).count();
            Ok(Some(vec![changes as f64 * 2.0 + dear as f64]))
        };
        let pure = pure(4, 0);
        for (cheap, placement) in [(Columns, Placement::Tensor), (Rows, Placement::Graph)] {
            let found = best(&starts(&pure, None), &|layouts, _| of(layouts, cheap));
            let found = found.unwrap().unwrap();
            assert_eq!(same(&pure, &found), Some(placement));
        }
    }

    /// Layouts without a program are skipped; if there are no others, there is no mixture.
    #[test]
    fn layouts_without_a_program_are_left_out() {
        let by_rows =
            |layouts: &Layouts, _: Option<&Cost>| Ok((layouts.features == Rows).then(|| vec![1.0]));
        let pure = pure(2, 0);
        let found = best(&starts(&pure, None), &by_rows).unwrap();
        assert_eq!(found, Some(pure.graph.clone()));
        assert_eq!(best(&starts(&pure, Some(Columns)), &by_rows), Ok(None));
    }

    #[test]
    fn nothing_to_choose_is_no_error() {
        let none = Pure::default();
        let found = best(&starts(&none, None), &|_, _| Ok(Some(vec![1.0])));
        assert_eq!(found, Ok(Some(Layouts::default())));
        let start = [pure(1, 0).graph];
        assert!(best(&start, &|_, _| Err("no".to_owned())).is_err());
    }
}
