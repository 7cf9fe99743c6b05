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

/* The types of cudaDataType: floats of 32 bits, binary16, bfloat16. */
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

struct product { int ta, tb, m, n, k, lda, ldb, ldc; const void *a, *b; void *c; int factors, result; };

static int size_of(int type) { return type == R_32F ? 4 : 2; }

static double number(const void *at, int64_t i, int type)
{
    if (type == R_32F)
        return ((const float *)at)[i];
    const uint32_t bits = ((const uint16_t *)at)[i];
    if (type == R_16BF) {
        const uint32_t whole = bits << 16;
        float x;
        memcpy(&x, &whole, sizeof x);
        return x;
    }
    _Float16 x;
    memcpy(&x, (const uint16_t *)at + i, sizeof x);
    return (double)x;
}

static void store(void *at, int64_t i, int type, double sum)
{
    const float x = (float)sum;
    if (type == R_32F) {
        ((float *)at)[i] = x;
    } else if (type == R_16F) {
        const _Float16 half = (_Float16)x;
        memcpy((uint16_t *)at + i, &half, sizeof half);
    } else {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        ((uint16_t *)at)[i] = (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static int multiply(const void *data)
{
    const struct product *p = data;
    for (int64_t j = 0; j < p->n; ++j)
        for (int64_t i = 0; i < p->m; ++i) {
            double sum = 0;
            for (int64_t l = 0; l < p->k; ++l)
                sum += number(p->a, p->ta ? i * p->lda + l : l * p->lda + i, p->factors)
                     * number(p->b, p->tb ? l * p->ldb + j : j * p->ldb + l, p->factors);
            store(p->c, j * p->ldc + i, p->result, sum);
        }
    return OK;
}

static int inside(const void *at, int type, int64_t rows, int64_t columns, int64_t ld)
{
    const int64_t bytes = size_of(type) * ((columns - 1) * ld + rows);
    return ld >= rows && ld > 0 && (uint64_t)at % (uint64_t)size_of(type) == 0 && stub_is_device((uint64_t)at, (size_t)bytes);
}

static int put(struct handle *handle, const struct product *p)
{
    if (!handle->workspace || p->m < 1 || p->n < 1 || p->k < 1)
        return 7;
    if (!inside(p->a, p->factors, p->ta ? p->k : p->m, p->ta ? p->m : p->k, p->lda)
        || !inside(p->b, p->factors, p->tb ? p->n : p->k, p->tb ? p->k : p->n, p->ldb)
        || !inside(p->c, p->result, p->m, p->n, p->ldc))
        return 7;
    return stub_enqueue(handle->stream, multiply, p, sizeof *p) ? 13 : 0;
}

int cublasSgemm_v2(struct handle *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc)
{
    const struct product p = {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, R_32F, R_32F};
    if (stub_fails("cublasSgemm") || *alpha != 1 || *beta != 0)
        return 7;
    return put(handle, &p);
}

/* Sums of 32-bit floats (68) of factors in 16 bits, by whichever algorithm (-1); results in 32 or like the factors. */
int cublasGemmEx(struct handle *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                 int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute,
                 int algorithm)
{
    const struct product p = {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, a_type, c_type};
    const int halves = a_type == R_16F || a_type == R_16BF;
    if (stub_fails("cublasGemmEx") || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return 7;
    if (!halves || b_type != a_type || (c_type != a_type && c_type != R_32F) || compute != 68 || algorithm != -1)
        return 15;
    return put(handle, &p);
}
