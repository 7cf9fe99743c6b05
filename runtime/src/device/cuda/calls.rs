//! Turns the answers of libraries into errors with the function's name and the library's words.

use crate::device::gpu::driver::DriverError;
use cudarc::cublas::result::CublasError;
use cudarc::driver::result;
use cudarc::driver::sys::CUresult;
use gnnc_codegen::cuda::libraries::LibraryError;
use gnnc_codegen::cuda::nvrtc::NvrtcError;
use std::ffi::CStr;

/// Converts the driver's answer to `call`.
///
/// # Errors
/// The driver's error with the name of the function.
pub fn check<T>(
    call: &'static str,
    answer: Result<T, result::DriverError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError::Call {
        call,
        message: words(error),
    })
}

/// The driver's name for an error, and its meaning.
pub fn words(error: result::DriverError) -> String {
    let text = |text: Result<&CStr, result::DriverError>| {
        text.map_or_else(
            |_| format!("error {}", error.0 as u32),
            |text| text.to_string_lossy().into_owned(),
        )
    };
    let (name, meaning) = (text(error.error_name()), text(error.error_string()));
    let wrong_code = [
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
    ];
    // The driver reports this at any call after the launch.
    let hint = if wrong_code.contains(&error.0) {
        "; a kernel launched earlier failed, which is a bug: run under `compute-sanitizer` and \
         report it"
    } else {
        ""
    };
    format!("{name} ({meaning}){hint}")
}

/// Converts cuBLAS's answer to `call`.
///
/// # Errors
/// cuBLAS's error with the name of the function.
pub fn check_product<T>(
    call: &'static str,
    answer: Result<T, CublasError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError::Call {
        call,
        message: format!("{:?}", error.0),
    })
}

/// The error of a missing or outdated library.
pub fn missing(error: LibraryError) -> DriverError {
    DriverError::Missing(error.to_string())
}

/// The error of a compiler that is missing or rejects a text.
pub fn compiling(error: NvrtcError) -> DriverError {
    match error {
        NvrtcError::Library(error) => missing(error),
        error => DriverError::Code(error.to_string()),
    }
}

/// The error of an index that was never issued, which is a defect of the caller.
pub fn unknown(call: &'static str, what: &str, number: u32) -> DriverError {
    DriverError::Call {
        call,
        message: format!("there is no {what} {number}: a bug, please report it"),
    }
}
