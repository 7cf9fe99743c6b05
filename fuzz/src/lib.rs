//! Fuzz targets for everything that gnnc reads. Each takes any bytes and panics if a reader
//! panics or breaks one of its promises.

pub mod arrays;
pub mod changes;
#[allow(
    dead_code,
    reason = "the file belongs to other tests too, which use the rest"
)]
#[path = "../../tests/differential/data.rs"]
mod data;
#[path = "../../tests/differential/layers.rs"]
mod layers;
mod listing;
pub mod models;
pub mod seeds;
mod session;
pub mod tables;

pub use listing::listing;
pub use session::session;
pub use tables::parquet;

use changes::{Random, change};

use gnnc_graph::read::{Format, LoadOptions, npy as npy_file, parse_bytes};
use gnnc_graph::summarise;
use gnnc_ir::Workload;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Pilot, Plan};
use gnnc_ir::workload::GraphFacts;
use gnnc_lang::diagnostic::{has_errors, render, to_json};
use gnnc_lang::{check, syntax};
use gnnc_runtime::{Tensor, parse_checkpoint};
use models::Choices;

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("gir", gir),
    ("model", model),
    ("npz", npz),
    ("npz_array", npz_array),
    ("npy", npy),
    ("array", array),
    ("mtx", mtx),
    ("metis", metis),
    ("edges", edges),
    ("parquet", parquet),
    ("cluster", cluster),
    ("pilot", pilot),
    ("plan", plan),
    ("workload", workload),
    ("checkpoint", checkpoint),
    ("session", session),
    ("listing", listing),
];

/// Most diagnostics of a model that are rendered. Each is printed independently of the others.
const RENDERED: usize = 12;

/// Model files: parser, printer, checker and rendering of diagnostics. Printed text parses to a
/// tree that prints the same.
pub fn gir(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (module, mut diagnostics) = syntax::parse(text);
    if !has_errors(&diagnostics) {
        let printed = syntax::print(&module);
        let (again, found) = syntax::parse(&printed);
        assert!(
            !has_errors(&found),
            "printed text does not parse:\n{printed}"
        );
        assert_eq!(syntax::print(&again), printed, "printing is not stable");
    }
    let (model, found) = check::elaborate(&module, &GraphFacts::PLACEHOLDER, &[]);
    // The checker does not repeat what the parser has reported.
    let checked = model.is_some();
    assert!(!(checked && has_errors(&found)), "a model with errors");
    if let Some(model) = model {
        model.graph.verify().expect("a checked model is valid");
    }
    diagnostics.extend(found);
    assert!(checked || has_errors(&diagnostics), "no model and no error");
    diagnostics.truncate(RENDERED);
    render(&diagnostics, "fuzz.gir", text, false);
    to_json(&diagnostics, "fuzz.gir", text);
}

/// Models derived from the bytes: first as valid models, then mutated as arbitrary text.
pub fn model(data: &[u8]) {
    let mut choices = Choices::new(data);
    let changes = choices.below(4);
    let mut random = Random::new(choices.below(256) as u64);
    let text = models::model(&mut choices);
    let (module, diagnostics) = syntax::parse(&text);
    assert!(!has_errors(&diagnostics), "{diagnostics:#?}\n{text}");
    let (checked, diagnostics) = check::elaborate(&module, &models::FACTS, &[]);
    assert!(checked.is_some(), "{diagnostics:#?}\n{text}");
    let mut changed = text.clone().into_bytes();
    for _ in 0..changes {
        change(&mut random, &mut changed, text.as_bytes());
    }
    gir(&changed);
}

/// Graphs as NumPy archives.
pub fn npz(data: &[u8]) {
    graph(Format::Npz, data);
}

/// Arrays inside a valid archive: the first byte selects the array that the rest replaces.
/// Otherwise the archive's checksums would reject nearly every mutation.
pub fn npz_array(data: &[u8]) {
    let Some((&which, content)) = data.split_first() else {
        return;
    };
    npz(&seeds::archive_with(usize::from(which), content));
}

/// Feature matrices.
pub fn npy(data: &[u8]) {
    if let Ok(features) = npy_file::parse("features", data) {
        let _ = features.in_best_storage();
    }
}

/// Arrays derived from the bytes: a matrix must be read with its shape, and no array in an
/// archive may cause a panic.
pub fn array(data: &[u8]) {
    let mut choices = Choices::new(data);
    let place = choices.below(256);
    let array = arrays::array(choices);
    let features = npy_file::parse("features", &array.bytes);
    if let Some([rows, columns]) = array.matrix {
        let features = features.expect("a valid matrix is read");
        assert_eq!(features.columns() as usize, columns);
        assert!(features.rows().is_none_or(|found| found == rows));
    }
    npz(&seeds::archive_with(place, &array.bytes));
}

/// Matrix Market files.
pub fn mtx(data: &[u8]) {
    graph(Format::MatrixMarket, data);
}

/// METIS files.
pub fn metis(data: &[u8]) {
    graph(Format::Metis, data);
}

/// Edge lists.
pub fn edges(data: &[u8]) {
    graph(Format::Edges, data);
}

/// Pilot files. A written file reads as the same pilot, and each of its classes needs something or nothing.
pub fn pilot(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(pilot) = Pilot::from_toml(text) {
        let written = pilot.to_toml().expect("what was read can be written");
        let again = Pilot::from_toml(&written).expect("a written pilot can be read");
        assert_eq!(again, pilot, "{written}");
        for piloted in &pilot.classes {
            let _ = pilot.needed(&piloted.class);
        }
    }
}

/// Cluster files. A written file reads as the same cluster.
pub fn cluster(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(cluster) = Cluster::parse(text) {
        let written = cluster.to_toml();
        let again = Cluster::parse(&written).expect("a written cluster can be read");
        assert_eq!(again, cluster, "{written}");
    }
}

/// Plan files. A written file can be read.
pub fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(plan) = Plan::from_json(text) {
        let written = plan.to_json().expect("a plan that was read can be written");
        Plan::from_json(&written).expect("a written plan can be read");
    }
}

/// Workload files. A written file can be read, and the check of any numbers terminates.
pub fn workload(data: &[u8]) {
    if let Ok(workload) = serde_json::from_slice::<Workload>(data) {
        let _ = workload.check();
        let written = serde_json::to_string(&workload).expect("a workload can be written");
        serde_json::from_str::<Workload>(&written).expect("a written workload can be read");
    }
}

/// Checkpoints of the tensors of [`seeds::tensors`].
pub fn checkpoint(data: &[u8]) {
    let expected = seeds::tensors();
    if let Ok((_, found)) = parse_checkpoint(data, &expected) {
        let shape = |t: &Tensor| (t.name.clone(), t.shape, t.values.len());
        assert!(found.iter().map(shape).eq(expected.iter().map(shape)));
    }
}

/// A graph that was read is valid, with reverse edges too, and can be summarized.
fn graph(format: Format, data: &[u8]) {
    for symmetrise in [false, true] {
        let options = LoadOptions {
            symmetrise,
            ..LoadOptions::default()
        };
        if let Ok(graph) = parse_bytes(format, data, &options) {
            assert_eq!(graph.validate(), []);
            summarise(&graph, &[]).expect("a valid graph has a summary");
        }
    }
}
