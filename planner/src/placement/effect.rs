//! Knobs that do nothing in a placement.

use super::{PlacementSpec, Row, TABLE};
use gnnc_ir::plan::{Cover, Knobs, Placement};

/// A message lists at most so many placements. If there are more, it names the first.
const LISTED: usize = 4;

/// A knob that is set and does nothing in its placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Useless {
    /// Its name.
    pub knob: &'static str,
    /// Its value, as in a pin.
    pub value: String,
    /// Why it does nothing; begins with a verb, whose subject is the placement.
    pub why: &'static str,
    /// The placements in which it does something.
    others: Vec<Placement>,
}

/// When a knob has an effect.
struct Need {
    knob: &'static str,
    /// Its value, if that is not its default.
    value: fn(&Knobs) -> Option<String>,
    /// Whether it has an effect.
    has: fn(&PlacementSpec) -> bool,
    /// Why it has none elsewhere; begins with a verb.
    why: &'static str,
}

/// Knobs of messages are accepted for a single rank, which sends nothing: users run the same options on any number of
/// workers.
const NEEDS: &[Need] = &[
    Need {
        knob: "skip",
        value: |knobs| knobs.skip.map(|rule| rule.to_string()),
        has: |spec| spec.is(|row| row.skips),
        why: "skips no exchanges",
    },
    Need {
        knob: "chunks",
        value: |knobs| several(knobs.chunks),
        has: |spec| {
            spec.stages().is_some() || spec.is(|row| row.slices) && spec.group_ranks().is_none()
        },
        why: "has no work on all vertices to cut into chunks",
    },
    Need {
        knob: "stages",
        value: |knobs| several(knobs.stages),
        has: |spec| spec.is(Row::staged),
        why: "has no stages",
    },
    Need {
        knob: "virtual-stages",
        value: |knobs| several(knobs.virtual_stages),
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
    Need {
        knob: "slices",
        value: |knobs| knobs.slices.map(|mesh| mesh.to_string()),
        has: |spec| spec.ranks < 2 || spec.is(|row| row.slices),
        why: "does not divide the columns of rows",
    },
    Need {
        knob: "overlap",
        value: |knobs| (knobs.overlap == Some(false)).then(|| "no".to_owned()),
        has: |spec| spec.ranks < 2 || spec.is(|row| !row.staged()),
        why: "sends rows on to the next stage while it computes, always",
    },
    Need {
        knob: "interior",
        value: |knobs| (knobs.interior == Some(true)).then(|| "yes".to_owned()),
        has: |spec| {
            let exchanges = spec.is(|row| !row.staged() && !row.chunked());
            let apart = !spec.samples() && spec.group_ranks().is_none();
            spec.ranks < 2 || exchanges && apart
        },
        why: "never computes interior rows apart",
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
        has: |spec| spec.ranks < 2 || spec.has_tiers() && spec.by_parts(),
        why: "sends no halo rows between parts that sums could replace",
    },
    Need {
        knob: "node-ranks",
        value: |knobs| several(knobs.node_ranks),
        has: |spec| spec.ranks < 2 || spec.has_tiers(),
        why: "sends no halo rows that could cross to a node once",
    },
];

fn several(count: Option<u32>) -> Option<String> {
    let several = count.filter(|count| *count > 1);
    several.map(|count| count.to_string())
}

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
    /// What else to do, to follow a sentence: `, or ask for placement pipeline or hybrid`, with such a verb.
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
