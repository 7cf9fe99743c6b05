//! Layouts of models with many layers that are alike. They are chosen by the costs of two shorter models, from which
//! those of the whole one follow: each layer more costs as much as the one before.

use super::Lower;
use super::mixture::{self, Changes, Cost, Found};
use crate::layout::Pure;
use crate::simulate::Estimate;
use gnnc_ir::plan::{Layout, Layouts};
use gnnc_ir::words::units::{Bytes, Seconds};

/// Two models with fewer of a model's layers that are alike.
pub struct Shorter<'a> {
    /// How many of these layers the whole model has.
    pub layers: usize,
    /// The shorter one.
    pub less: Fewer<'a>,
    /// The longer one.
    pub more: Fewer<'a>,
}

/// A model with fewer layers.
pub struct Fewer<'a> {
    /// How many of the layers that are alike it has.
    pub layers: usize,
    /// Makes its programs.
    pub lower: &'a dyn Lower,
}

/// The estimate of a model with some layouts; `None` if no program has them.
pub(super) type Estimates<'a> =
    dyn Fn(&dyn Lower, &Layouts) -> Result<Option<Estimate>, String> + 'a;

/// How layouts are chosen.
pub(super) struct Choose<'a> {
    /// Number of slices.
    pub(super) slices: u32,
    /// The layout of the features, if it is pinned.
    pub(super) features: Option<Layout>,
    /// Memory of a device.
    pub(super) memory: Bytes,
    /// Prices a shorter model.
    pub(super) estimate: &'a Estimates<'a>,
    /// The cost of an estimate.
    pub(super) cost: &'a dyn Fn(&Estimate) -> Cost,
}

/// The cheapest layouts found of the model with the `whole` layouts. `None` if it has layouts that the shorter models do not
/// have, or if no program has any of the starting layouts.
///
/// # Errors
/// The error of layouts that cannot be priced.
pub(super) fn best(
    whole: &Pure,
    shorter: &Shorter,
    choose: &Choose,
) -> Result<Option<Found>, String> {
    let pure = |model: &Fewer| {
        let found = model.lower.pure(choose.slices);
        found.map_err(|e| e.to_string())
    };
    let (less, more) = (pure(&shorter.less)?, pure(&shorter.more)?);
    if less.kinds != whole.kinds || more.kinds != whole.kinds {
        return Ok(None);
    }
    let added = (shorter.more.layers - shorter.less.layers) as f64;
    let missing = (shorter.layers - shorter.more.layers) as f64;
    let starts = mixture::starts(&less, choose.features);
    let price = |layouts: &Layouts, _beat: Option<&Cost>| {
        let longer = stretched(layouts, &less, &more);
        let Some(first) = (choose.estimate)(shorter.less.lower, layouts)? else {
            return Ok(None);
        };
        let second = (choose.estimate)(shorter.more.lower, &longer)?;
        Ok(second.map(|second| {
            let longest = extended(&first, second, missing / added, choose.memory);
            (choose.cost)(&longest)
        }))
    };
    let found = mixture::best(&starts, &less.alike, Changes::Together, &price)?;
    Ok(found.map(|found| Found {
        layouts: stretched(&found.layouts, &less, whole),
        ..found
    }))
}

/// The estimate of a model that has more layers than `more`: `times` as many as `more` has beyond those of `less`.
fn extended(less: &Estimate, more: Estimate, times: f64, memory: Bytes) -> Estimate {
    let line = |less: f64, more: f64| (more + (more - less) * times).max(0.0);
    let seconds = |less: Seconds, more: Seconds| Seconds(line(less.0, more.0));
    let bytes = |less: Bytes, more: Bytes| Bytes(line(less.0 as f64, more.0 as f64) as u64);
    let mut whole = more;
    for (to, less) in [
        (&mut whole.epoch, &less.epoch),
        (&mut whole.eval, &less.eval),
    ] {
        to.seconds = seconds(less.seconds, to.seconds);
        to.bytes = bytes(less.bytes, to.bytes);
    }
    whole.peak_memory_bytes = bytes(less.peak_memory_bytes, whole.peak_memory_bytes);
    whole.fits = whole.peak_memory_bytes <= memory;
    whole
}

/// The layouts of a model for one with more or fewer layers of the same kinds. The first and the last components of a
/// kind keep theirs; those between have that of the one in the middle.
fn stretched(layouts: &Layouts, from: &Pure, to: &Pure) -> Layouts {
    let own = [&layouts.epoch[..], &layouts.eval].concat();
    let members = |pure: &Pure, kind: usize| -> Vec<usize> {
        let all = pure.alike.iter().enumerate();
        all.filter(|(_, other)| **other == kind)
            .map(|(n, _)| n)
            .collect()
    };
    let mut all = [&to.graph.epoch[..], &to.graph.eval].concat();
    for kind in 0..to.kinds.len() {
        let (known, wanted) = (members(from, kind), members(to, kind));
        let half = known.len() / 2;
        for (n, component) in wanted.iter().enumerate() {
            let to_end = wanted.len() - 1 - n;
            let like = if n < half {
                n
            } else if to_end < known.len() - half {
                known.len() - 1 - to_end
            } else {
                half
            };
            if let Some(layout) = known.get(like).and_then(|like| own.get(*like)) {
                all[*component] = *layout;
            }
        }
    }
    let eval = all.split_off(to.graph.epoch.len());
    Layouts {
        features: layouts.features,
        epoch: all,
        eval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Layout::{Columns, Rows};
    use proptest::prelude::*;

    /// Components of these kinds, all by rows.
    fn pure(epoch: &[usize], eval: &[usize]) -> Pure {
        let alike = [epoch, eval].concat();
        let kinds = alike.iter().max().map_or(0, |most| most + 1);
        let rows = Layouts {
            features: Rows,
            epoch: vec![Rows; epoch.len()],
            eval: vec![Rows; eval.len()],
        };
        Pure {
            graph: rows,
            kinds: vec![Default::default(); kinds],
            alike,
            ..Pure::default()
        }
    }

    #[test]
    fn the_ends_of_a_kind_keep_their_layouts() {
        let (short, long) = (
            pure(&[0, 1, 1, 1, 1, 2], &[3, 3, 3]),
            pure(&[0, 1, 1, 1, 1, 1, 1, 2], &[3, 3, 3, 3]),
        );
        let layouts = Layouts {
            features: Columns,
            epoch: vec![Rows, Columns, Rows, Columns, Rows, Columns],
            eval: vec![Columns, Rows, Columns],
        };
        let longer = Layouts {
            features: Columns,
            epoch: vec![
                Rows, Columns, Rows, Columns, Columns, Columns, Rows, Columns,
            ],
            eval: vec![Columns, Rows, Rows, Columns],
        };
        assert_eq!(stretched(&layouts, &short, &long), longer);
        assert_eq!(stretched(&layouts, &short, &short), layouts);
    }

    proptest! {
        /// Any number of components of a kind can be stretched: the first and the last one keep their layouts.
        #[test]
        fn layouts_are_stretched_by_any_number(
            own in prop::collection::vec(prop::bool::ANY, 2..9),
            more in 0..20usize,
        ) {
            let (short, long) = (pure(&vec![0; own.len()], &[]), pure(&vec![0; own.len() + more], &[]));
            let epoch = own.iter().map(|columns| if *columns { Columns } else { Rows });
            let layouts = Layouts { features: Rows, epoch: epoch.collect(), eval: Vec::new() };
            let longer = stretched(&layouts, &short, &long);
            prop_assert_eq!(longer.epoch.len(), own.len() + more);
            prop_assert_eq!(longer.epoch.first(), layouts.epoch.first());
            prop_assert_eq!(longer.epoch.last(), layouts.epoch.last());
            if more == 0 {
                prop_assert_eq!(longer, layouts);
            }
        }
    }
}
