//! Knobs that do nothing in a placement.

use super::{PlacementSpec, Row, TABLE};
use gnnc_ir::plan::{Cover, Knobs, Placement};

/// Most placements that a message lists; of more it names one.
const LISTED: usize = 4;

/// A knob that is set, of a placement that does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Useless {
    /// Its name.
    pub knob: &'static str,
    /// Its value, as in a pin.
    pub value: String,
    /// What the placement does, or does not; the verb is first.
    pub why: &'static str,
    /// The placements that have it; none if no others are to be offered.
    others: Vec<Placement>,
}

/// What a knob takes to have an effect.
struct Need {
    knob: &'static str,
    /// Its value, if it is set to other than its default.
    value: fn(&Knobs) -> Option<String>,
    /// Whether it has an effect.
    has: fn(&PlacementSpec) -> bool,
    /// What placements do that do not have it.
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        knob: "skip",
        value: |knobs| knobs.skip.map(|rule| rule.to_string()),
        has: |spec| spec.is(|row| row.skips),
        why: "skips no exchanges",
    },
    Need {
        knob: "chunks",
        value: |knobs| knobs.chunks.map(|count| count.to_string()),
        has: |spec| spec.is(|row| row.staged() || row.slices),
        why: "is not cut into chunks",
    },
    Need {
        knob: "stages",
        value: |knobs| knobs.stages.map(|count| count.to_string()),
        has: |spec| spec.is(Row::staged),
        why: "has no stages",
    },
    Need {
        knob: "virtual-stages",
        value: |knobs| knobs.virtual_stages.map(|count| count.to_string()),
        has: |spec| spec.is(Row::staged),
        why: "has no stages",
    },
    Need {
        knob: "layers",
        value: |knobs| {
            let counts: Vec<String> = knobs.layers.iter().map(u32::to_string).collect();
            (!counts.is_empty()).then(|| counts.join(","))
        },
        has: |spec| spec.is(Row::staged),
        why: "has no stages",
    },
    Need {
        knob: "interval",
        value: |knobs| knobs.interval.map(|epochs| epochs.to_string()),
        has: |spec| spec.is(Row::staged),
        why: "keeps no histories",
    },
    Need {
        knob: "shuffle",
        value: |knobs| (knobs.shuffle == Some(false)).then(|| "no".to_owned()),
        has: |spec| spec.is(Row::staged),
        why: "shuffles no chunks",
    },
    // A single rank sends nothing, whatever the options say of messages.
    Need {
        knob: "slices",
        value: |knobs| knobs.slices.map(|mesh| mesh.to_string()),
        has: |spec| spec.ranks < 2 || spec.samples() || spec.is(|row| row.slices),
        why: "has whole rows",
    },
    Need {
        knob: "wire",
        value: |knobs| {
            let wire = knobs.wire.filter(|wire| !wire.is_f32());
            wire.map(|wire| wire.to_string())
        },
        has: |spec| spec.ranks < 2 || spec.may_encode(),
        why: "keeps copies of rows and compares them",
    },
    Need {
        knob: "cover",
        value: |knobs| (knobs.cover == Some(Cover::Joint)).then(|| "joint".to_owned()),
        has: |spec| spec.ranks < 2 || spec.has_tiers(),
        why: "does not exchange whole halo rows of all vertices at once",
    },
    Need {
        knob: "node-ranks",
        value: |knobs| {
            let several = knobs.node_ranks.filter(|ranks| *ranks > 1);
            several.map(|ranks| ranks.to_string())
        },
        has: |spec| spec.ranks < 2 || spec.has_tiers(),
        why: "does not exchange whole halo rows of all vertices at once",
    },
];

impl PlacementSpec {
    /// The first knob that is set and does nothing, if there is one.
    pub fn without_effect(&self) -> Option<Useless> {
        let found = NEEDS.iter().find_map(|need| {
            let value = (need.value)(&self.knobs)?;
            (!(need.has)(self)).then_some((need, value))
        });
        let (need, value) = found?;
        let placements = TABLE.iter().map(|row| row.placement);
        let has = |placement: &Placement| {
            (need.has)(&Self {
                placement: *placement,
                ..self.clone()
            })
        };
        Some(Useless {
            knob: need.knob,
            value,
            why: need.why,
            others: placements.filter(has).collect(),
        })
    }

    fn is(&self, of: fn(&Row) -> bool) -> bool {
        self.row().is_some_and(of)
    }
}

impl Useless {
    /// What else to do: `ask for placement pipeline or hybrid`, after such a verb.
    pub fn instead(&self, verb: &str) -> String {
        let names: Vec<&str> = self.others.iter().map(|other| other.name()).collect();
        match &names[..] {
            [] => String::new(),
            [one] => format!(", or {verb} placement {one}"),
            [first @ .., last] if names.len() <= LISTED => {
                format!(", or {verb} placement {} or {last}", first.join(", "))
            }
            [first, ..] => format!(", or {verb} another placement, such as {first}"),
        }
    }
}
