//! Which layouts to mix: found by changing one at a time as long as that helps.

use crate::layout::Layouts;
use gnnc_ir::plan::{Layout, Placement};
use std::collections::BTreeMap;

/// What is better is smaller: the first number that differs decides.
pub(super) type Cost = Vec<f64>;

/// The cost of layouts; none if it is certainly not less than the cost given, if one is.
pub(super) type Price<'a> = dyn Fn(&Layouts, Option<&Cost>) -> Result<Option<Cost>, String> + 'a;

/// The layouts of the least cost that are found from all rows and from all columns: one after the
/// other is changed as long as that helps. `counts` are the places of an epoch and of an evaluation.
///
/// # Errors
/// What `price` says of layouts that cannot be priced.
pub(super) fn best([epoch, eval]: [usize; 2], price: &Price) -> Result<Layouts, String> {
    let split = |list: &[Layout]| Layouts {
        epoch: list[..epoch].to_vec(),
        eval: list[epoch..].to_vec(),
    };
    let mut known: BTreeMap<Vec<Layout>, Cost> = BTreeMap::new();
    let mut cost = |list: &[Layout], beat: Option<&Cost>| {
        if let Some(cost) = known.get(list) {
            return Ok(Some(cost.clone()));
        }
        let found = price(&split(list), beat)?;
        if let Some(found) = &found {
            known.insert(list.to_vec(), found.clone());
        }
        Ok(found)
    };
    let mut best: Option<(Cost, Vec<Layout>)> = None;
    for start in [Layout::Rows, Layout::Columns] {
        let found = climb(vec![start; epoch + eval], &mut cost)?;
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| less(&found.0, &best.0))
        {
            best = Some(found);
        }
    }
    Ok(best.map(|(_, list)| split(&list)).unwrap_or_default())
}

/// As [`Price`], of epoch and evaluation in one list, with a memory.
type Costs<'a> = dyn FnMut(&[Layout], Option<&Cost>) -> Result<Option<Cost>, String> + 'a;

/// The least cost that single changes lead to, and the layouts.
fn climb(mut list: Vec<Layout>, cost: &mut Costs) -> Result<Option<(Cost, Vec<Layout>)>, String> {
    let Some(mut least) = cost(&list, None)? else {
        return Ok(None);
    };
    loop {
        let mut better = false;
        for n in 0..list.len() {
            let before = list[n];
            list[n] = other(before);
            match cost(&list, Some(&least))?.filter(|changed| less(changed, &least)) {
                Some(changed) => (least, better) = (changed, true),
                None => list[n] = before,
            }
        }
        if !better {
            return Ok(Some((least, list)));
        }
    }
}

fn other(layout: Layout) -> Layout {
    match layout {
        Layout::Rows => Layout::Columns,
        Layout::Columns => Layout::Rows,
    }
}

fn less(a: &[f64], b: &[f64]) -> bool {
    let differ = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    differ
        .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        .is_lt()
}

/// The placement that a mixture is the same as, if an epoch has only one layout.
pub(super) fn pure(layouts: &Layouts) -> Option<Placement> {
    let all = |layout| layouts.epoch.iter().all(|l| *l == layout);
    if all(Layout::Rows) {
        Some(Placement::Graph)
    } else {
        all(Layout::Columns).then_some(Placement::Tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Layout::{Columns, Rows};

    #[test]
    fn what_is_cheapest_each_by_itself_is_found() {
        let wanted = [Rows, Columns, Columns, Rows, Columns];
        let tried = std::cell::Cell::new(0);
        let cost = |layouts: &Layouts, _: Option<&Cost>| {
            tried.set(tried.get() + 1);
            let all = layouts.epoch.iter().chain(&layouts.eval);
            let wrong = all.zip(wanted).filter(|(a, b)| **a != *b).count();
            Ok(Some(vec![1.0, wrong as f64]))
        };
        let found = best([3, 2], &cost).unwrap();
        assert_eq!(
            (found.epoch, found.eval),
            (wanted[..3].to_vec(), wanted[3..].to_vec())
        );
        assert!(tried.get() <= 24, "{} tries", tried.get());
    }

    /// Neighbours that share a tensor pay only together: found from the other end.
    #[test]
    fn both_ends_are_tried() {
        let cost = |layouts: &Layouts, _: Option<&Cost>| {
            let changes = layouts.epoch.windows(2).filter(|w| w[0] != w[1]).count();
            let rows = layouts.epoch.iter().filter(|l| **l == Rows).count();
            Ok(Some(vec![changes as f64 * 2.0 + rows as f64]))
        };
        let found = best([4, 0], &cost).unwrap();
        assert_eq!(pure(&found), Some(Placement::Tensor));
        let reversed = |layouts: &Layouts, _: Option<&Cost>| {
            let flipped = layouts.epoch.iter().map(|l| other(*l)).collect();
            let flipped = Layouts {
                epoch: flipped,
                eval: Vec::new(),
            };
            cost(&flipped, None)
        };
        assert_eq!(
            pure(&best([4, 0], &reversed).unwrap()),
            Some(Placement::Graph)
        );
    }

    #[test]
    fn nothing_to_choose_is_no_error() {
        assert_eq!(
            best([0, 0], &|_, _| Ok(Some(vec![1.0]))),
            Ok(Layouts::default())
        );
        assert!(best([1, 0], &|_, _| Err("no".to_owned())).is_err());
    }
}
