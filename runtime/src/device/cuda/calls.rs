//! What libraries answer, as errors with the function's name and the library's words.

use crate::device::gpu::driver::DriverError;
use cudarc::cublas::result::CublasError;
use cudarc::driver::result;
use cudarc::driver::sys::CUresult;
use gnnc_codegen::cuda::libraries::LibraryError;
use gnnc_codegen::cuda::nvrtc::NvrtcError;
use std::ffi::CStr;

/// What the driver answered to `call`.
///
/// # Errors
/// The same with the name of the function.
pub fn check<T>(
    call: &'static str,
    answer: Result<T, result::DriverError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError::Call {
        call,
        message: words(error),
    })
}

/// The driver's name of an error, and what it means.
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
    // The driver says so at whatever is called after the launch.
    let hint = if wrong_code.contains(&error.0) {
        "; a kernel launched earlier failed, which is a bug: run under `compute-sanitizer` and \
         report it"
    } else {
        ""
    };
    format!("{name} ({meaning}){hint}")
}

/// What cuBLAS answered to `call`.
///
/// # Errors
/// The same with the name of the function.
pub fn check_product<T>(
    call: &'static str,
    answer: Result<T, CublasError>,
) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError::Call {
        call,
        message: format!("{:?}", error.0),
    })
}

/// A library that is not there, or too old.
pub fn missing(error: LibraryError) -> DriverError {
    DriverError::Missing(error.to_string())
}

/// A compiler that is not there, or refuses a text.
pub fn compiling(error: NvrtcError) -> DriverError {
    match error {
        NvrtcError::Library(error) => missing(error),
        error => DriverError::Code(error.to_string()),
    }
}

/// A number that nothing was given out for: a defect of the caller.
pub fn unknown(call: &'static str, what: &str, number: u32) -> DriverError {
    DriverError::Call {
        call,
        message: format!("there is no {what} {number}: a bug, please report it"),
    }
}
