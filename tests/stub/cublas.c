/* cuBLAS for tests where there is no GPU: products of matrices by columns, by loops. */
#include "product.h"

struct handle { void *stream; int workspace; };

int cublasCreate_v2(struct handle **handle) { *handle = calloc(1, sizeof **handle); return stub_fails("cublasCreate") ? 1 : 0; }
int cublasDestroy_v2(struct handle *handle) { free(handle); return 0; }
int cublasGetProperty(int which, int *value) { *value = which == 0 ? 13 : 0; return 0; }
int cublasSetStream_v2(struct handle *handle, void *stream) { handle->stream = stream; handle->workspace = 0; return 0; }
/* Without TF32, and with sums of parts in 32 bits (16). */
int cublasSetMathMode(struct handle *handle, int mode) { (void)handle; return mode == 16 ? 0 : 7; }

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes)
{
    handle->workspace = 1;
    return stub_is_device((uint64_t)workspace, bytes) && (uint64_t)workspace % 256 == 0 ? 0 : 7;
}

static int put(struct handle *handle, const struct product *p)
{
    if (!handle->workspace || p->m < 1 || p->n < 1 || p->k < 1)
        return 7;
    if (!lies(p))
        return 7;
    return stub_enqueue(handle->stream, multiply, p, sizeof *p) ? 13 : 0;
}

int cublasSgemm_v2(struct handle *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc)
{
    const struct product p = {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, R_32F, R_32F, 0, 0, NULL};
    if (stub_fails("cublasSgemm") || *alpha != 1 || *beta != 0)
        return 7;
    return put(handle, &p);
}

/* Sums of 32-bit floats (68) of factors in 16 bits, by whichever algorithm (-1); results in 32 or like the factors. */
int cublasGemmEx(struct handle *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                 int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute,
                 int algorithm)
{
    const struct product p = {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, a_type, c_type, 0, 0, NULL};
    const int halves = a_type == R_16F || a_type == R_16BF;
    if (stub_fails("cublasGemmEx") || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return 7;
    if (!halves || b_type != a_type || (c_type != a_type && c_type != R_32F) || compute != 68 || algorithm != -1)
        return 15;
    return put(handle, &p);
}
