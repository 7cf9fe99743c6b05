/* What both libraries of products share: a product of matrices by columns, by loops. */
#ifndef PRODUCT_H
#define PRODUCT_H
#include "stub.h"

/* The types of cudaDataType: floats of 32 bits, binary16, bfloat16. */
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

struct product { int ta, tb, m, n, k, lda, ldb, ldc; const void *a, *b; void *c; int factors, result, biased, relu; const void *bias; };

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
            if (p->biased)
                sum = (float)sum + number(p->bias, i, p->result);
            if (p->relu && !(sum > 0))
                sum = 0;
            store(p->c, j * p->ldc + i, p->result, sum);
        }
    return OK;
}

static int inside(const void *at, int type, int64_t rows, int64_t columns, int64_t ld)
{
    const int64_t bytes = size_of(type) * ((columns - 1) * ld + rows);
    return ld >= rows && ld > 0 && (uint64_t)at % (uint64_t)size_of(type) == 0 && stub_is_device((uint64_t)at, (size_t)bytes);
}

/* Whether the matrices of a product lie on the device. */
static int lies(const struct product *p)
{
    return inside(p->a, p->factors, p->ta ? p->k : p->m, p->ta ? p->m : p->k, p->lda)
        && inside(p->b, p->factors, p->tb ? p->n : p->k, p->tb ? p->k : p->n, p->ldb)
        && inside(p->c, p->result, p->m, p->n, p->ldc)
        && (!p->biased || inside(p->bias, p->result, p->m, 1, p->m));
}

#endif
