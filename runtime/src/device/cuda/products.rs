//! Dense products by cuBLAS, or by cuBLASLt if they have an epilogue.
//!
//! cuBLAS takes column-major matrices. A row-major matrix is its own transpose column-major, so the
//! row-major `out = a b` is the column-major `out^T = b^T a^T`: the operands change places and
//! nothing is copied. Sums are in 32-bit floats, whatever the storage of factors and results: TF32
//! is not requested, and partial sums are not added in 16 bits
//! (`CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`). Atomics stay disabled, which is cuBLAS's
//! default. Each stream has its own handle and workspace; otherwise results would not be
//! bit-identical in every run.

use super::calls::{check, check_product};
use super::epilogue::Epilogue;
use crate::device::gpu::driver::{Address, DriverError, Product};
use cudarc::cublas::{result, sys};
use cudarc::driver::{result as driver, sys::CUstream};
use gnnc_ir::words::storage::{Layout, Storage};
use std::ffi::c_void;

/// Bytes of a workspace, as NVIDIA recommends for Hopper.
pub const WORKSPACE: usize = 32 << 20;

/// A call of `cublasSgemm`, or of `cublasGemmEx` for 16-bit factors: `c = op(a) op(b)`,
/// column-major, `m` by `n`, summed over `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Whether each factor is transposed.
    pub transposed: [bool; 2],
    /// `m`, `n` and `k`.
    pub sizes: [i32; 3],
    /// The first factor and its stride.
    pub a: (Address, i32),
    /// The second factor and its stride.
    pub b: (Address, i32),
    /// The result and its stride.
    pub c: (Address, i32),
}

/// The call that computes a product of row-major matrices.
///
/// # Errors
/// If a size is 2^31 or more.
pub fn by_columns(product: &Product) -> Result<Gemm, DriverError> {
    let number = |what: &str, n: u64| {
        i32::try_from(n).map_err(|_| DriverError::Call {
            call: "cublasSgemm",
            message: format!("found {what} {n}, expected less than 2^31; use more ranks"),
        })
    };
    Ok(Gemm {
        transposed: [product.b_transposed, product.a_transposed],
        sizes: [
            number("columns", product.columns)?,
            number("rows", product.rows)?,
            number("a sum", product.inner)?,
        ],
        a: (product.b.at, number("a stride", product.b.stride)?),
        b: (product.a.at, number("a stride", product.a.stride)?),
        c: (product.out.at, number("a stride", product.out.stride)?),
    })
}

/// The handle of one stream.
#[derive(Debug)]
pub struct Products {
    handle: sys::cublasHandle_t,
    workspace: u64,
    epilogue: Option<Epilogue>,
}

impl Products {
    /// A handle with its workspace.
    ///
    /// # Errors
    /// If cuBLAS or the driver refuse.
    pub fn new(stream: CUstream) -> Result<Self, DriverError> {
        let handle = check_product("cublasCreate", result::create_handle())?;
        let mut made = Self {
            handle,
            workspace: 0,
            epilogue: None,
        };
        // SAFETY: this only allocates memory.
        made.workspace = check("cuMemAlloc", unsafe { driver::malloc_sync(WORKSPACE) })?;
        // SAFETY: handle, stream and workspace exist. Setting a stream resets the workspace, so it
        // comes first.
        unsafe {
            check_product("cublasSetStream", result::set_stream(handle, stream.cast()))?;
            let workspace = made.workspace as *mut _;
            let set = sys::cublasSetWorkspace_v2(handle, workspace, WORKSPACE).result();
            check_product("cublasSetWorkspace", set)?;
            let mode = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
            check_product(
                "cublasSetMathMode",
                sys::cublasSetMathMode(handle, mode).result(),
            )?;
        }
        Ok(made)
    }

    /// The handle of a stream, created for its first product.
    ///
    /// # Errors
    /// As [`Products::new`].
    pub fn of(made: &mut Option<Self>, stream: CUstream) -> Result<&mut Self, DriverError> {
        let kept = match made.take() {
            Some(kept) => kept,
            None => Self::new(stream)?,
        };
        Ok(made.insert(kept))
    }

    fn epilogue(&mut self) -> Result<&mut Epilogue, DriverError> {
        let epilogue = match self.epilogue.take() {
            Some(epilogue) => epilogue,
            None => Epilogue::new()?,
        };
        Ok(self.epilogue.insert(epilogue))
    }

    /// Whether cuBLASLt has an algorithm for this product including its epilogue.
    ///
    /// # Errors
    /// As [`Products::multiply`].
    pub fn ends(&mut self, product: &Product) -> Result<bool, DriverError> {
        match product.end {
            Some(end) if product.rows > 0 && product.columns > 0 && product.inner > 0 => {
                self.epilogue()?.knows(product, end)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Enqueues a product.
    ///
    /// # Errors
    /// Sizes cuBLAS does not accept, or any other error of it.
    pub fn multiply(&mut self, stream: CUstream, product: &Product) -> Result<(), DriverError> {
        if product.rows == 0 || product.columns == 0 {
            return Ok(());
        }
        if product.inner == 0 {
            return cleared(stream, product);
        }
        if let Some(end) = product.end {
            return self.epilogue()?.multiply(stream, product, end);
        }
        let gemm = by_columns(product)?;
        let op = |transposed: bool| match transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let [m, n, k] = gemm.sizes;
        if !product.factors.is_f32() {
            return self.halves(&gemm, product);
        }
        let pointer = |address: Address| address.0 as *mut f32;
        // SAFETY: the caller vouches for the matrices; the scalars are read immediately.
        let answer = unsafe {
            result::sgemm(
                self.handle,
                op(gemm.transposed[0]),
                op(gemm.transposed[1]),
                m,
                n,
                k,
                &1.0,
                pointer(gemm.a.0),
                gemm.a.1,
                pointer(gemm.b.0),
                gemm.b.1,
                &0.0,
                pointer(gemm.c.0),
                gemm.c.1,
            )
        };
        check_product("cublasSgemm", answer)
    }

    fn halves(&self, gemm: &Gemm, product: &Product) -> Result<(), DriverError> {
        let op = |transposed: bool| match transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let [m, n, k] = gemm.sizes;
        let (factors, result_type) = (element(product.factors), element(product.result));
        let pointer = |address: Address| address.0 as *mut c_void;
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: the caller vouches for the matrices; the scalars are read immediately.
        let answer = unsafe {
            result::gemm_ex(
                self.handle,
                op(gemm.transposed[0]),
                op(gemm.transposed[1]),
                m,
                n,
                k,
                (&raw const one).cast(),
                pointer(gemm.a.0),
                factors,
                gemm.a.1,
                pointer(gemm.b.0),
                factors,
                gemm.b.1,
                (&raw const zero).cast(),
                pointer(gemm.c.0),
                result_type,
                gemm.c.1,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        check_product("cublasGemmEx", answer)
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`. Nobody is left to report a failure to.
        unsafe {
            let _ = result::destroy_handle(self.handle);
            if self.workspace != 0 {
                let _ = driver::free_sync(self.workspace);
            }
        }
    }
}

/// What cuBLAS calls the elements of a matrix.
fn element(storage: Storage) -> sys::cudaDataType {
    match storage.layout() {
        None => sys::cudaDataType::CUDA_R_32F,
        Some(Layout::Bfloat16) => sys::cudaDataType::CUDA_R_16BF,
        Some(Layout::Binary16) => sys::cudaDataType::CUDA_R_16F,
    }
}

/// An empty sum: writes zeros.
fn cleared(stream: CUstream, product: &Product) -> Result<(), DriverError> {
    let bytes = product.result.bytes() as usize;
    let (pitch, width) = (
        product.out.stride as usize * bytes,
        product.columns as usize,
    );
    // SAFETY: the caller vouches for the matrix.
    let answer = unsafe {
        cudarc::driver::sys::cuMemsetD2D8Async(
            product.out.at.0,
            pitch,
            0,
            width * bytes,
            product.rows as usize,
            stream,
        )
    };
    check("cuMemsetD2D8Async", answer.result())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::driver::Matrix;

    /// `cublasSgemm` as documented; addresses are indices into `memory`.
    fn run(gemm: &Gemm, memory: &mut [f32]) {
        let [m, n, k] = gemm.sizes.map(|s| s as usize);
        let at = |(start, stride): (Address, i32), row: usize, column: usize| {
            start.0 as usize + column * stride as usize + row
        };
        for i in 0..m {
            for j in 0..n {
                let term = |l: usize| {
                    let (ar, ac) = if gemm.transposed[0] { (l, i) } else { (i, l) };
                    let (br, bc) = if gemm.transposed[1] { (j, l) } else { (l, j) };
                    memory[at(gemm.a, ar, ac)] * memory[at(gemm.b, br, bc)]
                };
                memory[at(gemm.c, i, j)] = (0..k).map(term).sum();
            }
        }
    }

    #[test]
    fn operands_change_places() {
        let (rows, inner, columns) = (3, 4, 2);
        for (a_transposed, b_transposed) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let matrix = |at, stride| Matrix {
                at: Address(at),
                stride,
            };
            // Strides beyond the width: the gaps between rows must stay unchanged.
            let product = Product {
                a_transposed,
                b_transposed,
                a: matrix(0, 7),
                b: matrix(50, 6),
                out: matrix(100, 5),
                rows,
                inner,
                columns,
                factors: Storage::F32,
                result: Storage::F32,
                end: None,
            };
            let mut memory: Vec<f32> = (0..150).map(|i| (i * i % 17) as f32).collect();
            let before = memory.clone();
            run(&by_columns(&product).expect("small"), &mut memory);
            for r in 0..rows {
                for c in 0..5 {
                    let place = (100 + r * 5 + c) as usize;
                    if c >= columns {
                        assert_eq!(memory[place], before[place]);
                        continue;
                    }
                    let term = |l: u64| {
                        let a = if a_transposed { l * 7 + r } else { r * 7 + l };
                        let b = if b_transposed { c * 6 + l } else { l * 6 + c };
                        before[a as usize] * before[50 + b as usize]
                    };
                    assert_eq!(memory[place], (0..inner).map(term).sum::<f32>());
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_is_said() {
        let matrix = Matrix {
            at: Address(0),
            stride: 1,
        };
        let product = Product {
            a_transposed: false,
            b_transposed: false,
            a: matrix,
            b: matrix,
            out: matrix,
            rows: 1 << 31,
            inner: 1,
            columns: 1,
            factors: Storage::F32,
            result: Storage::F32,
            end: None,
        };
        let error = by_columns(&product).expect_err("too many rows").to_string();
        assert!(error.contains("found rows 2147483648"), "{error}");
    }
}
