/* The part of CUDA that generated kernels use, on one thread of the processor.
 *
 * Every thread of a block is a context of its own; one runs until it waits for others, then the
 * next does. A block in which nobody can go on is an error: in a kernel all threads of a warp have
 * to reach a shuffle, all threads of a block a barrier. Contexts are made once and entered by jumps,
 * since other ways to change between them ask the system each time. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#define __global__ static
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads, blocks)

#define THREADS 256
#define WARP 32
#define STACK 65536

struct float2 { float x, y; } __attribute__((aligned(8)));
struct float4 { float x, y, z, w; } __attribute__((aligned(16)));
struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
typedef struct uint2 uint2;
typedef struct uint4 uint4;
static uint2 make_uint2(unsigned x, unsigned y) { return (uint2){x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return (uint4){x, y, z, w}; }
typedef struct float2 float2;
typedef struct float4 float4;
static float2 make_float2(float x, float y) { return (float2){x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return (float4){x, y, z, w}; }
static float __int_as_float(int bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double __longlong_as_double(long long bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static struct { unsigned x, y; } threadIdx, blockIdx, gridDim;

struct barrier { int count, generation; };
static struct barrier whole, warps[THREADS / WARP];
static float passed[THREADS];
static char stacks[THREADS][STACK];
static ucontext_t contexts[THREADS];
static jmp_buf home, places[THREADS];
static int begun[THREADS], done[THREADS];
static int moved;
static void (*task)(void);

/* Goes back to who runs the block, until it lets this thread go on. */
static __attribute__((noinline)) void leave(unsigned me)
{
    if (_setjmp(places[me]) == 0)
        _longjmp(home, 1);
}

static void wait_for(struct barrier *barrier, int expected)
{
    const unsigned me = threadIdx.x;
    const int generation = barrier->generation;
    if (++barrier->count == expected) {
        barrier->count = 0;
        barrier->generation++;
        moved = 1;
    }
    while (barrier->generation == generation)
        leave(me);
}

static void __syncthreads(void) { wait_for(&whole, THREADS); }

static float __shfl_xor_sync(unsigned mask, float value, int distance)
{
    const unsigned me = threadIdx.x;
    (void)mask;
    passed[me] = value;
    wait_for(&warps[me / WARP], WARP);
    value = passed[me ^ (unsigned)distance];
    wait_for(&warps[me / WARP], WARP);
    return value;
}

static int __any_sync(unsigned mask, int predicate)
{
    const unsigned me = threadIdx.x;
    int any = 0;
    (void)mask;
    passed[me] = (float)(predicate != 0);
    wait_for(&warps[me / WARP], WARP);
    for (unsigned i = 0; i < WARP; ++i)
        any |= passed[me / WARP * WARP + i] != 0;
    wait_for(&warps[me / WARP], WARP);
    return any;
}

/* A thread, block after block. */
static void run_thread(void)
{
    const unsigned me = threadIdx.x;
    for (;;) {
        task();
        done[me] = 1;
        moved = 1;
        leave(me);
    }
}

/* Lets a thread go on until it waits or is done. */
static __attribute__((noinline)) void enter(int thread)
{
    threadIdx.x = (unsigned)thread;
    if (_setjmp(home) != 0)
        return;
    if (begun[thread])
        _longjmp(places[thread], 1);
    begun[thread] = 1;
    getcontext(&contexts[thread]);
    contexts[thread].uc_stack.ss_sp = stacks[thread];
    contexts[thread].uc_stack.ss_size = STACK;
    makecontext(&contexts[thread], run_thread, 0);
    setcontext(&contexts[thread]);
}

/* Runs a block, threads in order or in reverse; returns whether it came to an end. */
static int run_block(int reverse)
{
    int left = THREADS;
    memset(done, 0, sizeof done);
    memset(&whole, 0, sizeof whole);
    memset(warps, 0, sizeof warps);
    while (left > 0) {
        moved = 0;
        for (int i = 0; i < THREADS; ++i) {
            const int thread = reverse ? THREADS - 1 - i : i;
            if (done[thread])
                continue;
            enter(thread);
            left -= done[thread];
        }
        if (!moved)
            return 0;
    }
    return 1;
}

static int run_grid(void (*call)(void), unsigned x, unsigned y, int reverse)
{
    task = call;
    gridDim.x = x;
    gridDim.y = y;
    for (blockIdx.y = 0; blockIdx.y < y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < x; ++blockIdx.x)
            if (!run_block(reverse))
                return 0;
    return 1;
}

/* The same for a kernel whose threads wait for nobody. */
static int run_alone(void (*call)(void), unsigned x, unsigned y)
{
    gridDim.x = x;
    gridDim.y = y;
    for (blockIdx.y = 0; blockIdx.y < y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < x; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < THREADS; ++threadIdx.x)
                call();
    return 1;
}

static const uint64_t *arguments;
