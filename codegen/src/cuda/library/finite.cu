/* Sets `*flag` to 1 if one of the numbers is infinite or none; else leaves it. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_finite(
    const float *x, u64 numbers, u32 *flag, u64 storage)
{
    for (u64 i = blockIdx.x * 256u + threadIdx.x; i < numbers; i += gridDim.x * 256u) {
        const float number = gnnc_number(x, i, storage);
        if (!(number - number == 0.0f)) {
            *flag = 1;
        }
    }
}
