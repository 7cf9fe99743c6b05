//! The device of a test, for its exclusive use.

use gnnc::Cache;
use gnnc::runtime::device::cuda::{Live, LiveOptions};
use gnnc::runtime::device::gpu::driver::DriverError;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device that no other test of this process uses meanwhile.
pub struct Open {
    live: Live,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Open {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.live
    }
}

impl DerefMut for Open {
    fn deref_mut(&mut self) -> &mut Live {
        &mut self.live
    }
}

/// Where machine code is cached.
pub fn cache() -> Cache {
    let named = std::env::var_os("GNNC_CACHE").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"));
    Cache::open(&folder).unwrap()
}

/// Waits until no other test of this process uses a device.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// GPU 0 with the libraries of some folders, or `None` with a printed reason.
pub fn open(test: &str, folders: Vec<PathBuf>) -> Option<Open> {
    let alone = alone();
    let options = LiveOptions {
        gpu: 0,
        folders,
        cache: Some(cache()),
        processes: None,
    };
    match Live::open(&options) {
        Ok(live) => Some(Open {
            live,
            _alone: alone,
        }),
        Err(DriverError::Missing(why)) => {
            println!("skipped {test}: {why}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}
