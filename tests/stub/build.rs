//! Builds the stubs, once per process.

use gnnc::codegen::cuda::libraries::Part;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const LIBRARIES: [(&str, &str); 5] = [
    ("cuda.c", "libcuda.so.1"),
    ("nvrtc.c", "libnvrtc.so.13"),
    ("cublas.c", "libcublas.so.13"),
    ("cublaslt.c", "libcublasLt.so.13"),
    ("nccl.c", "libnccl.so.2"),
];

/// The folder of the stubs, or `None` with a printed reason.
pub fn folder(test: &str) -> Option<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOLDER.get_or_init(made) {
        Ok(folder) => Some(folder.clone()),
        Err(why) => {
            println!("skipped {test}: {why}");
            None
        }
    }
}

fn made() -> Result<PathBuf, String> {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stub");
    let folder = parent.join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for (source, library) in LIBRARIES {
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-w", "-shared", "-fPIC"]);
        cc.arg(format!("-DSHIM=\"{ROOT}/codegen/tests/cuda/shim.c\""));
        cc.arg(format!("-DFOLDER=\"{}\"", parent.display()));
        cc.arg(format!("-Wl,-soname,{library}"));
        cc.arg("-o").arg(folder.join(library));
        cc.arg(Path::new(ROOT).join("tests/stub").join(source));
        let made = cc
            .output()
            .map_err(|_| "there is no C compiler `cc`".to_owned())?;
        let messages = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{library}: {messages}");
    }
    for part in Part::ALL {
        let found = part.load(std::slice::from_ref(&folder)).unwrap().file();
        if !found.starts_with(&folder) {
            return Err(format!("{} is {}", part.name(), found.display()));
        }
    }
    Ok(folder)
}
