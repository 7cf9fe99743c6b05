/* Dropout of the values of sparse rows `begin .. end`, keyed by vertex and column: a warp for a row. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_sparse_dropout(
    const u64 *indptr, const u32 *indices, const u32 *ids, const u64 *key, u64 begin, u64 end,
    const float *values, float *out, u64 column, u64 threshold, u64 scale)
{
    const u32 lane = threadIdx.x % 32u;
    for (u64 row = begin + blockIdx.x * 8u + threadIdx.x / 32u; row < end; row += gridDim.x * 8u) {
        const u32 hash = gnnc_vertex_hash(*key, ids[row]);
        for (u64 i = indptr[row] + lane; i < indptr[row + 1]; i += 32u) {
            out[i] = values[i] * gnnc_keep(hash, (u32)column + indices[i], (u32)threshold,
                                           __int_as_float((int)scale));
        }
    }
}

/* Writes the values of sparse rows `begin .. end` into a matrix of zeros: a warp for a row. Of entries in
 * the same place the last one counts. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_scatter(
    const u64 *indptr, const u32 *indices, u64 begin, u64 end, const float *values, float *out,
    u64 columns)
{
    const u32 lane = threadIdx.x % 32u;
    for (u64 row = begin + blockIdx.x * 8u + threadIdx.x / 32u; row < end; row += gridDim.x * 8u) {
        const u64 last = indptr[row + 1];
        for (u64 i = indptr[row] + lane; i < last; i += 32u) {
            if (i + 1 == last || indices[i + 1] != indices[i]) {
                out[row * columns + indices[i]] = values[i];
            }
        }
    }
}
