//! Passes over programs: text in, text out.
//!
//! Each file in `tests/filetests/PASS` is a model (`.gir`) or a listing (`.prog`) after lines
//! `# KEY: VALUE` that say how to run the pass, then a line `----` and the expected output. For
//! a model, the output is the sections of the listing that `show` names, or all of them; for a
//! listing, the sections that the pass changed. Programs are verified before and after the
//! pass. `GNNC_BLESS=1 cargo test --test filetests` writes the current output.

#![allow(clippy::unwrap_used)]

use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::Layout;
use gnnc::ir::program::verify::{RankData, verify};
use gnnc::ir::program::{Capacity, Program, RankSizes, Reach};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::lower::chunks::chunks;
use gnnc::planner::lower::cover::cover;
use gnnc::planner::lower::interior::interior;
use gnnc::planner::lower::offload::{MemoryBudget, offload};
use gnnc::planner::lower::overlap::overlap;
use gnnc::planner::lower::storage::store;
use gnnc::planner::lower::wire::encode;
use gnnc::planner::parts::{Messages, Parts};
use gnnc::planner::placement::PlacementSpec;
use gnnc::planner::simulate::{Estimate, simulate};
use gnnc::{LoadOptions, Loaded, Source};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BETWEEN: &str = "----\n";

/// Every key that a file may give.
const KEYS: &[&str] = &[
    "bytes",
    "chunks",
    "cluster",
    "equal-bits",
    "eval-layouts",
    "features",
    "graph-chunks",
    "layers",
    "layouts",
    "lists",
    "placement",
    "rank",
    "show",
    "sizes",
    "skip",
    "slices",
    "stages",
    "storage",
    "turns",
    "wire",
    "workers",
];

/// The keys at the top of a file, without prose.
#[derive(Debug)]
struct Keys(BTreeMap<String, Key>);

#[derive(Debug)]
struct Key {
    line: u32,
    value: String,
}

impl Keys {
    /// Reads the keys; a line that begins with several words is prose.
    ///
    /// # Errors
    /// A key that there is not, or one that is given twice, with its line.
    fn of(text: &str) -> Result<Self, String> {
        let mut keys = BTreeMap::new();
        let lines = text.lines().map_while(|line| line.strip_prefix("# "));
        for (line, number) in lines.zip(1..) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            if key.contains(' ') {
                continue;
            }
            if !KEYS.contains(&key) {
                return Err(format!("{number}: there is no key `{key}`"));
            }
            let value = value.trim().to_owned();
            let line = number;
            if keys.insert(key.to_owned(), Key { line, value }).is_some() {
                return Err(format!("{number}: `{key}` is given twice"));
            }
        }
        Ok(Self(keys))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|key| key.value.as_str())
    }

    /// Checks that each name in `show` is a section of the output.
    ///
    /// # Errors
    /// The first that is not, with its line.
    fn check_shown(&self, output: &str) -> Result<(), String> {
        let Some(Key { line, value }) = self.0.get("show") else {
            return Ok(());
        };
        for name in value.split(' ') {
            if !output.lines().any(|line| line == name) {
                return Err(format!("{line}: no program has a section `{name}`"));
            }
        }
        Ok(())
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.get(key)?;
        let number = value.replace('_', "").parse();
        Some(number.unwrap_or_else(|_| panic!("`{key}: {value}` is no number that fits")))
    }

    /// A typical rank, changed by `sizes`, a list of `NAME=NUMBER`.
    fn data(&self, program: &Program) -> RankData {
        let mut data = RankData::typical(program, self.number("features"));
        data.chunks = self.number("graph-chunks");
        if let Some(text) = self.get("sizes") {
            data.capacity = Capacity::of(sizes(text));
        }
        data
    }
}

fn sizes(text: &str) -> RankSizes {
    let (mut sizes, mut reach) = (RankSizes::default(), Reach::default());
    for pair in text.split_whitespace() {
        let (name, number) = pair.split_once('=').unwrap();
        let field = match name {
            "inner" => &mut sizes.inner,
            "train" => &mut sizes.train,
            "halo" => &mut sizes.halo,
            "edges" => &mut sizes.edges,
            "nonzeros" => &mut sizes.feature_nonzeros,
            "slice-nonzeros" => &mut sizes.slice_nonzeros,
            "vertices" => &mut sizes.vertices,
            "all-edges" => &mut sizes.all_edges,
            "max-degree" => &mut sizes.max_degree,
            "interior" => &mut reach.interior,
            "interior-edges" => &mut reach.interior_edges,
            "halo-edges" => &mut reach.halo_edges,
            _ => panic!("there are no sizes `{name}`"),
        };
        *field = number.parse().unwrap();
    }
    RankSizes { reach, ..sizes }
}

/// Output of a pass for a file.
fn run(pass: &str, keys: &Keys, text: &str) -> Result<String, String> {
    let programs = match pass {
        "lower" | "layouts" | "stages" => lowered(keys, text)?,
        _ => return on_program(pass, keys, text),
    };
    programs
        .iter()
        .try_for_each(|program| checked(keys, program))?;
    let shown = |name: &str| match keys.get("show") {
        Some(names) => names.split(' ').any(|one| one == name),
        None => true,
    };
    let texts = programs.iter().map(|program| {
        let sections = sections(program).into_iter();
        let shown = sections.filter(|section| shown(section.split('\n').next().unwrap_or("")));
        shown.collect::<Vec<_>>().join("\n")
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// The head of a listing, then its sections; each starts with its name.
fn sections(program: &Program) -> Vec<String> {
    let text = program.to_string();
    let sections = text.split("\n\n");
    sections
        .map(|section| format!("{}\n", section.trim_end()))
        .collect()
}

fn checked(keys: &Keys, program: &Program) -> Result<(), String> {
    let found = verify(program, &keys.data(program));
    found.map_err(|error| error.to_string())
}

fn on_program(pass: &str, keys: &Keys, text: &str) -> Result<String, String> {
    let program: Program = text.parse().map_err(|error| format!("{error}"))?;
    if pass == "verify" {
        return checked(keys, &program).map(|()| "verified\n".to_owned());
    }
    checked(keys, &program).map_err(|error| format!("before the pass: {error}"))?;
    let of = || keys.number("chunks").unwrap_or(2);
    let before = sections(&program);
    let program = match pass {
        "chunks" => chunks(program, of()),
        "cover" => cover(program).map_err(|error| error.to_string())?,
        "interior" => interior(program),
        "wire" => {
            let wire = keys.get("wire").unwrap_or("int8").parse()?;
            let encoded = encode(vec![program], wire).map_err(|error| error.to_string())?;
            encoded.into_iter().next().unwrap()
        }
        "overlap" => overlap(program),
        "storage" => {
            let storage = keys.get("storage").unwrap_or("bf16");
            let storage = Storage::ALL.iter().find(|one| one.name() == storage);
            store(vec![program], *storage.unwrap()).remove(0)
        }
        "offload" => {
            let budget = MemoryBudget {
                capacity: keys.data(&program).capacity,
                bytes: keys.number("bytes").unwrap_or(0),
                lacking: 0,
                lists: keys.get("lists") == Some("yes"),
            };
            let fitted = offload(&[program], &[budget]);
            fitted
                .map_err(|short| format!("{} bytes short", short.bytes))?
                .remove(0)
        }
        "simulate" => return priced(keys, &program),
        _ => panic!("there is no pass `{pass}`"),
    };
    checked(keys, &program).map_err(|error| format!("{program}\nafter the pass: {error}"))?;
    let mut after = sections(&program);
    after.retain(|section| !before.contains(section));
    match after.is_empty() {
        true => Ok("unchanged\n".to_owned()),
        false => Ok(after.join("\n")),
    }
}

/// The programs of a model. Reads `placement`, `workers`, `storage`, `skip`, `slices`, `layouts`,
/// `stages`, `rank`.
fn lowered(keys: &Keys, text: &str) -> Result<Vec<Program>, String> {
    let loaded = Loaded::new(
        &Source::new("model.gir", text.to_owned()),
        &LoadOptions::default(),
    );
    let loaded = loaded.map_err(|error| error.to_string())?;
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).map_err(|e| e.to_string())?;
    let workers = keys.number("workers").unwrap_or(2);
    let placement = keys.get("placement").unwrap_or("graph");
    let mut place = PlacementSpec::new(placement.parse().expect("a placement"), workers);
    let knobs = &mut place.knobs;
    knobs.overlap = Some(false);
    if let Some(storage) = keys.get("storage") {
        let storage = Storage::ALL.iter().find(|one| one.name() == storage);
        knobs.storage = *storage.unwrap();
    }
    knobs.equal_bits = keys.get("equal-bits").map(|value| value == "yes");
    knobs.skip = keys.get("skip").map(|rule| rule.parse().unwrap());
    knobs.slices = keys.get("slices").map(|mesh| mesh.parse().unwrap());
    if let Some(count) = keys.number("stages") {
        knobs.stages = Some(count);
        knobs.chunks = Some(keys.number("chunks").unwrap_or(2));
        knobs.virtual_stages = keys.number("turns");
        if let Some(layers) = keys.get("layers") {
            knobs.layers = layers.split(' ').map(|n| n.parse().unwrap()).collect();
        }
    }
    if let Some(layouts) = keys.get("layouts") {
        let all = |text: &str| -> Vec<Layout> {
            text.split(' ').map(|name| name.parse().unwrap()).collect()
        };
        knobs.layouts = all(layouts);
        knobs.eval_layouts = all(keys.get("eval-layouts").unwrap_or(layouts));
    }
    place.knobs = place.knobs.with_batches(&loaded.model.train.sampling);
    let programs = compiled
        .programs(&place)
        .map_err(|error| error.to_string())?;
    Ok(match keys.number::<usize>("rank") {
        Some(rank) => vec![programs[rank].clone()],
        None if place.stages().is_some() => programs,
        None => programs.into_iter().take(1).collect(),
    })
}

/// Cost of an epoch on a cluster: exact bytes, messages and kernels; seconds to three digits.
fn priced(keys: &Keys, program: &Program) -> Result<String, String> {
    let data = keys.data(program);
    let parts = Parts {
        groups: None,
        partitioner: gnnc::ir::plan::Partitioner::Metis,
        sizes: vec![*data.capacity.most(); program.ranks as usize],
        messages: Messages::Uniform,
        nodes: None,
        targets: None,
        cover: None,
        both_ends: None,
        alpha: 1.0,
        alpha_basis: gnnc::ir::plan::AlphaBasis::Measured,
        alpha_spread: 1.0,
        edge_imbalance: 1.0,
        edge_imbalance_basis: gnnc::ir::plan::AlphaBasis::Measured,
        basis: gnnc::ir::cluster::Basis::Measured,
        degrees: Default::default(),
        reads: Default::default(),
        chunks: Default::default(),
        batch: None,
    };
    let cluster = Cluster::named(keys.get("cluster").unwrap_or("t4x1"));
    let cluster = cluster.and_then(|c| c.resized(Some(program.ranks), Some(program.ranks)));
    let cluster = cluster.map_err(|error| error.to_string())?;
    let estimate = simulate(program, &cluster, &parts).map_err(|error| error.to_string())?;
    Ok(report(&estimate))
}

fn report(estimate: &Estimate) -> String {
    let mut text = String::new();
    let phases = [
        ("setup", &estimate.setup),
        ("step", &estimate.epoch),
        ("eval", &estimate.eval),
    ];
    for (name, cost) in phases
        .into_iter()
        .filter(|(_, cost)| !cost.breakdown.is_empty())
    {
        let (seconds, exposed) = (cost.seconds.0, cost.exposed_communication_seconds.0);
        writeln!(
            text,
            "{name}: {seconds:.2e} s, exposed {exposed:.2e} s, {} bytes",
            cost.bytes.0
        )
        .unwrap();
        for kind in &cost.breakdown {
            writeln!(
                text,
                "  {} x {}: {:.2e} s",
                kind.count, kind.name, kind.seconds.0
            )
            .unwrap();
        }
    }
    writeln!(text, "peak memory: {} bytes", estimate.peak_memory_bytes.0).unwrap();
    text
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut files: Vec<PathBuf> = entries(&root)
        .iter()
        .flat_map(|folder| entries(folder))
        .collect();
    files.sort();
    files
}

/// The first line in which two texts differ.
fn difference(found: &str, expected: &str) -> Option<String> {
    let (mut one, mut other) = (found.lines(), expected.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (one.next(), other.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let [a, b] = [a, b].map(|text| text.unwrap_or("the end"));
                return Some(format!(
                    "line {line} of the result is\n  {a}\nexpected\n  {b}"
                ));
            }
        }
    }
}

#[test]
fn passes_make_what_the_files_say() {
    let bless = std::env::var_os("GNNC_BLESS").is_some();
    let (mut failures, mut count) = (Vec::new(), 0);
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (input, expected) = text.split_once(BETWEEN).unwrap_or((&text, ""));
        let pass = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        count += 1;
        let keys = match Keys::of(input) {
            Ok(keys) => keys,
            Err(error) => {
                failures.push(format!("{}:{error}", path.display()));
                continue;
            }
        };
        let found = run(pass, &keys, input);
        if let Ok(output) = &found
            && let Err(error) = keys.check_shown(output)
        {
            failures.push(format!("{}:{error}", path.display()));
            continue;
        }
        let found = found.unwrap_or_else(|error| format!("error: {error}\n"));
        if found.contains("before the pass: ") || found.contains("after the pass: ") {
            failures.push(format!("{}: {found}", path.display()));
            continue;
        }
        let Some(difference) = difference(&found, expected) else {
            continue;
        };
        if bless {
            let input = input.trim_end();
            std::fs::write(&path, format!("{input}\n{BETWEEN}{found}")).unwrap();
        } else {
            failures.push(format!("{}: {difference}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count > 0, "there are no files");
}

#[test]
fn keys_that_there_are_not_are_refused() {
    let error = |text: &str| Keys::of(text).unwrap_err();
    assert_eq!(
        error("# A title: of words.\n# shows: step\n"),
        "2: there is no key `shows`"
    );
    assert_eq!(error("# rank: 0\n# rank: 1\n"), "2: `rank` is given twice");
    let keys = Keys::of("# show: program step\n").unwrap();
    let output = "step\n  map k1 over inner: b6 -> b7\n";
    assert_eq!(
        keys.check_shown(output).unwrap_err(),
        "1: no program has a section `program`"
    );
}
