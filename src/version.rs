//! Which gnnc this is.

use std::sync::LazyLock;

/// The version, with the commit if the build was told it by `GNNC_COMMIT`: `0.1.0` or `0.1.0 (a1b2c3d4e5)`.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        match option_env!("GNNC_COMMIT") {
            None | Some("") => version.to_owned(),
            Some(commit) => format!("{version} ({commit})"),
        }
    });
    &VERSION
}
