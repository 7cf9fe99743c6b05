//! Dense products with an epilogue, by cuBLASLt.
//!
//! Adding a row to all rows of a row-major result is, column-major, adding it to all columns: the
//! bias of the library's epilogues. The algorithm for each shape is requested once and kept, so
//! that all runs and replays use the same one. A request takes longer than many products, and batches
//! have another number of rows each time, so shapes of about as many rows share one.

use super::calls::check;
use super::products::{Gemm, WORKSPACE, by_columns};
use crate::device::gpu::driver::{Address, DriverError, Product, ProductEnd};
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasLtEpilogue_t as Kind, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtReductionScheme_t as Reduction,
    cublasStatus_t as Status,
};
use cudarc::driver::{result as driver, sys::CUstream};
use gnnc_ir::words::storage::{Layout, Storage};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// The properties that determine the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    transposed: [bool; 2],
    sizes: [i32; 3],
    strides: [i32; 3],
    storages: [Storage; 2],
    biased: bool,
    relu: bool,
    /// Alignment in bytes, up to 16, of factors and result.
    aligned: [u32; 3],
}

impl Shape {
    /// The shape with its columns, which are the rows of a row-major result, rounded up by less than an
    /// eighth. A transposed factor has them side by side, with a stride that may be too short for more.
    fn rounded(self) -> Self {
        let [m, n, k] = self.sizes;
        let step = 1u32 << n.max(1).ilog2().saturating_sub(3);
        let more = n.unsigned_abs().next_multiple_of(step);
        let more = i32::try_from(more).ok().filter(|_| !self.transposed[1]);
        Self {
            sizes: [m, more.unwrap_or(n), k],
            ..self
        }
    }
}

/// The handle of one stream.
#[derive(Debug)]
pub struct Epilogue {
    handle: sys::cublasLtHandle_t,
    workspace: u64,
    /// The algorithm of each shape; `None` where cuBLASLt has none.
    known: BTreeMap<Shape, Option<sys::cublasLtMatmulAlgo_t>>,
}

/// Descriptors of one product, destroyed on drop.
#[derive(Default)]
struct Described {
    product: Option<sys::cublasLtMatmulDesc_t>,
    layouts: Vec<sys::cublasLtMatrixLayout_t>,
    preference: Option<sys::cublasLtMatmulPreference_t>,
}

/// Converts cuBLASLt's answer to `call`.
fn answered<T>(call: &'static str, answer: Result<T, CublasError>) -> Result<T, DriverError> {
    answer.map_err(|error| DriverError::Call {
        call,
        message: format!("{:?}", error.0),
    })
}

/// What cuBLASLt calls the elements of a matrix. Its bindings have a type of their own for it.
fn element(storage: Storage) -> sys::cudaDataType {
    match storage.layout() {
        None => sys::cudaDataType::CUDA_R_32F,
        Some(Layout::Bfloat16) => sys::cudaDataType::CUDA_R_16BF,
        Some(Layout::Binary16) => sys::cudaDataType::CUDA_R_16F,
    }
}

/// Alignment of an address, a power of two up to 16. No load is wider, and a larger limit would
/// make the algorithm depend on where memory happens to be.
fn aligned(at: Address) -> u32 {
    1 << at.0.trailing_zeros().min(4)
}

/// The properties that determine the algorithm of a product with this epilogue.
fn shape(gemm: &Gemm, product: &Product, end: ProductEnd) -> Shape {
    Shape {
        transposed: gemm.transposed,
        sizes: gemm.sizes,
        strides: [gemm.a.1, gemm.b.1, gemm.c.1],
        storages: [product.factors, product.result],
        biased: end.bias.is_some(),
        relu: end.relu,
        aligned: [gemm.a.0, gemm.b.0, gemm.c.0].map(aligned),
    }
}

impl Epilogue {
    /// A handle with its workspace.
    ///
    /// # Errors
    /// If cuBLASLt or the driver refuse.
    pub fn new() -> Result<Self, DriverError> {
        let mut made = Self {
            handle: answered("cublasLtCreate", result::create_handle())?,
            workspace: 0,
            known: BTreeMap::new(),
        };
        // SAFETY: this only allocates memory.
        made.workspace = check("cuMemAlloc", unsafe { driver::malloc_sync(WORKSPACE) })?;
        Ok(made)
    }

    /// Whether there is an algorithm for a product with its end; no size of it is 0.
    ///
    /// # Errors
    /// As [`Epilogue::multiply`].
    pub fn knows(&mut self, product: &Product, end: ProductEnd) -> Result<bool, DriverError> {
        let shape = shape(&by_columns(product)?, product, end);
        Ok(self.algorithm(shape.rounded(), end.bias)?.is_some())
    }

    /// The algorithm for a shape, requested only once.
    fn algorithm(
        &mut self,
        shape: Shape,
        bias: Option<Address>,
    ) -> Result<Option<sys::cublasLtMatmulAlgo_t>, DriverError> {
        if let Some(known) = self.known.get(&shape) {
            return Ok(*known);
        }
        let chosen = Described::new(&shape, bias)?.choose(self.handle, &shape)?;
        self.known.insert(shape, chosen);
        Ok(chosen)
    }

    /// Enqueues a product with its epilogue; no size may be 0.
    ///
    /// # Errors
    /// Sizes cuBLASLt does not accept, or any other error of it.
    pub fn multiply(
        &mut self,
        stream: CUstream,
        product: &Product,
        end: ProductEnd,
    ) -> Result<(), DriverError> {
        let gemm = by_columns(product)?;
        let shape = shape(&gemm, product, end);
        let described = Described::new(&shape, end.bias)?;
        let rounded = shape.rounded();
        let algorithm = self.algorithm(rounded, end.bias)?;
        let refused = CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED);
        let mut answer = self.enqueue(stream, &gemm, &described, algorithm);
        if answer == Err(refused) && rounded != shape {
            // The algorithm of the rounded shape does not take this one.
            let algorithm = self.algorithm(shape, end.bias)?;
            answer = self.enqueue(stream, &gemm, &described, algorithm);
        }
        answered("cublasLtMatmul", answer)
    }

    /// Enqueues a product by an algorithm, if there is one.
    fn enqueue(
        &self,
        stream: CUstream,
        gemm: &Gemm,
        described: &Described,
        algorithm: Option<sys::cublasLtMatmulAlgo_t>,
    ) -> Result<(), CublasError> {
        let algorithm = algorithm.ok_or(CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED))?;
        let (Some(product), [a, b, c]) = (described.product, &described.layouts[..]) else {
            return Ok(());
        };
        let pointer = |address: Address| address.0 as *mut c_void;
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: the caller vouches for the matrices; descriptors and scalars are read
        // immediately.
        unsafe {
            result::matmul(
                self.handle,
                product,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                pointer(gemm.a.0),
                *a,
                pointer(gemm.b.0),
                *b,
                pointer(gemm.c.0),
                *c,
                pointer(gemm.c.0),
                *c,
                &raw const algorithm,
                self.workspace as *mut c_void,
                WORKSPACE,
                stream.cast(),
            )
        }
    }
}

impl Drop for Epilogue {
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

impl Described {
    fn new(shape: &Shape, bias: Option<Address>) -> Result<Self, DriverError> {
        let mut made = Self::default();
        made.product(shape, bias)?;
        made.layouts(shape)?;
        Ok(made)
    }

    fn product(&mut self, shape: &Shape, bias: Option<Address>) -> Result<(), DriverError> {
        let (computed, scaled) = (
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType::CUDA_R_32F,
        );
        let made = result::create_matmul_desc(computed, scaled);
        let made = answered("cublasLtMatmulDescCreate", made)?;
        self.product = Some(made);
        let set = |attribute: Attribute, value: *const c_void, bytes: usize| {
            // SAFETY: the descriptor was made above; `bytes` bytes are read immediately.
            let answer =
                unsafe { result::set_matmul_desc_attribute(made, attribute, value, bytes) };
            answered("cublasLtMatmulDescSetAttribute", answer)
        };
        let turned = shape.transposed.map(|turned| match turned {
            true => cublasOperation_t::CUBLAS_OP_T as i32,
            false => cublasOperation_t::CUBLAS_OP_N as i32,
        });
        set(
            Attribute::CUBLASLT_MATMUL_DESC_TRANSA,
            (&raw const turned[0]).cast(),
            4,
        )?;
        set(
            Attribute::CUBLASLT_MATMUL_DESC_TRANSB,
            (&raw const turned[1]).cast(),
            4,
        )?;
        let epilogue = match (shape.biased, shape.relu) {
            (true, true) => Kind::CUBLASLT_EPILOGUE_RELU_BIAS,
            (true, false) => Kind::CUBLASLT_EPILOGUE_BIAS,
            (false, true) => Kind::CUBLASLT_EPILOGUE_RELU,
            (false, false) => Kind::CUBLASLT_EPILOGUE_DEFAULT,
        } as u32;
        set(
            Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE,
            (&raw const epilogue).cast(),
            4,
        )?;
        if let Some(bias) = bias {
            let at = bias.0;
            set(
                Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                (&raw const at).cast(),
                8,
            )?;
        }
        Ok(())
    }

    fn layouts(&mut self, shape: &Shape) -> Result<(), DriverError> {
        let [m, n, k] = shape.sizes.map(i64::from);
        let turned = |turned: bool, rows, columns| {
            if turned {
                (columns, rows)
            } else {
                (rows, columns)
            }
        };
        let [a_turned, b_turned] = shape.transposed;
        let matrices = [
            (turned(a_turned, m, k), shape.storages[0]),
            (turned(b_turned, k, n), shape.storages[0]),
            ((m, n), shape.storages[1]),
        ];
        for (((rows, columns), storage), stride) in matrices.into_iter().zip(shape.strides) {
            let (rows, columns) = (rows.unsigned_abs(), columns.unsigned_abs());
            let made = result::create_matrix_layout(element(storage), rows, columns, stride.into());
            self.layouts
                .push(answered("cublasLtMatrixLayoutCreate", made)?);
        }
        Ok(())
    }

    fn choose(
        &mut self,
        handle: sys::cublasLtHandle_t,
        shape: &Shape,
    ) -> Result<Option<sys::cublasLtMatmulAlgo_t>, DriverError> {
        let made = answered(
            "cublasLtMatmulPreferenceCreate",
            result::create_matmul_pref(),
        )?;
        self.preference = Some(made);
        let set = |attribute: Preference, value: *const c_void, bytes: usize| {
            // SAFETY: the preference was made above; `bytes` bytes are read immediately.
            let answer =
                unsafe { result::set_matmul_pref_attribute(made, attribute, value, bytes) };
            answered("cublasLtMatmulPreferenceSetAttribute", answer)
        };
        let workspace = WORKSPACE;
        let most = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        set(most, (&raw const workspace).cast(), size_of::<usize>())?;
        // Other schemes add partial sums in the result's type, which may have 16 bits.
        let reduction = Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let schemes = Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
        set(schemes, (&raw const reduction).cast(), 4)?;
        let [a, b, c] = &shape.aligned;
        for (attribute, aligned) in [
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c),
        ] {
            set(attribute, std::ptr::from_ref(aligned).cast(), 4)?;
        }
        let (Some(product), [a, b, c]) = (self.product, &self.layouts[..]) else {
            return answered(
                "cublasLtMatmulAlgoGetHeuristic",
                Err(CublasError(Status::CUBLAS_STATUS_INVALID_VALUE)),
            );
        };
        // SAFETY: all of these exist.
        let found =
            unsafe { result::get_matmul_algo_heuristic(handle, product, *a, *b, *c, *c, made) };
        match found {
            Err(CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED)) => Ok(None),
            found => Ok(Some(
                answered("cublasLtMatmulAlgoGetHeuristic", found)?.algo,
            )),
        }
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: all of these were made above and are destroyed once.
        unsafe {
            for layout in &self.layouts {
                let _ = result::destroy_matrix_layout(*layout);
            }
            if let Some(product) = self.product {
                let _ = result::destroy_matmul_desc(product);
            }
            if let Some(preference) = self.preference {
                let _ = result::destroy_matmul_pref(preference);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: i32, transposed: bool) -> Shape {
        Shape {
            transposed: [false, transposed],
            sizes: [256, rows, 128],
            strides: [256, 128, 256],
            storages: [Storage::F32; 2],
            biased: true,
            relu: true,
            aligned: [16; 3],
        }
    }

    #[test]
    fn shapes_of_about_as_many_rows_share_an_algorithm() {
        let rounded = |rows| shape(rows, false).rounded().sizes[1];
        assert_eq!([1, 7, 15, 16].map(rounded), [1, 7, 15, 16]);
        assert_eq!(
            [17, 1000, 1025, i32::MAX].map(rounded),
            [18, 1024, 1152, i32::MAX]
        );
        for rows in (1..5000).step_by(7) {
            let more = rounded(rows);
            assert!(
                more >= rows && 8 * (more - rows) < rows.max(8),
                "{rows} {more}"
            );
        }
        let turned = shape(1000, true);
        assert_eq!(turned.rounded(), turned);
    }
}
