//! Writes the seeds of every target to `corpus/TARGET`, where cargo-fuzz looks for them.

use gnnc_fuzz::{TARGETS, seeds};
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    for (target, _) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target);
        fs::create_dir_all(&folder)?;
        for (i, seed) in seeds::of(target).iter().enumerate() {
            fs::write(folder.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}
