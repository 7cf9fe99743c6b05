//! The text before every kernel: types, 16-bit floats, the hash of dropout masks, maxima, the
//! search for a row.

use gnnc_ir::words::storage::Storage;

/// The beginning of a translation unit. The hashes are those of [`gnnc_ir::kernel`], the 16-bit floats those of
/// [`gnnc_ir::words::storage`].
pub fn prelude() -> String {
    let mut parts = vec![TYPES];
    parts.extend(Storage::formats().map(|format| format.cuda));
    parts.push(FUNCTIONS);
    parts.join("\n")
}

const TYPES: &str = r#"typedef unsigned short u16;
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
"#;

const FUNCTIONS: &str = r#"static __device__ __forceinline__ u32 gnnc_vertex_hash(u64 key, u32 vertex)
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
