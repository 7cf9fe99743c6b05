//! Which layouts to mix: found by changing one at a time as long as that helps.

use crate::layout::Layouts;
use gnnc_ir::plan::{Layout, Placement};
use std::collections::BTreeMap;

/// What is better is smaller: the first number that differs decides.
pub(super) type Cost = Vec<f64>;

/// The layouts of the least cost that are found from all rows and from all columns: one after the
/// other is changed as long as that helps. `counts` are the places of an epoch and of an evaluation.
///
/// # Errors
/// What `cost` says of layouts that cannot be priced.
pub(super) fn best(
    [epoch, eval]: [usize; 2],
    cost: &dyn Fn(&Layouts) -> Result<Cost, String>,
) -> Result<Layouts, String> {
    let split = |list: &[Layout]| Layouts {
        epoch: list[..epoch].to_vec(),
        eval: list[epoch..].to_vec(),
    };
    let mut known: BTreeMap<Vec<Layout>, Cost> = BTreeMap::new();
    let mut cost = |list: &[Layout]| -> Result<Cost, String> {
        if let Some(cost) = known.get(list) {
            return Ok(cost.clone());
        }
        let found = cost(&split(list))?;
        known.insert(list.to_vec(), found.clone());
        Ok(found)
    };
    let mut best: Option<(Cost, Vec<Layout>)> = None;
    for start in [Layout::Rows, Layout::Columns] {
        let found = climb(vec![start; epoch + eval], &mut cost)?;
        if best.as_ref().is_none_or(|best| less(&found.0, &best.0)) {
            best = Some(found);
        }
    }
    Ok(best.map(|(_, list)| split(&list)).unwrap_or_default())
}

fn climb(
    mut list: Vec<Layout>,
    cost: &mut dyn FnMut(&[Layout]) -> Result<Cost, String>,
) -> Result<(Cost, Vec<Layout>), String> {
    let mut least = cost(&list)?;
    loop {
        let mut better = false;
        for n in 0..list.len() {
            let before = list[n];
            list[n] = other(before);
            let changed = cost(&list)?;
            if less(&changed, &least) {
                (least, better) = (changed, true);
            } else {
                list[n] = before;
            }
        }
        if !better {
            return Ok((least, list));
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
        let cost = |layouts: &Layouts| {
            tried.set(tried.get() + 1);
            let all = layouts.epoch.iter().chain(&layouts.eval);
            let wrong = all.zip(wanted).filter(|(a, b)| **a != *b).count();
            Ok(vec![1.0, wrong as f64])
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
        let cost = |layouts: &Layouts| {
            let changes = layouts.epoch.windows(2).filter(|w| w[0] != w[1]).count();
            let rows = layouts.epoch.iter().filter(|l| **l == Rows).count();
            Ok(vec![changes as f64 * 2.0 + rows as f64])
        };
        let found = best([4, 0], &cost).unwrap();
        assert_eq!(pure(&found), Some(Placement::Tensor));
        let reversed = |layouts: &Layouts| {
            let flipped = layouts.epoch.iter().map(|l| other(*l)).collect();
            cost(&Layouts {
                epoch: flipped,
                eval: Vec::new(),
            })
        };
        assert_eq!(
            pure(&best([4, 0], &reversed).unwrap()),
            Some(Placement::Graph)
        );
    }

    #[test]
    fn nothing_to_choose_is_no_error() {
        assert_eq!(best([0, 0], &|_| Ok(vec![1.0])), Ok(Layouts::default()));
        assert!(best([1, 0], &|_| Err("no".to_owned())).is_err());
    }
}
