//! NVRTC compiles the CUDA C of the kernels of all examples, without register spills.
//!
//! NVRTC is searched in the folder that `GNNC_NVRTC` names (a toolkit's `lib64`, or the folder
//! of Python packages), and in `.venv-nvrtc`, where `scripts/nvrtc.sh` installs it. Without
//! NVRTC, these tests are skipped and print that. They need no GPU and use none.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

#[path = "../codegen/tests/support/mod.rs"]
mod support;

#[path = "cuda/passes.rs"]
mod passes;
#[path = "cuda/ptx.rs"]
mod ptx;

use gnnc::Cache;
use gnnc::codegen::cuda::cubin::Cubins;
use gnnc::codegen::cuda::library::{self, Entry};
use gnnc::codegen::cuda::nvrtc::{Nvrtc, wheel_folders};
use gnnc::codegen::cuda::{Source, generate, module};
use gnnc::ir::kernel::Kernel;
use gnnc::ir::plan::Placement;
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{LoadOptions, Loaded};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PLACEMENTS: [Placement; 2] = [Placement::Graph, Placement::Tensor];
/// The version for which the register summaries were made.
const VERSION: [i32; 2] = [13, 0];

/// The distinct kernels of all examples, on one rank and on four, for a storage format. Names
/// start with the kind of kernel.
fn kernels(storage: Storage) -> &'static [(&'static str, Source)] {
    type Kernels = OnceLock<Vec<(&'static str, Source)>>;
    static KERNELS: [Kernels; 3] = [const { OnceLock::new() }; 3];
    KERNELS[storage as usize].get_or_init(|| {
        // Equal kernels have equal texts.
        let mut texts: BTreeMap<String, Kernel> = BTreeMap::new();
        for entry in std::fs::read_dir(Path::new(ROOT).join("examples")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "gir") {
                continue;
            }
            let source = gnnc::Source::read(&path).unwrap();
            let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
            let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
            let places = PLACEMENTS.into_iter().flat_map(|p| [(p, 1), (p, 4)]);
            let places = places.map(|(placement, ranks)| PlacementSpec::new(placement, ranks));
            let mut clipped = PlacementSpec::new(Placement::SkipBroadcast, 4);
            clipped.knobs.skip = Some("fixed:1/stop/clip:1".parse().unwrap());
            for mut place in places.chain([clipped]) {
                place.knobs.storage = storage;
                for program in compiled.programs(&place).unwrap() {
                    for kernel in program.kernels {
                        let text = generate(&kernel, "kernel").unwrap().text;
                        texts.entry(text).or_insert(kernel);
                    }
                }
            }
        }
        let named = |(i, kernel): (usize, &Kernel)| {
            let kind = kernel.body.name();
            let name = format!("{}_{i}", kind.replace('-', "_"));
            (kind, generate(kernel, &name).unwrap())
        };
        texts.values().enumerate().map(named).collect()
    })
}

fn nvrtc(test: &str) -> Option<Nvrtc> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(named) = std::env::var_os("GNNC_NVRTC").map(PathBuf::from) {
        folders.extend(wheel_folders(&named));
        folders.push(named);
    }
    folders.extend(wheel_folders(&Path::new(ROOT).join(".venv-nvrtc")));
    folders.push("/usr/local/cuda/lib64".into());
    match Nvrtc::load(&folders) {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            println!("skipped {test}: {error}");
            None
        }
    }
}

#[test]
fn the_examples_have_many_kernels() {
    let kernels = kernels(Storage::F32);
    for kind in [
        "map",
        "edge-map",
        "spmm",
        "spmm-t",
        "row-reduce",
        "sddmm",
        "col-reduce",
        "edge-pass",
        "edge-pass-t",
    ] {
        let count = kernels.iter().filter(|(k, _)| *k == kind).count();
        assert!(count > 0, "no example has a {kind} kernel");
    }
}

#[test]
fn kernels_of_the_examples_compile_for_sm_80() {
    compile("sm_80", Storage::F32);
}

#[test]
fn kernels_of_the_examples_compile_for_sm_90() {
    compile("sm_90", Storage::F32);
}

#[test]
fn kernels_of_the_examples_in_16_bits_compile() {
    compile("sm_80", Storage::Bf16);
    compile("sm_90", Storage::Bf16);
    compile("sm_90", Storage::F16);
}

/// A 16-byte load holds 8 elements.
#[test]
fn rows_of_16_bits_are_read_16_bytes_at_a_time() {
    let texts = || {
        kernels(Storage::Bf16)
            .iter()
            .map(|(_, source)| &source.text)
    };
    assert!(texts().any(|text| text.contains("*(const uint4 *)(in")));
    assert!(texts().any(|text| text.contains("make_uint4(")));
    let mut floats = kernels(Storage::F32).iter().map(|(_, source)| &source.text);
    assert!(floats.all(|text| !text.contains("u16") && !text.contains("bf16")));
}

/// The code shared by all models.
#[test]
fn the_library_compiles() {
    for arch in ["sm_80", "sm_90"] {
        let Some(nvrtc) = nvrtc("the library") else {
            return;
        };
        let text = module([]) + &library::text();
        let binary = nvrtc.compile(&text, "library.cu", arch).unwrap();
        let ptx = String::from_utf8_lossy(&binary.ptx).into_owned();
        for entry in Entry::ALL.map(Entry::name) {
            assert!(ptx.contains(&format!(".entry {entry}(")), "{entry}");
            let usage = binary.usage.iter().find(|usage| usage.entry == entry);
            let usage = usage.unwrap_or_else(|| panic!("{entry}: {}", binary.log));
            assert_eq!(usage.spills, [0, 0], "{usage:?}");
        }
    }
}

/// Rows with widths that no vector divides, such as the features and classes of Reddit,
/// contiguous and inside a wider matrix.
#[test]
fn odd_widths_do_not_spill() {
    let mut sources = Vec::new();
    for form in support::kernels::forms() {
        for width in [7, 41, 602] {
            let name = format!("k{}", sources.len());
            let kernel = support::kernels::dense_kernel(form, 1, width);
            sources.push((
                format!("{form:?} {width}"),
                generate(&kernel, &name).unwrap(),
            ));
        }
    }
    for arch in ["sm_80", "sm_90"] {
        let Some(nvrtc) = nvrtc("odd_widths_do_not_spill") else {
            return;
        };
        let text = module(sources.iter().map(|(_, source)| source));
        let binary = nvrtc.compile(&text, "odd.cu", arch).unwrap();
        let mut spilled = String::new();
        for (name, source) in &sources {
            for entry in source.schedule.entries() {
                let usage = binary.usage.iter().find(|usage| usage.entry == entry);
                let usage = usage.unwrap_or_else(|| panic!("{entry}: {}", binary.log));
                if usage.spills != [0, 0] {
                    writeln!(spilled, "{name}: {usage:?}").unwrap();
                }
            }
        }
        assert_eq!(spilled, "", "{arch}: registers are spilled");
    }
}

/// Compiles all kernels and keeps a summary of their resources.
fn compile(arch: &str, storage: Storage) {
    let Some(nvrtc) = nvrtc(arch) else {
        return;
    };
    let mut kinds: BTreeMap<&str, (usize, u32, u32, u32)> = BTreeMap::new();
    let mut spilled = String::new();
    // In groups, because compile time grows faster than the text.
    for some in kernels(storage).chunks(64) {
        let text = module(some.iter().map(|(_, source)| source));
        let binary = nvrtc.compile(&text, "examples.cu", arch).unwrap();
        let ptx = String::from_utf8_lossy(&binary.ptx).into_owned();
        assert!(ptx.contains(&format!(".target {arch}")));
        assert!(binary.cubin.starts_with(b"\x7fELF"), "no machine code");
        for (kind, source) in some {
            for entry in source.schedule.entries() {
                assert!(ptx.contains(&format!(".entry {entry}(")), "{entry}");
                let usage = binary.usage.iter().find(|usage| usage.entry == entry);
                let usage = usage.unwrap_or_else(|| panic!("{entry}: {}", binary.log));
                if usage.spills != [0, 0] {
                    writeln!(spilled, "{usage:?}\n{}", source.text).unwrap();
                }
                let found = kinds.entry(kind).or_insert((0, u32::MAX, 0, 0));
                *found = (
                    found.0 + 1,
                    found.1.min(usage.registers),
                    found.2.max(usage.registers),
                    found.3.max(usage.shared_bytes),
                );
            }
        }
    }
    assert!(spilled.is_empty(), "registers are spilled:\n{spilled}");
    let mut summary = String::new();
    for (kind, (entries, least, most, shared)) in kinds {
        let line = "entry points, registers of a thread";
        writeln!(
            summary,
            "{kind}: {entries} {line} {least} to {most}, shared bytes up to {shared}"
        )
        .unwrap();
    }
    let version = nvrtc.version();
    if version == VERSION {
        let name = match storage {
            Storage::F32 => format!("registers-{arch}"),
            storage => format!("registers-{storage}-{arch}"),
        };
        insta::assert_snapshot!(name, summary);
    } else {
        println!(
            "skipped the summary of registers: made with NVRTC {VERSION:?}, this is {version:?}"
        );
    }
}

/// Machine code is found on disk by its text and architecture; a damaged file is rewritten.
#[test]
fn machine_code_is_kept() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cubins");
    let _ = std::fs::remove_dir_all(&folder);
    let text = module(
        kernels(Storage::F32)
            .iter()
            .take(1)
            .map(|(_, source)| source),
    );
    let code = |text: &str, arch: &str| {
        let mut cubins = Cubins::new(
            nvrtc("machine_code_is_kept")?,
            Some(Cache::open(&folder).unwrap()),
        );
        let code = cubins.machine_code(text, arch).unwrap();
        Some((code, cubins.compiled(), cubins.found()))
    };
    let Some((first, 1, 0)) = code(&text, "sm_90") else {
        assert!(nvrtc("machine_code_is_kept").is_none());
        return;
    };
    assert!(first.starts_with(b"\x7fELF"));
    assert_eq!(code(&text, "sm_90"), Some((first.clone(), 0, 1)));
    let other = code(&text, "sm_80").unwrap();
    assert_ne!(other.0, first);
    assert_eq!(other.1, 1, "another architecture");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(code(&text, "sm_90"), Some((first.clone(), 1, 0)));
    assert_eq!(code(&text, "sm_90"), Some((first, 0, 1)), "written anew");
}

/// The text of one kernel of every kind, from a model with attention.
#[test]
fn texts_of_kernels() {
    let path = Path::new(ROOT).join("examples/gat_cora.gir");
    let source = gnnc::Source::read(&path).unwrap();
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let place = PlacementSpec::new(Placement::Graph, 1);
    let program = compiled.program(&place).unwrap();
    let mut seen = Vec::new();
    for kernel in &program.kernels {
        let kind = kernel.body.name();
        if !seen.contains(&kind) {
            seen.push(kind);
            let text = generate(kernel, "kernel").unwrap().text;
            insta::assert_snapshot!(format!("gat-{kind}"), text);
        }
    }
    assert!(seen.len() >= 5, "{seen:?}");
}
