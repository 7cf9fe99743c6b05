//! The table of knobs.

use super::{Form, Knob, storage, yes_or_no};
use crate::numbers::{AGES, CACHED, CHUNKS, EPOCHS, LAGS, MERGES, SAMPLERS, VERTICES, within};

/// All of them, in the order of help.
pub const KNOBS: &[Knob] = &[
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
        name: "node-ranks",
        alias: None,
        option: Form::Value("N"),
        values: "N (a halo row crosses once to a node of N ranks, which pass it on; 1: to each reader; by default where \
                 it pays)",
        help: "Send each halo row once to a node of N consecutive ranks, where one of its readers passes it on, and add \
               its gradients inside the node before they cross. N must divide the ranks. 1 (the default) sends the row to \
               each reader",
        set: |knobs, text| within(CHUNKS)(text).map(|ranks| knobs.node_ranks = Some(ranks)),
    },
    Knob {
        name: "cover",
        alias: None,
        option: Form::Value("NAME"),
        values: "rows|joint (what parts send for the edges between them: rows of sources, or the fewest rows and partial \
                 sums; by default what is faster)",
        help: "What parts send for the edges between them: the rows of their sources (rows, the default), or the fewest \
               rows and partial sums (joint), for models that only sum over edges",
        set: |knobs, text| text.parse().map(|cover| knobs.cover = Some(cover)),
    },
    Knob {
        name: "equal-bits",
        alias: None,
        option: Form::Flag("equal-bits", "yes"),
        values: "yes|no (whether losses and weights are the same bits on any number of workers; no by default)",
        help: "Compute the same losses and weights, bit for bit, on any number of workers",
        set: |knobs, text| yes_or_no(text).map(|equal| knobs.equal_bits = Some(equal)),
    },
    Knob {
        name: "wire",
        alias: None,
        option: Form::Value("NAME"),
        values: "f32|bf16|int8 (how rows travel between workers in training epochs; f32: as they are)",
        help: "How rows travel between workers in training epochs: f32 (the default), bf16 (half the bytes) or int8 (a \
               quarter, with a scale for each row, rounded at random). Needs --allow quantise",
        set: |knobs, text| text.parse().map(|wire| knobs.wire = Some(wire)),
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
        set: |knobs, text| storage(text).map(|storage| knobs.storage = storage),
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
        help: "Threads of each worker that draw batches ahead while it trains. With 0, the default on processors, a worker \
               draws each batch when it needs it; for a GPU, all cores but one draw, 16 at most. Changes no result",
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
               (the default), 2 or 3. With --lazy-embeddings, by which rows of embeddings may be late in minibatch: 0 to 7. \
               Needs --allow stale",
        set: |knobs, text| within(LAGS)(text).map(|delay| knobs.sampling.delay = Some(delay)),
    },
    Knob {
        name: "slices",
        alias: None,
        option: Form::Value("N[/apart]"),
        values: "N (slices of the columns: groups of N workers divide the vertices, and the workers of a group the columns; by \
                 default what is faster)",
        help: "How many slices columns have. The number must divide the workers; by default every worker has a slice of its \
               own. On the whole graph, groups of so many consecutive workers divide the vertices, and the workers of a \
               group the columns (placements tensor, push-pull and mixed). In push-pull on batches, consecutive workers \
               share a copy of the features; with /apart they hold the same slice",
        set: |knobs, text| text.parse().map(|mesh| knobs.slices = Some(mesh)),
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
        help: "Rows of other workers that each worker keeps, so that its batches fetch fewer; by default 0, and a plan \
               chooses. Changes no result, except for rows of embeddings (--cache-age)",
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
        name: "cache-age",
        alias: None,
        option: Form::Value("STEPS"),
        values: "",
        help: "Steps that copies of other workers' embeddings may lack, with --cache and --lazy-embeddings. A batch fetches a \
               row again if its copy lacks more. Needs --allow stale, unless it is 0",
        set: |knobs, text| within(AGES)(text).map(|age| knobs.sampling.cache_age = Some(age)),
    },
    Knob {
        name: "topology",
        alias: None,
        option: Form::Value("NAME"),
        values: "",
        help: "Which edges a worker holds: all (the default), or own, those into its own vertices. With own, workers ask each \
               other for edges when they draw batches. Changes no result",
        set: |knobs, text| {
            text.parse()
                .map(|name| knobs.sampling.topology = Some(name))
        },
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
