/* cuBLASLt for tests where there is no GPU: products of matrices by columns with an end, by loops. */
#include "product.h"

struct handle { int unused; };
struct description { int compute, scale, ta, tb, epilogue; const void *bias; };
struct layout { int type; uint64_t rows, columns; int64_t ld; };
struct preference { uint64_t workspace; uint32_t aligned[4], schemes; };
struct algorithm { uint64_t data[8]; };
struct choice { struct algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };

enum { INVALID = 7, INTERNAL = 14, UNSUPPORTED = 15, RELU = 2, BIAS = 4, ALL_SCHEMES = 7, COMPUTE_TYPE = 2 };

int cublasLtCreate(struct handle **handle) { *handle = calloc(1, sizeof **handle); return stub_fails("cublasLtCreate") ? 1 : 0; }
int cublasLtDestroy(struct handle *handle) { free(handle); return 0; }
size_t cublasLtGetVersion(void) { return 130000; }

int cublasLtMatmulDescCreate(struct description **made, int compute, int scale)
{
    *made = calloc(1, sizeof **made);
    **made = (struct description){compute, scale, 0, 0, 1, NULL};
    return 0;
}

int cublasLtMatmulDescDestroy(struct description *made) { free(made); return 0; }

int cublasLtMatmulDescSetAttribute(struct description *made, int attribute, const void *value, size_t bytes)
{
    int *const numbers[] = {[3] = &made->ta, [4] = &made->tb, [7] = &made->epilogue};
    if (attribute == 8 && bytes == sizeof made->bias)
        return memcpy(&made->bias, value, bytes), 0;
    if ((attribute != 3 && attribute != 4 && attribute != 7) || bytes != sizeof(int))
        return INVALID;
    return memcpy(numbers[attribute], value, bytes), 0;
}

int cublasLtMatrixLayoutCreate(struct layout **made, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    *made = calloc(1, sizeof **made);
    **made = (struct layout){type, rows, columns, ld};
    return 0;
}

int cublasLtMatrixLayoutDestroy(struct layout *made) { free(made); return 0; }

/* Where nothing is said, algorithms are chosen for addresses that are multiples of 256 bytes. */
int cublasLtMatmulPreferenceCreate(struct preference **made)
{
    *made = calloc(1, sizeof **made);
    **made = (struct preference){0, {256, 256, 256, 256}, ALL_SCHEMES};
    return 0;
}

int cublasLtMatmulPreferenceDestroy(struct preference *made) { free(made); return 0; }

int cublasLtMatmulPreferenceSetAttribute(struct preference *made, int attribute, const void *value, size_t bytes)
{
    if (attribute == 1 && bytes == 8)
        return memcpy(&made->workspace, value, bytes), 0;
    if (attribute == 3 && bytes == 4)
        return memcpy(&made->schemes, value, bytes), 0;
    if (attribute < 5 || attribute > 8 || bytes != 4)
        return INVALID;
    return memcpy(&made->aligned[attribute - 5], value, bytes), 0;
}

/* The product, but for its addresses; 0 in `m` where the description contradicts itself. */
static struct product described(const struct description *d, const struct layout *a, const struct layout *b, const struct layout *c)
{
    const int k = d->ta ? a->rows : a->columns;
    const int fits = (d->ta ? a->columns : a->rows) == c->rows && (d->tb ? b->rows : b->columns) == c->columns
        && (uint64_t)k == (d->tb ? b->columns : b->rows) && a->type == b->type;
    const int ends = d->epilogue == RELU || d->epilogue == BIAS || d->epilogue == (RELU | BIAS) || d->epilogue == 1;
    const int m = fits && ends && d->compute == 68 && d->scale == R_32F ? c->rows : 0;
    return (struct product){d->ta, d->tb, m, c->columns, k, a->ld, b->ld, c->ld, NULL, NULL, NULL, a->type, c->type,
                            (d->epilogue & BIAS) != 0, (d->epilogue & RELU) != 0, d->bias};
}

/* An algorithm is the shape that it was asked for, of which it also takes fewer columns, and what addresses it takes.
 * Refused are preferences that allow sums in 16 bits, or that ask for more than loads of 16 bytes: such an algorithm would
 * depend on addresses. */
int cublasLtMatmulAlgoGetHeuristic(struct handle *handle, const struct description *d, const struct layout *a, const struct layout *b,
                                   const struct layout *c, const struct layout *out, const struct preference *preference,
                                   int wanted, struct choice *found, int *count)
{
    const struct product p = described(d, a, b, c);
    *count = 0;
    if (stub_fails("cublasLtMatmulAlgoGetHeuristic"))
        return INTERNAL;
    if (!p.m || c != out || wanted < 1 || preference->schemes != COMPUTE_TYPE)
        return INVALID;
    for (int i = 0; i < 4; ++i)
        if (preference->aligned[i] > 16)
            return INVALID;
    if (stub_fails("unsupported"))
        return UNSUPPORTED;
    if (stub_fails("none found"))
        return 0;
    *found = (struct choice){{{p.m, p.n, p.k, d->epilogue, preference->aligned[0], preference->aligned[1],
                               preference->aligned[2], preference->workspace}}, 0, 0, 1};
    *count = 1;
    return 0;
}

int cublasLtMatmul(struct handle *handle, const struct description *d, const float *alpha, const void *a, const struct layout *a_lies,
                   const void *b, const struct layout *b_lies, const float *beta, const void *c, const struct layout *c_lies, void *out,
                   const struct layout *out_lies, const struct algorithm *algorithm, void *workspace, size_t bytes, void *stream)
{
    struct product p = described(d, a_lies, b_lies, c_lies);
    const uint64_t *of = algorithm->data;
    p.a = a, p.b = b, p.c = out;
    if (stub_fails("cublasLtMatmul") || *alpha != 1 || *beta != 0 || c != out || c_lies != out_lies || !p.m || !p.n || !p.k)
        return INVALID;
    if (of[1] != (uint64_t)p.n && stub_fails("other columns"))
        return UNSUPPORTED;
    if (of[0] != p.m || of[1] < (uint64_t)p.n || of[2] != p.k || of[3] != d->epilogue || of[7] > bytes
        || !stub_is_device((uint64_t)workspace, bytes) || (uint64_t)workspace % 256)
        return INVALID;
    /* What the heuristic picks may read a bias by 16 bytes. */
    if (p.biased && (uint64_t)p.bias % 16)
        return INVALID;
    if ((uint64_t)a % of[4] || (uint64_t)b % of[5] || (uint64_t)out % of[6] || !lies(&p))
        return INVALID;
    return stub_enqueue(stream, multiply, &p, sizeof p) ? 13 : 0;
}
