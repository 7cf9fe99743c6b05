//! The knobs of placements on the command line: one table for the options of a run and for
//! `--pin KEY=VALUE` of a search.

mod some;

use super::numbers::{CACHED, CHUNKS, DEVICES, EPOCHS, LAGS, MERGES, SAMPLERS, VERTICES, within};
use super::output::{Failure, input};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use gnnc::ir::plan::{Knobs, Layout};
use gnnc::planner::search::Pin;
pub use some::{BatchArgs, ClassArgs};

/// A knob on the command line.
struct Knob {
    /// Key of the pin; also the name of the option, unless that is a flag.
    name: &'static str,
    /// An earlier name.
    alias: Option<&'static str>,
    /// How a run sets it.
    option: Form,
    /// Values of the pin, for messages; empty if it cannot be pinned.
    values: &'static str,
    /// Help of the option.
    help: &'static str,
    /// Sets the knob from text. The error says what was expected.
    set: fn(&mut Knobs, &str) -> Result<(), String>,
}

/// How an option sets a knob.
enum Form {
    /// There is no option.
    None,
    /// `--name VALUE`, with this placeholder in help.
    Value(&'static str),
    /// A flag with a name of its own, which sets this value.
    Flag(&'static str, &'static str),
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "partitioner",
        alias: None,
        option: Form::None,
        values: "metis|metis-edges|metis-splits|blocks|blocks-train|stream|hash|range|morton",
        help: "",
        set: |knobs, text| text.parse().map(|name| knobs.partitioner = Some(name)),
    },
    Knob {
        name: "overlap",
        alias: None,
        option: Form::Flag("no-overlap", "no"),
        values: "",
        help: "Do not overlap communication with computation",
        set: |knobs, text| yes_or_no(text).map(|overlap| knobs.overlap = Some(overlap)),
    },
    Knob {
        name: "interior",
        alias: None,
        option: Form::Flag("interior", "yes"),
        values: "yes|no (whether interior rows are computed while halo rows are in flight; by default where it pays)",
        help: "Compute interior rows (those that read no halo row) while halo rows are in flight",
        set: |knobs, text| yes_or_no(text).map(|interior| knobs.interior = Some(interior)),
    },
    Knob {
        name: "skip",
        alias: None,
        option: Form::Value("RULE"),
        values: "RULE",
        help: "When to skip exchanges, if the placement allows it: fixed:EPOCHS, adaptive:EPOCHS or gap:DISTANCE. \
               Append /cut to send each reader only the rows it has edges from, then /stop to drop the gradients of \
               rows that were not sent, then /clip:LENGTH to clip the gradients of embeddings",
        set: |knobs, text| text.parse().map(|rule| knobs.skip = Some(rule)),
    },
    Knob {
        name: "chunks",
        alias: None,
        option: Form::Value("N"),
        values: "N",
        help: "Number of chunks. Placements that slice columns cut the work on all vertices into them (default 1); a \
               pipeline takes them as micro-batches of vertices (default 4 per stage)",
        set: |knobs, text| within(CHUNKS)(text).map(|chunks| knobs.chunks = Some(chunks)),
    },
    Knob {
        name: "stages",
        alias: None,
        option: Form::Value("N"),
        values: "N",
        help: "Stages of a pipeline; by default one per rank",
        set: |knobs, text| within(CHUNKS)(text).map(|stages| knobs.stages = Some(stages)),
    },
    Knob {
        name: "virtual-stages",
        alias: Some("turns"),
        option: Form::Value("N"),
        values: "N",
        help: "Virtual stages per stage: chunks pass through all stages once for each, so stages wait less when chunks \
               are few. 1 by default",
        set: |knobs, text| within(CHUNKS)(text).map(|count| knobs.virtual_stages = Some(count)),
    },
    Knob {
        name: "layers",
        alias: None,
        option: Form::Value("LIST"),
        values: "",
        help: "Layers of each stage, such as 4,3,3, or of each virtual stage in the order of the model; by default the \
               fastest division",
        set: |knobs, text| {
            let layers: Result<_, _> = text.split(',').map(within(CHUNKS)).collect();
            layers.map(|layers| knobs.layers = layers)
        },
    },
    Knob {
        name: "interval",
        alias: None,
        option: Form::Value("N"),
        values: "N",
        help: "Epochs between updates of a pipeline's histories",
        set: |knobs, text| within(EPOCHS)(text).map(|interval| knobs.interval = Some(interval)),
    },
    Knob {
        name: "shuffle",
        alias: None,
        option: Form::Flag("no-shuffle", "no"),
        values: "",
        help: "Process a pipeline's chunks in the same order in every epoch",
        set: |knobs, text| yes_or_no(text).map(|shuffle| knobs.shuffle = Some(shuffle)),
    },
    Knob {
        name: "storage",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "How tensors are stored: f32 (the default) or a 16-bit format such as bf16. Sums always use 32 bits",
        set: |knobs, text| super::inputs::storage(text).map(|storage| knobs.storage = storage),
    },
    Knob {
        name: "batch",
        alias: None,
        option: Form::Value("N"),
        values: "",
        help: "Seeds of a sampled batch, for placements that train on sampled neighborhoods",
        set: |knobs, text| within(VERTICES)(text).map(|batch| knobs.sampling.batch = Some(batch)),
    },
    Knob {
        name: "fanouts",
        alias: None,
        option: Form::Value("F,..."),
        values: "",
        help: "Most edges into a vertex that each hop of a batch keeps: a number or `all`, the hop next to the seeds \
               first. With slashes in between, one for each type of edges, such as 10/5",
        set: |knobs, text| {
            let fanouts: Result<_, String> = text.split(',').map(str::parse).collect();
            fanouts.map(|fanouts| knobs.sampling.fanouts = fanouts)
        },
    },
    Knob {
        name: "eval-fanouts",
        alias: None,
        option: Form::Value("F,..."),
        values: "",
        help: "Evaluate on sampled batches of all vertices of a split, with these fanouts, in place of the whole graph; \
               for graphs that do not fit. The report says that its accuracies are sampled",
        set: |knobs, text| {
            let fanouts: Result<_, String> = text.split(',').map(str::parse).collect();
            fanouts.map(|fanouts| knobs.sampling.eval_fanouts = fanouts)
        },
    },
    Knob {
        name: "sampler",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "How the edges of a batch are drawn: neighbor (the default), labor or full",
        set: |knobs, text| text.parse().map(|kind| knobs.sampling.sampler = Some(kind)),
    },
    Knob {
        name: "cut",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "How an epoch is cut into batches: even (the default), short or drop",
        set: |knobs, text| text.parse().map(|cut| knobs.sampling.cut = Some(cut)),
    },
    Knob {
        name: "roots",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "Which rank works on a seed of a batch: home (the default), the one that owns it; dealt, each one on a run \
               of equal length; own, each one draws batches from its share of the seeds",
        set: |knobs, text| text.parse().map(|roots| knobs.sampling.roots = Some(roots)),
    },
    Knob {
        name: "exclude",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "Edges that batches of pairs leave out of all their hops: seeds (the default), those between the ends of \
               each link that is a seed, in both directions; nothing",
        set: |knobs, text| {
            text.parse()
                .map(|exclude| knobs.sampling.exclude = Some(exclude))
        },
    },
    Knob {
        name: "negatives",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "Pairs without a link that batches of pairs train on: given (the default), those of the graph; fresh, both \
               ends drawn anew in every step; targets, the second end drawn anew",
        set: |knobs, text| {
            text.parse()
                .map(|drawn| knobs.sampling.negatives = Some(drawn))
        },
    },
    Knob {
        name: "prefetch",
        alias: None,
        option: Form::Value("N"),
        values: "",
        help: "Batches that workers draw and fetch rows for ahead of the one they train on, 0 to 8; by default as many as \
               they wait for messages. Changes no result",
        set: |knobs, text| within(LAGS)(text).map(|ahead| knobs.sampling.prefetch = Some(ahead)),
    },
    Knob {
        name: "samplers",
        alias: None,
        option: Form::Value("N"),
        values: "",
        help: "Threads of each worker that draw batches ahead while it trains; by default 0, and a worker draws each batch \
               when it needs it. Changes no result",
        set: |knobs, text| {
            within(SAMPLERS)(text).map(|threads| knobs.sampling.samplers = Some(threads))
        },
    },
    Knob {
        name: "delay",
        alias: None,
        option: Form::Value("N"),
        values: "",
        help: "Batches by which weights may be late in push-pull on batches, so that workers compute while they wait: 0 \
               (the default), 2 or 3; needs --allow stale",
        set: |knobs, text| within(LAGS)(text).map(|delay| knobs.sampling.delay = Some(delay)),
    },
    Knob {
        name: "slices",
        alias: None,
        option: Form::Value("N[/apart]"),
        values: "",
        help: "How many slices the features have in push-pull on batches. The number must divide the workers, which then \
               hold several copies; by default every worker has a slice of its own. Consecutive workers share a copy; \
               with /apart they hold the same slice",
        set: |knobs, text| text.parse().map(|mesh| knobs.sampling.slices = Some(mesh)),
    },
    Knob {
        name: "migrate",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "What goes with a model to the next worker in placement model-migration: full (the default: weights and \
               the sum of gradients, as published), gradient (weights are the same everywhere), or off (nothing: sums \
               are added at the end)",
        set: |knobs, text| {
            text.parse()
                .map(|migrate| knobs.sampling.migrate = Some(migrate))
        },
    },
    Knob {
        name: "merges",
        alias: None,
        option: Form::Value("N"),
        values: "",
        help: "How many of the visits of a model to workers are merged with others in placement model-migration, less \
               than there are workers; by default 0, and a plan chooses. Fewer visits move less, and fetch more rows",
        set: |knobs, text| within(MERGES)(text).map(|merges| knobs.sampling.merges = Some(merges)),
    },
    Knob {
        name: "cache",
        alias: None,
        option: Form::Value("ROWS"),
        values: "",
        help: "Rows of other workers' features that each worker keeps, so that its batches fetch fewer; by default 0, and \
               a plan chooses. Changes no result",
        set: |knobs, text| within(CACHED)(text).map(|rows| knobs.sampling.cache = Some(rows)),
    },
    Knob {
        name: "cache-by",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "Which rows are kept: those that batches most probably read (probability, the default), those of the vertices \
               with most edges out of them (degree), or those that some batches read most often (counts)",
        set: |knobs, text| text.parse().map(|by| knobs.sampling.cache_by = Some(by)),
    },
    Knob {
        name: "static",
        alias: None,
        option: Form::Flag("static", "yes"),
        values: "",
        help: "Make aggregations that depend on the data alone once, over all neighbors, before training on batches. \
               They then need no hop and no fanout",
        set: |knobs, text| yes_or_no(text).map(|before| knobs.sampling.beforehand = Some(before)),
    },
    Knob {
        name: "lazy-embeddings",
        alias: None,
        option: Form::Flag("lazy-embeddings", "yes"),
        values: "",
        help: "Step only those rows of embeddings that a batch has, each with a count of its own steps. Workers then hold \
               the rows of their own vertices",
        set: |knobs, text| yes_or_no(text).map(|lazy| knobs.sampling.lazy = Some(lazy)),
    },
    Knob {
        name: "offload",
        alias: None,
        option: Form::None,
        values: "yes|no (whether tensors are offloaded to the host; by default only where they must be)",
        help: "",
        set: |knobs, text| yes_or_no(text).map(|offload| knobs.offload = Some(offload)),
    },
];

/// The knobs of a run, as options.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    /// Their values; options that were not given leave knobs open.
    pub knobs: Knobs,
    /// The first of these options on the command line, such as `--chunks`.
    pub given: Option<String>,
}

impl Knob {
    /// Name of the option, if there is one.
    fn long(&self) -> Option<&'static str> {
        match self.option {
            Form::None => None,
            Form::Value(_) => Some(self.name),
            Form::Flag(name, _) => Some(name),
        }
    }

    fn arg(&'static self) -> Option<Arg> {
        let name = self.long()?;
        let arg = Arg::new(name).long(name).help(self.help);
        Some(match self.option {
            Form::Value(value) => {
                arg.value_name(value)
                    .aliases(self.alias)
                    .value_parser(|text: &str| {
                        (self.set)(&mut Knobs::default(), text)?;
                        Ok::<_, String>(text.to_owned())
                    })
            }
            Form::None | Form::Flag(..) => arg.action(ArgAction::SetTrue),
        })
    }

    /// The value that the command line gives the knob.
    fn value<'a>(&self, matches: &'a ArgMatches) -> Option<&'a str> {
        match self.option {
            Form::None => None,
            Form::Value(_) => matches.get_one::<String>(self.name).map(String::as_str),
            Form::Flag(name, value) => matches.get_flag(name).then_some(value),
        }
    }
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for knob in KNOBS {
            if let (Some(name), Some(value)) = (knob.long(), knob.value(matches)) {
                (knob.set)(&mut self.knobs, value).map_err(|expected| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, expected)
                })?;
                self.given.get_or_insert_with(|| format!("--{name}"));
            }
        }
        Ok(())
    }
}

impl Args for KnobArgs {
    fn augment_args(command: Command) -> Command {
        command.args(KNOBS.iter().filter_map(Knob::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The constraints of `--pin`, on top of `knobs`.
///
/// # Errors
/// An unknown key, or a value that the key does not take.
pub fn pins(all: &[String], knobs: Knobs) -> Result<Pin, Failure> {
    let mut pin = Pin {
        knobs,
        ..Pin::default()
    };
    for text in all {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let (key, value) = (key.trim(), value.trim());
        let set = set(&mut pin, key, value);
        set.map_err(|expected| input(format!("found --pin {text}, expected {expected}")))?;
    }
    Ok(pin)
}

/// Sets one constraint; the error says what was expected.
fn set(pin: &mut Pin, key: &str, value: &str) -> Result<(), String> {
    // Errors of options begin with the word, errors of pins have the key before it.
    let of = |key: &str, said: String| format!("{key}= {}", said.trim_start_matches("expected "));
    let of_key = |said| of(key, said);
    match key {
        "placement" => {
            pin.placement = Some(super::inputs::placement(value).map_err(of_key)?);
            return Ok(());
        }
        "ranks" => {
            pin.ranks = Some(within(DEVICES)(value).map_err(of_key)?);
            return Ok(());
        }
        "features" => {
            pin.features = Some(value.parse::<Layout>().map_err(of_key)?);
            return Ok(());
        }
        // The skipping system's own name for it.
        "stale_grad" if value == "through" => return Ok(()),
        "stale_grad" => {
            return Err(
                "stale_grad=through, which passes gradients on as if all rows were current; \
                 to drop the gradients of copies, append /stop to the rule, as in skip=RULE/stop"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let pinned = || KNOBS.iter().filter(|knob| !knob.values.is_empty());
    match pinned().find(|knob| knob.name == key || knob.alias == Some(key)) {
        Some(knob) => (knob.set)(&mut pin.knobs, value).map_err(|said| of(knob.name, said)),
        None => {
            let keys: Vec<String> = pinned()
                .map(|k| format!("{}={}", k.name, k.values))
                .collect();
            Err(format!(
                "placement=NAME, ranks=N, features=columns (mixtures that begin with push-pull), {}",
                keys.join(", ")
            ))
        }
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_knob_and_no_knob_is_out_of_reach() {
        let mut names: Vec<_> = KNOBS.iter().map(|knob| knob.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for knob in KNOBS {
            assert!(
                knob.long().is_some() || !knob.values.is_empty(),
                "{}",
                knob.name
            );
            assert_eq!(
                knob.long().is_some(),
                !knob.help.is_empty(),
                "{}",
                knob.name
            );
        }
    }
}
