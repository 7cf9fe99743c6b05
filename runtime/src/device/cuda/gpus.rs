//! The GPUs of this machine, and their contexts.

use super::calls::{check, missing, words};
use crate::device::gpu::driver::DriverError;
use cudarc::driver::result::{self, ctx, device, primary_ctx};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use gnnc_codegen::cuda::libraries::{Found, Part};
use serde::Serialize;
use std::path::PathBuf;

/// Functions missing from drivers before CUDA 12.8.
const NEW: [&std::ffi::CStr; 2] = [c"cuEventElapsedTime_v2", c"cuFuncLoad"];

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its index.
    pub number: u32,
    /// NVIDIA's name for it.
    pub name: String,
    /// The architecture that code is compiled for, such as `sm_90`.
    pub arch: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
}

/// The GPUs of this machine, by index; at least one.
///
/// # Errors
/// If there is no driver, an old driver, or no GPU.
pub fn gpus(folders: &[PathBuf]) -> Result<Vec<Gpu>, DriverError> {
    start(folders)?;
    let count = check("cuDeviceGetCount", device::get_count())?;
    (0..count).map(about).collect()
}

/// The GPU with this index.
///
/// # Errors
/// As [`gpus`]; if no GPU has this index.
pub fn gpu(number: u32, folders: &[PathBuf]) -> Result<Gpu, DriverError> {
    let mut all = gpus(folders)?;
    if number as usize >= all.len() {
        let last = all.len().saturating_sub(1);
        return Err(DriverError::Missing(format!(
            "found GPU number {number}, expected 0 to {last}; `gnnc devices` lists them"
        )));
    }
    Ok(all.swap_remove(number as usize))
}

/// Loads and initializes the driver.
fn start(folders: &[PathBuf]) -> Result<Found, DriverError> {
    let driver = Part::Driver.load(folders).map_err(missing)?;
    driver.require(&NEW).map_err(missing)?;
    match result::init() {
        Ok(()) => Ok(driver),
        Err(error) => Err(DriverError::Missing(no_gpu(&driver, error))),
    }
}

fn no_gpu(driver: &Found, error: result::DriverError) -> String {
    let advice = match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            "no GPU is visible; check that `nvidia-smi` lists one, and CUDA_VISIBLE_DEVICES"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "the library does not match the kernel's driver; reboot after an update"
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "this is the toolkit's stub; put the driver's own library first"
        }
        _ => "check `nvidia-smi`",
    };
    format!(
        "the GPU cannot be used: {}, version {}, says {}; {advice}, or train with --device cpu",
        driver.file().display(),
        driver.version().map(|n| n.to_string()).join("."),
        words(error)
    )
}

fn about(number: i32) -> Result<Gpu, DriverError> {
    let gpu = check("cuDeviceGet", device::get(number))?;
    let attribute = |which| {
        // SAFETY: the driver just returned this device.
        let value = unsafe { device::get_attribute(gpu, which) };
        check("cuDeviceGetAttribute", value)
    };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    // SAFETY: as above.
    let memory = check("cuDeviceTotalMem", unsafe { device::total_mem(gpu) })?;
    Ok(Gpu {
        number: number as u32,
        name: check("cuDeviceGetName", device::get_name(gpu))?,
        arch: format!("sm_{major}{minor}"),
        memory_bytes: memory as u64,
        multiprocessors: multiprocessors as u32,
    })
}

/// The primary context of a GPU; cuBLAS and NCCL use it too.
#[derive(Debug)]
pub struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Its GPU.
    pub gpu: Gpu,
}

impl Context {
    /// The primary context of GPU `number`.
    ///
    /// # Errors
    /// As [`gpus`]; if no GPU has this index.
    pub fn new(number: u32, folders: &[PathBuf]) -> Result<Self, DriverError> {
        let gpu = gpu(number, folders)?;
        let device = check("cuDeviceGet", device::get(number as i32))?;
        // SAFETY: the driver just returned this device.
        let context = check("cuDevicePrimaryCtxRetain", unsafe {
            primary_ctx::retain(device)
        })?;
        let made = Self {
            device,
            context,
            gpu,
        };
        made.enter()?;
        Ok(made)
    }

    /// Makes this the current context of the calling thread.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained until this value is dropped.
        check("cuCtxSetCurrent", unsafe { ctx::set_current(self.context) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once, released once. Nobody is left to report a failure to.
        let _ = unsafe { primary_ctx::release(self.device) };
    }
}
