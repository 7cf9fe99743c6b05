static __device__ __forceinline__ float4 gnnc_add4(float4 a, float4 b, u64 add)
{
    return make_float4(gnnc_add(a.x, b.x, add), gnnc_add(a.y, b.y, add), gnnc_add(a.z, b.z, add),
                       gnnc_add(a.w, b.w, add));
}

/* What both moves do with their arguments. */
#define GNNC_MOVE(NUMBER, ADD) \
    const u64 teams = 256u / lanes; \
    const u64 lane = threadIdx.x % lanes; \
    for (u64 item = blockIdx.x * teams + threadIdx.x / lanes; item < rows * runs; \
         item += gridDim.x * teams) { \
        const u64 row = item / runs; \
        const u64 run = item % runs; \
        const u64 target = to_list ? to_list[row] : row; \
        const u64 source = from_list ? from_list[row] : row; \
        NUMBER *y = to + target * to_stride + run * to_step; \
        const NUMBER *x = from + source * from_stride + run * from_step; \
        for (u64 i = lane; i < len; i += lanes) { \
            y[i] = add ? ADD(y[i], x[i], add) : x[i]; \
        } \
    }

/* Copies (or adds, see gnnc_add) `rows` rows of `runs` runs of `len` words each from one matrix to another. Rows are those
 * of a list, or the first ones where a list is null. A run is moved by `lanes` threads, a power of 2. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_move(
    float *to, const u32 *to_list, u64 to_stride, u64 to_step,
    const float *from, const u32 *from_list, u64 from_stride, u64 from_step,
    u64 rows, u64 runs, u64 len, u64 lanes, u64 add)
{
    GNNC_MOVE(float, gnnc_add)
}

/* The same where all addresses, strides and lengths are multiples of 4 floats; `len` and all strides count
 * groups of 4. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_move4(
    float4 *to, const u32 *to_list, u64 to_stride, u64 to_step,
    const float4 *from, const u32 *from_list, u64 from_stride, u64 from_step,
    u64 rows, u64 runs, u64 len, u64 lanes, u64 add)
{
    GNNC_MOVE(float4, gnnc_add4)
}
