//! What a pilot holds for: it is refused for anything else.

use crate::{Error, Loaded};
use gnnc_graph::GraphData;
use gnnc_ir::plan::{MadeFor, Pilot};
use gnnc_ir::words::schedule::Schedule;
use std::path::Path;

/// Longest pilot that is read, in bytes.
const MAX_PILOT: u64 = 64 << 20;

/// What a pilot of a model on its graph holds for.
pub(super) fn made_for(loaded: &Loaded, data: &GraphData) -> MadeFor {
    let train = &loaded.model.train;
    MadeFor {
        gnnc: env!("CARGO_PKG_VERSION").to_owned(),
        model: loaded.model.name.clone(),
        fingerprint: format!("{:016x}", loaded.model.fingerprint()),
        graph: loaded.workload.name.clone(),
        graph_key: data.fingerprint(),
        judged_by: train.metric,
        schedule: train.schedule,
        patience: train.patience,
    }
}

/// Reads a pilot from its file.
///
/// # Errors
/// A file that cannot be read, or is no pilot.
pub fn read_pilot(path: &Path) -> Result<Pilot, Error> {
    let text = gnnc_files::read_text(path, MAX_PILOT).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let found = Pilot::from_toml(&text);
    found.map_err(|why| Error::Input(format!("{}: {why}", path.display())))
}

/// Refuses a pilot of another model, graph or program, and says what differs.
///
/// # Errors
/// Everything that differs, with what was found and what was expected.
pub fn pilot_fits(pilot: &Pilot, loaded: &Loaded) -> Result<(), Error> {
    let data = loaded.graph_data("compare with a pilot")?;
    let (found, here) = (&pilot.made_for, made_for(loaded, data));
    let mut differ = Vec::new();
    let mut compare = |what: &str, found: String, expected: String| {
        if found != expected {
            differ.push(format!("{what} is {found} in the pilot, {expected} here"));
        }
    };
    compare("the version of gnnc", found.gnnc.clone(), here.gnnc);
    // Names tell people which one it is; they may change.
    if found.fingerprint != here.fingerprint {
        compare(
            "the model",
            format!("{} ({})", found.model, found.fingerprint),
            format!("{} ({})", here.model, here.fingerprint),
        );
    }
    if found.graph_key != here.graph_key {
        compare(
            "the graph",
            format!("{} ({})", found.graph, found.graph_key),
            format!("{} ({})", here.graph, here.graph_key),
        );
    }
    let schedule = |schedule: Schedule, epochs: u32| match schedule {
        // The other ones do not depend on the number of epochs.
        Schedule::Cosine { .. } => format!("{schedule} over {epochs} epochs"),
        Schedule::Constant
        | Schedule::Step { .. }
        | Schedule::Warmup { .. }
        | Schedule::Plateau { .. } => schedule.to_string(),
    };
    compare(
        "the schedule of the learning rate",
        schedule(found.schedule, pilot.epochs),
        schedule(here.schedule, loaded.model.train.epochs),
    );
    let patience = |epochs: Option<u32>| epochs.map_or("none".to_owned(), |n| n.to_string());
    compare(
        "`patience`",
        patience(found.patience),
        patience(here.patience),
    );
    if differ.is_empty() {
        return Ok(());
    }
    Err(Error::Input(format!(
        "the pilot was made for something else: {}; make it again with `gnnc pilot`",
        differ.join("; ")
    )))
}
