/* Losses, their derivatives, and counts of correct vertices. A warp works on a vertex, a block on
 * `GNNC_VERTICES` of them; blocks write sums of doubles, which `gnnc_sum` adds in their order. */
#define GNNC_VERTICES 32u

static __device__ __forceinline__ float gnnc_warp_max(float x)
{
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, distance);
        x = other > x || other != other ? other : x;
    }
    return x;
}

static __device__ __forceinline__ float gnnc_warp_sum(float x)
{
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

/* The weight of a class; without weights it is 1. */
static __device__ __forceinline__ float gnnc_weight(const float *weights, u64 c)
{
    return weights ? weights[c] : 1.0f;
}

/* The cross-entropy of `softmax(z)` with a distribution, of a warp: the label has `1 - smoothing`, all classes
 * share the rest, each times its weight. The derivative times `scale` goes to `grad` where that is not null. */
static __device__ __forceinline__ double gnnc_cross_entropy(
    const float *z, u32 classes, u32 label, const float *weights, double smoothing, float scale, float *grad)
{
    const double own = (1.0 - smoothing) * gnnc_weight(weights, label), share = smoothing / (double)classes;
    const u32 lane = threadIdx.x % 32u;
    float top = __int_as_float((int)0xff800000u);
    for (u32 c = lane; c < classes; c += 32u) {
        top = z[c] > top || z[c] != z[c] ? z[c] : top;
    }
    top = gnnc_warp_max(top);
    float sum = 0.0f;
    for (u32 c = lane; c < classes; c += 32u) {
        sum += expf(z[c] - top);
    }
    sum = gnnc_warp_sum(sum);
    float all = 1.0f;
    if (weights) {
        all = 0.0f;
        for (u32 c = lane; c < classes; c += 32u) {
            all += weights[c];
        }
        all = (float)own + (float)share * gnnc_warp_sum(all);
    }
    if (grad) {
        const float factor = scale * all / sum;
        for (u32 c = lane; c < classes; c += 32u) {
            grad[c] = expf(z[c] - top) * factor - (c == label ? scale * (float)own : 0.0f) - scale * (float)share * gnnc_weight(weights, c);
        }
    }
    const double height = log((double)sum) + top;
    double loss = lane == 0 ? own * (height - z[label]) : 0.0;
    for (u32 c = lane; share > 0.0 && c < classes; c += 32u) {
        loss += share * gnnc_weight(weights, c) * (height - z[c]);
    }
    return loss;
}

/* The lane's share of how many of a vertex's numbers are known, those that are not NaN. */
static __device__ __forceinline__ double gnnc_known(const float *y, u32 classes)
{
    double known = 0.0;
    for (u32 c = threadIdx.x % 32u; c < classes; c += 32u) {
        known += y[c] == y[c] ? 1.0 : 0.0;
    }
    return known;
}

/* The lane's share of the sum over the classes whose label is known of `max(z, 0) - z y + log(1 + exp(-|z|))`, and of `-log(sigmoid(z)) y` times
 * the weight less 1, and its derivative. */
static __device__ __forceinline__ double gnnc_binary_cross_entropy(
    const float *z, const float *y, u32 classes, const float *weights, float scale, float *grad)
{
    double sum = 0.0;
    for (u32 c = threadIdx.x % 32u; c < classes; c += 32u) {
        if (y[c] != y[c]) {
            if (grad) {
                grad[c] = 0.0f;
            }
            continue;
        }
        const float small = expf(z[c] > 0.0f ? -z[c] : z[c]);
        const double positive = z[c] < 0.0f ? 0.0 : (double)z[c];
        const double rest = log(1.0 + (double)small);
        const float more = (gnnc_weight(weights, c) - 1.0f) * y[c];
        sum += positive - (double)z[c] * y[c] + rest + (double)more * (rest + positive - (double)z[c]);
        if (grad) {
            const float other = (z[c] >= 0.0f ? small : 1.0f) / (1.0f + small);
            grad[c] = ((z[c] >= 0.0f ? 1.0f : small) / (1.0f + small) - y[c] - more * other) * scale;
        }
    }
    return sum;
}

/* Losses, as `gnnc_loss` is told. */
enum { GNNC_CROSS_ENTROPY, GNNC_BINARY_CROSS_ENTROPY, GNNC_SQUARED_ERROR, GNNC_ABSOLUTE_ERROR, GNNC_HUBER };

/* The lane's share of the sum over known columns of a loss of numbers, and its derivative. */
static __device__ __forceinline__ double gnnc_of_numbers(
    u64 kind, double delta, const float *z, const float *y, u32 classes, float scale, float *grad)
{
    double sum = 0.0;
    for (u32 c = threadIdx.x % 32u; c < classes; c += 32u) {
        if (y[c] != y[c]) {
            if (grad) {
                grad[c] = 0.0f;
            }
            continue;
        }
        const double e = (double)z[c] - (double)y[c];
        const double size = e < 0.0 ? -e : e;
        const double sign = e > 0.0 ? 1.0 : e < 0.0 ? -1.0 : 0.0;
        double slope = sign;
        if (kind == GNNC_SQUARED_ERROR) {
            sum += e * e;
            slope = 2.0 * e;
        } else if (kind == GNNC_HUBER && size < delta) {
            sum += 0.5 * e * e;
            slope = e;
        } else if (kind == GNNC_HUBER) {
            sum += delta * (size - 0.5 * delta);
            slope = delta * sign;
        } else {
            sum += size;
        }
        if (grad) {
            grad[c] = (float)slope * scale;
        }
    }
    return sum;
}

/* The share of a lane in the loss of a vertex, and its derivative times `scale`. `constant` has the bits of the
 * smoothing or of the threshold. */
static __device__ __forceinline__ double gnnc_of_vertex(
    u64 kind, u64 constant, const float *z, const int *labels, const float *targets, const float *weights, u64 v, u64 classes, float scale, float *grad)
{
    const double number = __longlong_as_double((long long)constant);
    if (kind == GNNC_CROSS_ENTROPY) {
        return gnnc_cross_entropy(z, (u32)classes, (u32)labels[v], weights, number, scale, grad);
    }
    const float *y = targets + v * classes;
    if (kind == GNNC_BINARY_CROSS_ENTROPY) {
        return gnnc_binary_cross_entropy(z, y, (u32)classes, weights, scale, grad);
    }
    return gnnc_of_numbers(kind, number, z, y, (u32)classes, scale, grad);
}

/* The sum of a block's numbers, in the same order always; all threads get it. */
static __device__ __forceinline__ double gnnc_block_sum(double *shared, double x)
{
    shared[threadIdx.x] = x;
    for (u32 half = 128u; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            shared[threadIdx.x] += shared[threadIdx.x + half];
        }
    }
    __syncthreads();
    const double sum = shared[0];
    __syncthreads();
    return sum;
}

/* The first of the largest logits of a warp's vertex. */
static __device__ __forceinline__ u32 gnnc_argmax(const float *z, u32 classes)
{
    float best = __int_as_float((int)0xff800000u);
    float place = 16777216.0f;
    for (u32 c = threadIdx.x % 32u; c < classes; c += 32u) {
        if (z[c] > best || (z[c] == best && (float)c < place)) {
            best = z[c];
            place = (float)c;
        }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, distance);
        const float there = __shfl_xor_sync(0xffffffffu, place, distance);
        if (other > best || (other == best && there < place)) {
            best = other;
            place = there;
        }
    }
    return z[0] == z[0] ? (u32)place : 0u;
}

/* The losses of the training vertices among rows `begin .. end`, a sum for each block, and the derivative of
 * their mean over `terms` terms by the logits, which is 0 for other vertices. `terms` has the bits of
 * that number, or of the weight of the terms. `labels` are classes, `targets`
 * has a row of numbers for each vertex; the loss `kind` reads one of them. `weights` are those of classes, or null. Bit `n` of a set: training,
 * validation, test. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_loss(
    const float *logits, u64 stride, float *grad, u64 grad_stride, const u32 *sets,
    const int *labels, const float *targets, const float *weights, u64 begin, u64 end, u64 classes, u64 kind,
    u64 constant, u64 terms, double *parts)
{
    __shared__ double shared[256];
    const double weight = __longlong_as_double((long long)terms);
    const float scale = weight > 0.0 ? (float)(1.0 / weight) : 0.0f;
    const u64 first = begin + blockIdx.x * (u64)GNNC_VERTICES;
    double sum = 0.0;
    for (u64 v = first + threadIdx.x / 32u; v < first + GNNC_VERTICES && v < end; v += 8u) {
        const float *z = logits + v * stride;
        float *g = grad ? grad + v * grad_stride : 0;
        if ((sets[v] & 1u) == 0) {
            for (u32 c = threadIdx.x % 32u; g && c < classes; c += 32u) {
                g[c] = 0.0f;
            }
        } else {
            sum += gnnc_of_vertex(kind, constant, z, labels, targets, weights, v, classes, scale, g);
        }
    }
    sum = gnnc_block_sum(shared, sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

/* Of rows `begin .. end`, for each block 8 sums: correct and all vertices of the training, validation and test
 * set (of several labels: twice the true positives, and that with the false ones; of numbers: absolute errors
 * and how many), then the losses of the validation vertices and how many terms they have. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_metrics(
    const float *logits, u64 stride, const u32 *sets, const int *labels, const float *targets,
    const float *weights, u64 begin, u64 end, u64 classes, u64 loss_kind, u64 constant, double *parts)
{
    __shared__ double shared[256];
    const u32 lane = threadIdx.x % 32u;
    const u64 first = begin + blockIdx.x * (u64)GNNC_VERTICES;
    double correct[3] = {0.0, 0.0, 0.0}, all[3] = {0.0, 0.0, 0.0}, loss = 0.0, terms = 0.0;
    for (u64 v = first + threadIdx.x / 32u; v < first + GNNC_VERTICES && v < end; v += 8u) {
        const float *z = logits + v * stride;
        const u32 set = sets[v];
        const u32 kind = set & 1u ? 0u : set & 2u ? 1u : 2u;
        double hit = 0.0, count = 0.0;
        if (set == 0) {
            continue;
        }
        if (loss_kind == GNNC_CROSS_ENTROPY) {
            const int best = (int)gnnc_argmax(z, (u32)classes);
            hit = lane == 0 && best == labels[v] ? 1.0 : 0.0;
            count = lane == 0 ? 1.0 : 0.0;
        } else if (loss_kind != GNNC_BINARY_CROSS_ENTROPY) {
            hit = gnnc_of_numbers(GNNC_ABSOLUTE_ERROR, 0.0, z, targets + v * classes, (u32)classes, 1.0f, 0);
            count = gnnc_known(targets + v * classes, (u32)classes);
        } else {
            for (u32 c = lane; c < classes; c += 32u) {
                const float label = targets[v * classes + c];
                const int predicted = z[c] > 0.0f && label == label;
                const int labelled = label >= 0.5f;
                hit += predicted && labelled ? 2.0 : 0.0;
                count += (double)(predicted + labelled);
            }
        }
        for (u32 n = 0; n < 3u; ++n) {
            correct[n] += n == kind ? hit : 0.0;
            all[n] += n == kind ? count : 0.0;
        }
        if (kind == 1u) {
            loss += gnnc_of_vertex(loss_kind, constant, z, labels, targets, weights, v, classes, 1.0f, 0);
            if (loss_kind == GNNC_CROSS_ENTROPY) {
                terms += lane == 0 ? gnnc_weight(weights, (u64)labels[v]) : 0.0;
            } else {
                terms += gnnc_known(targets + v * classes, (u32)classes);
            }
        }
    }
    for (u32 n = 0; n < 8u; ++n) {
        const double own = n == 6u ? loss : n == 7u ? terms : n % 2u ? all[n / 2u] : correct[n / 2u];
        const double sum = gnnc_block_sum(shared, own);
        if (threadIdx.x == 0) {
            parts[blockIdx.x * 8u + n] = sum;
        }
    }
}

/* `out[c] = sum over rows of parts[row, c] / terms`, 0 where there are no terms: one block. `terms` has the bits of
 * a double. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_sum(
    const double *parts, u64 rows, u64 columns, u64 terms, float *out)
{
    __shared__ double shared[256];
    const double weight = __longlong_as_double((long long)terms);
    for (u64 c = 0; c < columns; ++c) {
        double sum = 0.0;
        for (u64 row = threadIdx.x; row < rows; row += 256u) {
            sum += parts[row * columns + c];
        }
        sum = gnnc_block_sum(shared, sum);
        if (threadIdx.x == 0) {
            out[c] = weight > 0.0 ? (float)(sum / weight) : 0.0f;
        }
    }
}

#define GNNC_FLOATS 4096u

/* Of each `GNNC_FLOATS` floats the sum of the squares, and that of the squares of their differences from
 * others: two sums for each block. */
extern "C" __global__ void __launch_bounds__(256, 4) gnnc_distance(
    const float *now, const float *then, u64 floats, double *parts, u64 storage)
{
    __shared__ double shared[256];
    const u64 first = blockIdx.x * (u64)GNNC_FLOATS;
    double norm = 0.0, distance = 0.0;
    for (u64 i = first + threadIdx.x; i < first + GNNC_FLOATS && i < floats; i += 256u) {
        const double x = gnnc_number(now, i, storage);
        const double difference = x - gnnc_number(then, i, storage);
        norm += x * x;
        distance += difference * difference;
    }
    norm = gnnc_block_sum(shared, norm);
    distance = gnnc_block_sum(shared, distance);
    if (threadIdx.x == 0) {
        parts[blockIdx.x * 2u] = norm;
        parts[blockIdx.x * 2u + 1u] = distance;
    }
}
