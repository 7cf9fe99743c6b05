//! The text before every kernel: types, 16-bit floats, the hash of dropout masks, maxima, the
//! search for a row.

/// The beginning of a translation unit. The hashes are those of [`gnnc_ir::kernel`], the 16-bit floats those of
/// [`gnnc_ir::words::storage`]; a GPU has instructions for binary16, whose results are the same but for what is no number.
pub const PRELUDE: &str = r#"typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ __forceinline__ u32 gnnc_mix32(u32 x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

#ifdef __CUDACC__
#define gnnc_float(bits) __uint_as_float(bits)
#define gnnc_bits(x) __float_as_uint(x)
#else
static __device__ __forceinline__ float gnnc_float(u32 bits)
{
    union { u32 bits; float x; } both;
    both.bits = bits;
    return both.x;
}

static __device__ __forceinline__ u32 gnnc_bits(float x)
{
    union { u32 bits; float x; } both;
    both.x = x;
    return both.bits;
}
#endif

static __device__ __forceinline__ float gnnc_from_bf16(u32 bits)
{
    return gnnc_float(bits << 16);
}

static __device__ __forceinline__ u32 gnnc_to_bf16(float x)
{
    const u32 bits = gnnc_bits(x);
    return x != x ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

static __device__ __forceinline__ float gnnc_from_f16(u32 bits)
{
#ifdef __CUDACC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
    return x;
#else
    const u32 rest = bits & 0x7fffu;
    const u32 special = rest >= 0x7c00u ? 0x7f800000u : 0u;
    return gnnc_float((bits & 0x8000u) << 16 | gnnc_bits(gnnc_float(rest << 13) * gnnc_float(0x77800000u)) | special);
#endif
}

static __device__ __forceinline__ u32 gnnc_to_f16(float x)
{
#ifdef __CUDACC__
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 rest = gnnc_bits(x) & 0x7fffffffu, sign = gnnc_bits(x) >> 16 & 0x8000u;
    if (rest >= 0x47800000u) {
        return sign | (rest > 0x7f800000u ? 0x7e00u : 0x7c00u);
    }
    if (rest < 0x38800000u) {
        return sign | (gnnc_bits(gnnc_float(rest) + 0.5f) - 0x3f000000u);
    }
    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
#endif
}

static __device__ __forceinline__ u32 gnnc_vertex_hash(u64 key, u32 vertex)
{
    return gnnc_mix32((vertex * 0x9e3779b1u) ^ (u32)key) + (u32)(key >> 32);
}

static __device__ __forceinline__ u32 gnnc_edge_hash(u64 key, u32 src, u32 dst)
{
    return gnnc_mix32(gnnc_vertex_hash(key, dst) ^ (src * 0x85ebca6bu));
}

/* The dropout factor of a column: 0, or `scale` if the draw is not below the threshold. */
static __device__ __forceinline__ float gnnc_keep(u32 hash, u32 column, u32 threshold, float scale)
{
    return (gnnc_mix32(hash ^ (column * 0x9e3779b9u)) >> 8) >= threshold ? scale : 0.0f;
}

/* The larger number; of 0 and -0 the former, so that the order does not matter. */
static __device__ __forceinline__ float gnnc_max(float a, float b)
{
    if (a == b) {
        return a == 0.0f ? a + b : a;
    }
    return a > b ? a : b;
}

/* The last row of `low .. high` whose first edge is not behind `edge`. */
static __device__ __forceinline__ u64 gnnc_row_of(const u64 *indptr, u64 low, u64 high, u64 edge)
{
    while (high - low > 1) {
        const u64 middle = low + (high - low) / 2;
        if (indptr[middle] <= edge) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}
"#;
