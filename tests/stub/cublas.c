/* cuBLAS for tests where there is no GPU: products of matrices by columns, by loops. */
#include "stub.h"

struct handle { void *stream; int workspace; };

int cublasCreate_v2(struct handle **handle) { *handle = calloc(1, sizeof **handle); return stub_fails("cublasCreate") ? 1 : 0; }
int cublasDestroy_v2(struct handle *handle) { free(handle); return 0; }
int cublasGetProperty(int which, int *value) { *value = which == 0 ? 13 : 0; return 0; }
int cublasSetStream_v2(struct handle *handle, void *stream) { handle->stream = stream; handle->workspace = 0; return 0; }
int cublasSetMathMode(struct handle *handle, int mode) { (void)handle; return mode == 0 ? 0 : 7; }

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes)
{
    handle->workspace = 1;
    return stub_is_device((uint64_t)workspace, bytes) && (uint64_t)workspace % 256 == 0 ? 0 : 7;
}

struct product { int ta, tb, m, n, k, lda, ldb, ldc; const float *a, *b; float *c; };

static int multiply(const void *data)
{
    const struct product *p = data;
    for (int64_t j = 0; j < p->n; ++j)
        for (int64_t i = 0; i < p->m; ++i) {
            double sum = 0;
            for (int64_t l = 0; l < p->k; ++l)
                sum += (double)p->a[p->ta ? i * p->lda + l : l * p->lda + i]
                     * (double)p->b[p->tb ? l * p->ldb + j : j * p->ldb + l];
            p->c[j * p->ldc + i] = (float)sum;
        }
    return OK;
}

static int inside(const float *at, int64_t rows, int64_t columns, int64_t ld)
{
    return ld >= rows && ld > 0 && stub_is_device((uint64_t)at, (size_t)(4 * ((columns - 1) * ld + rows)));
}

int cublasSgemm_v2(struct handle *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc)
{
    const struct product p = {ta, tb, m, n, k, lda, ldb, ldc, a, b, c};
    if (stub_fails("cublasSgemm") || !handle->workspace || *alpha != 1 || *beta != 0 || m < 1 || n < 1 || k < 1)
        return 7;
    if (!inside(a, ta ? k : m, ta ? m : k, lda) || !inside(b, tb ? n : k, tb ? k : n, ldb) || !inside(c, m, n, ldc))
        return 7;
    return stub_enqueue(handle->stream, multiply, &p, sizeof p) ? 13 : 0;
}
