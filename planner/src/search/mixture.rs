//! Which layouts to mix: changes as long as they help, of all components that are alike, then one at a time if there are
//! not too many.

use crate::layout::Pure;
use gnnc_ir::plan::{Layout, Layouts, Placement};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Smaller is better; the first number that differs decides.
pub(super) type Cost = Vec<f64>;

/// The cost of layouts. `None` if no program has them, or if their cost is certainly not below the
/// given one.
pub(super) type Price<'a> = dyn Fn(&Layouts, Option<&Cost>) -> Result<Option<Cost>, String> + 'a;

/// A search prices at most `COMPONENTS` over the model's components layouts, within these bounds. So it takes about as
/// long for any model.
const COMPONENTS: usize = 6000;
/// Fewest layouts that a search may price.
const LEAST: usize = 48;
/// Most layouts that a search may price.
const MOST: usize = 192;

/// Which layouts a search changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Those of all components that are alike together.
    Together,
    /// Then single ones too, if each of them can be tried.
    Singly,
}

/// How many layouts the search of a model with so many components may price.
fn most(components: usize) -> usize {
    (COMPONENTS / components.max(1)).clamp(LEAST, MOST)
}

/// Whether a model has too many components to change single layouts.
pub(super) fn has_many(components: usize) -> bool {
    components > most(components)
}

/// What a reason says of a search that ended there.
pub(super) const ENDED: &str = "; the search did not try all layouts";

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

/// The layouts that a search found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) layouts: Layouts,
    /// Whether the search ended before it had tried all changes.
    pub(super) ended: bool,
}

/// The cheapest layouts found from `starts` by changes that help: first of all components that are `alike`
/// together, from each start, then of single ones, if `changes` says so and each of them can be tried. `None` if no program
/// has any of the starting layouts.
///
/// # Errors
/// The error of `price` for layouts that cannot be priced.
pub(super) fn best(
    starts: &[Layouts],
    alike: &[usize],
    changes: Changes,
    price: &Price,
) -> Result<Option<Found>, String> {
    let mut known: BTreeMap<Layouts, Cost> = BTreeMap::new();
    let most = most(alike.len());
    let tried = Cell::new(0);
    let mut cost = |layouts: &Layouts, beat: Option<&Cost>| {
        if let Some(cost) = known.get(layouts) {
            return Ok(Tried::Cost(cost.clone()));
        }
        if tried.get() == most {
            return Ok(Tried::TooMany);
        }
        tried.set(tried.get() + 1);
        Ok::<_, String>(match price(layouts, beat)? {
            Some(found) => {
                known.insert(layouts.clone(), found.clone());
                Tried::Cost(found)
            }
            None => Tried::NotBetter,
        })
    };
    let mut together: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (n, kind) in alike.iter().enumerate() {
        together.entry(*kind).or_default().push(n);
    }
    let together: Vec<Vec<usize>> = together.into_values().collect();
    let singly: Vec<Vec<usize>> = (0..alike.len()).map(|n| vec![n]).collect();
    let mut reached: Vec<(Cost, Layouts)> = Vec::new();
    let mut ended = false;
    for start in starts {
        if let Tried::Cost(first) = cost(start, None)? {
            let mut at = (first, start.clone());
            ended |= climb(&mut at, &together, &mut cost)?;
            reached.push(at);
        }
    }
    reached.sort_by(|a, b| order(&a.0, &b.0));
    let too_many = changes == Changes::Together || singly.len() > most - tried.get();
    if singly.len() > together.len() && too_many {
        ended = true;
    } else if singly.len() > together.len() {
        for at in &mut reached {
            ended |= climb(at, &singly, &mut cost)?;
        }
        reached.sort_by(|a, b| order(&a.0, &b.0));
    }
    Ok(reached
        .into_iter()
        .next()
        .map(|(_, layouts)| Found { layouts, ended }))
}

/// What came of trying some layouts.
enum Tried {
    Cost(Cost),
    /// No program has them, or they cost too much.
    NotBetter,
    /// A search tries no more.
    TooMany,
}

/// A [`Price`] that remembers its results.
type Costs<'a> = dyn FnMut(&Layouts, Option<&Cost>) -> Result<Tried, String> + 'a;

/// Goes on to less cost by changing one of the `groups` of layouts at a time. The features keep their layout.
/// Returns whether the search ran out of layouts to price.
fn climb(
    (least, layouts): &mut (Cost, Layouts),
    groups: &[Vec<usize>],
    cost: &mut Costs,
) -> Result<bool, String> {
    loop {
        let mut better = false;
        for group in groups {
            flip(layouts, group);
            match cost(layouts, Some(least))? {
                Tried::Cost(changed) if less(&changed, least) => (*least, better) = (changed, true),
                Tried::Cost(_) | Tried::NotBetter => flip(layouts, group),
                Tried::TooMany => {
                    flip(layouts, group);
                    return Ok(true);
                }
            }
        }
        if !better {
            return Ok(false);
        }
    }
}

/// Changes the layouts with these numbers, which ascend.
fn flip(layouts: &mut Layouts, group: &[usize]) {
    let epoch = layouts.epoch.len();
    for n in group {
        let layout = match n.checked_sub(epoch) {
            None => &mut layouts.epoch[*n],
            Some(n) => &mut layouts.eval[n],
        };
        *layout = match layout {
            Layout::Rows => Layout::Columns,
            Layout::Columns => Layout::Rows,
        };
    }
}

fn less(a: &[f64], b: &[f64]) -> bool {
    order(a, b).is_lt()
}

fn order(a: &[f64], b: &[f64]) -> Ordering {
    let differ = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    differ.fold(Ordering::Equal, Ordering::then)
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
            alike: (0..epoch + eval).collect(),
            kinds: Vec::new(),
        }
    }

    fn all_tried(layouts: Layouts) -> Option<Found> {
        Some(Found {
            layouts,
            ended: false,
        })
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
            let tried = Cell::new(0);
            let cost = |layouts: &Layouts, _: Option<&Cost>| {
                tried.set(tried.get() + 1);
                Ok(Some(vec![1.0, wrong(layouts, &wanted)]))
            };
            let single: Vec<usize> = (0..5).collect();
            let found = best(&starts(&pure(3, 2), None), &single, Changes::Singly, &cost).unwrap();
            assert_eq!(found, all_tried(wanted.clone()));
            assert!(tried.get() <= 48, "{} tries", tried.get());
            // Pinned layouts are kept.
            let pinned = starts(&pure(3, 2), Some(Columns));
            let found = best(&pinned, &single, Changes::Singly, &cost)
                .unwrap()
                .unwrap()
                .layouts;
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
            let found = best(
                &starts(&pure, None),
                &[0, 1, 2, 3],
                Changes::Singly,
                &|layouts, _| of(layouts, cheap),
            );
            let found = found.unwrap().unwrap();
            assert_eq!(same(&pure, &found.layouts), Some(placement));
        }
    }

    /// Hundreds of layers that are alike change together, and the search ends in time.
    #[test]
    fn layers_that_are_alike_change_together() {
        let pure = pure(400, 0);
        let alike: Vec<usize> = (0..400)
            .map(|n| usize::from(n > 0) + usize::from(n == 399))
            .collect();
        let wanted = Layouts {
            features: Rows,
            epoch: (0..400)
                .map(|n| if (1..399).contains(&n) { Columns } else { Rows })
                .collect(),
            eval: Vec::new(),
        };
        let tried = Cell::new(0);
        let cost = |layouts: &Layouts, _: Option<&Cost>| {
            tried.set(tried.get() + 1);
            Ok(Some(vec![wrong(layouts, &wanted)]))
        };
        let found = best(&starts(&pure, None), &alike, Changes::Singly, &cost)
            .unwrap()
            .unwrap();
        assert_eq!(found.layouts, wanted);
        assert!(found.ended);
        assert!(tried.get() < LEAST, "{} tries", tried.get());
    }

    /// Layouts without a program are skipped; if there are no others, there is no mixture.
    #[test]
    fn layouts_without_a_program_are_left_out() {
        let by_rows =
            |layouts: &Layouts, _: Option<&Cost>| Ok((layouts.features == Rows).then(|| vec![1.0]));
        let pure = pure(2, 0);
        let found = best(&starts(&pure, None), &[0, 1], Changes::Singly, &by_rows).unwrap();
        assert_eq!(found, all_tried(pure.graph.clone()));
        let none = best(
            &starts(&pure, Some(Columns)),
            &[0, 1],
            Changes::Singly,
            &by_rows,
        );
        assert_eq!(none, Ok(None));
    }

    #[test]
    fn nothing_to_choose_is_no_error() {
        let none = Pure::default();
        let found = best(&starts(&none, None), &[], Changes::Singly, &|_, _| {
            Ok(Some(vec![1.0]))
        });
        assert_eq!(found, Ok(all_tried(Layouts::default())));
        let start = [pure(1, 0).graph];
        assert!(best(&start, &[0], Changes::Singly, &|_, _| Err("no".to_owned())).is_err());
    }
}
