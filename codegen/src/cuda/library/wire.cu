/* Rows of messages in fewer bits than memory, as gnnc_ir::words::wire has them. A warp works on a row of `numbers` numbers,
 * which are `words` words in the message: two of bf16 in each (`wire` 1); or a header, then four of 8 bits in each (2). In
 * memory a row has runs of `len` words, `step` words apart. */

/* Number `i` of a row in memory. */
static __device__ __forceinline__ float gnnc_in_runs(const float *row, u64 i, u64 step, u64 len, u64 storage)
{
    const u64 of_run = storage == 1 ? len : 2 * len;
    return gnnc_number(row + i / of_run * step, i % of_run, storage);
}

/* Number `i` of a row in a message whose header said `scale` and `zero`. */
static __device__ __forceinline__ float gnnc_in_message(const float *row, u64 i, u64 wire, float scale, float zero)
{
    if (wire == 1) {
        return gnnc_from_bf16(gnnc_bits(row[i / 2]) >> (16 * (i % 2)) & 0xffffu);
    }
    const u32 value = gnnc_bits(row[1 + i / 4]) >> (8 * (i % 4)) & 0xffu;
    return ((float)value - zero) * scale;
}

/* Encodes rows. `vertices` names the vertex of each row of the matrix, which is the number of the row where it is null;
 * `salt` is combined with the key of the draws, or is it where `key` is null. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_encode(
    float *message, const float *from, const u32 *from_list, u64 stride, u64 step, u64 len,
    const u32 *vertices, const u64 *key, u64 salt, u64 rows, u64 numbers, u64 words, u64 wire, u64 storage)
{
    const u32 lane = threadIdx.x % 32u;
    for (u64 n = blockIdx.x * 8u + threadIdx.x / 32u; n < rows; n += gridDim.x * 8u) {
        const u64 row = from_list ? from_list[n] : n;
        const float *x = from + row * stride;
        float *out = message + n * words;
        if (wire == 1) {
            for (u64 w = lane; w < words; w += 32u) {
                const float low = gnnc_in_runs(x, 2 * w, step, len, storage);
                const float high = 2 * w + 1 < numbers ? gnnc_in_runs(x, 2 * w + 1, step, len, storage) : 0.0f;
                out[w] = gnnc_float(gnnc_to_bf16(low) | gnnc_to_bf16(high) << 16);
            }
            continue;
        }
        float low = 0.0f, high = 0.0f, bad = 0.0f;
        for (u64 i = lane; i < numbers; i += 32u) {
            const float number = gnnc_in_runs(x, i, step, len, storage);
            bad = number - number == 0.0f ? bad : 1.0f;
            low = number < low ? number : low;
            high = number > high ? number : high;
        }
        low = -gnnc_warp_max(-low);
        high = gnnc_warp_max(high);
        bad = gnnc_warp_max(bad);
        /* The distance between neighboring values, rounded up to bf16; 0 if it would be subnormal. */
        const float exact = (high - low) / 254.0f;
        u32 bits = (gnnc_bits(exact) >> 16) + ((gnnc_bits(exact) & 0xffffu) != 0 ? 1u : 0u);
        bits = bad != 0.0f ? 0x7fc0u : exact < 1.17549435e-38f ? 0u : bits;
        const float scale = gnnc_float(bits << 16);
        const float zero = bad != 0.0f || bits == 0u ? 0.0f : ceilf(-low / scale);
        if (lane == 0u) {
            out[0] = gnnc_float(bits << 16 | (u32)zero << 8);
        }
        const u32 hash = gnnc_vertex_hash((key ? *key : 0) ^ salt, vertices ? vertices[row] : (u32)row);
        for (u64 w = lane; w + 1 < words; w += 32u) {
            u32 four = 0;
            for (u64 i = 4 * w; i < 4 * w + 4 && i < numbers; i++) {
                const u32 draw = gnnc_mix32(hash ^ ((u32)i * 0x9e3779b9u)) >> 16;
                float value = gnnc_in_runs(x, i, step, len, storage) / scale + zero + (float)draw * (1.0f / 65536.0f);
                value = value < 255.0f ? value : 255.0f;
                four |= (bits == 0u ? 0u : (u32)value) << (8 * (i % 4));
            }
            out[1 + w] = gnnc_float(four);
        }
    }
}

/* Decodes rows to those of a list, or adds what they say (see gnnc_add). */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_decode(
    float *to, const u32 *to_list, u64 stride, u64 step, u64 len,
    const float *message, u64 rows, u64 numbers, u64 words, u64 wire, u64 storage, u64 add)
{
    const u32 lane = threadIdx.x % 32u;
    const u64 in_word = storage == 1 ? 1 : 2;
    for (u64 n = blockIdx.x * 8u + threadIdx.x / 32u; n < rows; n += gridDim.x * 8u) {
        const float *x = message + n * words;
        float *y = to + (to_list ? to_list[n] : n) * stride;
        const float scale = gnnc_float(gnnc_bits(x[0]) & 0xffff0000u);
        const float zero = (float)(gnnc_bits(x[0]) >> 8 & 0xffu);
        for (u64 w = lane; w < numbers / in_word; w += 32u) {
            const float low = gnnc_in_message(x, in_word * w, wire, scale, zero);
            const float high = in_word == 1 ? 0.0f : gnnc_in_message(x, 2 * w + 1, wire, scale, zero);
            const float word = gnnc_word(low, high, storage);
            float *at = y + w / len * step + w % len;
            *at = add ? gnnc_add(*at, word, add) : word;
        }
    }
}
