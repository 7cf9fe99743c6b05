/* The driver's interface on the processor, for tests where there is no GPU.
 *
 * Work is done when it is put on a stream, which is one of the orders that events allow; captured work
 * is done when it is replayed. Checked are what a driver checks: that a context is current, that
 * addresses were allocated, that captured streams join and wait for no others. Machine code is C, see
 * nvrtc.c; modules are compiled with `cc` behind the shim of the code generator's tests. What is not
 * given back when the context is released is told on standard error. SHIM and FOLDER are given at
 * compile time: the shim's file, and where modules are kept. One thread at a time. */
#define _GNU_SOURCE
#include "stub.h"
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536
#define MEMORY ((size_t)1 << 30)
#define PARAMETERS 64

typedef uint64_t address;

struct block { address at; size_t bytes; };
struct op { struct op *next; int (*work)(const void *); size_t bytes; char data[]; };
struct graph { struct op *first, **last; };
struct stream { struct capture *capture; int dirty; };
struct capture { struct graph *graph; struct stream *origin, *streams[256]; int count; };
struct event { struct capture *capture; struct stream *on; struct timespec time; int recorded; };
struct function { int (*run)(const uint64_t *, unsigned, unsigned, int); int arguments; };
struct module { void *library; char *text; struct function *functions[4096]; int count; };

static struct block blocks[MOST], host_blocks[MOST];
static int block_count, hosts, streams, events, modules, graphs, contexts;
static size_t used;
static __thread int current;
static struct capture *capturing;
/* What captured work begins with, each as often as it was captured. */
static const void *held[MOST];
static int held_count;

int stub_fails(const char *name)
{
    static int calls;
    const char *wanted = getenv("GNNC_STUB_FAIL");
    const char *colon = wanted ? strchr(wanted, ':') : NULL;
    if (!colon || strncmp(wanted, name, (size_t)(colon - wanted)) || name[colon - wanted])
        return 0;
    return ++calls == atoi(colon + 1);
}

#define ENTER do { if (stub_fails(__func__)) return UNKNOWN; } while (0)
#define ENTER_CONTEXT do { ENTER; if (!current) return INVALID_CONTEXT; } while (0)

int stub_is_device(address at, size_t bytes)
{
    for (int i = 0; i < block_count; ++i)
        if (blocks[i].at <= at && at + bytes <= blocks[i].at + blocks[i].bytes)
            return 1;
    return bytes == 0;
}

int stub_enqueue(void *handle, int (*work)(const void *), const void *data, size_t bytes)
{
    struct stream *stream = handle;
    if (!stream)
        return INVALID_HANDLE;
    stream->dirty = 1;
    if (!stream->capture)
        return work(data);
    struct op *op = malloc(sizeof *op + bytes);
    op->next = NULL;
    op->work = work;
    op->bytes = bytes;
    memcpy(op->data, data, bytes);
    if (bytes >= sizeof *held && held_count < MOST)
        memcpy(&held[held_count++], data, sizeof *held);
    *stream->capture->graph->last = op;
    stream->capture->graph->last = &op->next;
    return OK;
}

int stub_holds(const void *first)
{
    for (int i = 0; i < held_count; ++i)
        if (held[i] == first)
            return 1;
    return 0;
}

static void let_go(const struct op *op)
{
    for (int i = 0; op->bytes >= sizeof *held && i < held_count; ++i)
        if (!memcmp(&held[i], op->data, sizeof *held)) {
            held[i] = held[--held_count];
            return;
        }
}

int cuInit(unsigned flags) { ENTER; return flags ? INVALID_VALUE : OK; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { ENTER; *count = 1; return OK; }
int cuDeviceGet(int *device, int number) { ENTER; *device = number; return number ? INVALID_VALUE : OK; }
int cuDeviceGetName(char *name, int length, int device) { ENTER; (void)device; snprintf(name, (size_t)length, "Stub"); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { ENTER; (void)device; *bytes = MEMORY; return OK; }

int cuDeviceGetAttribute(int *value, int which, int device)
{
    ENTER;
    (void)device;
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 1 : -1;
    return *value < 0 ? INVALID_VALUE : OK;
}

int cuGetErrorName(int error, const char **name)
{
    static char text[64];
    snprintf(text, sizeof text, "STUB_ERROR_%d", error);
    *name = text;
    return OK;
}

int cuGetErrorString(int error, const char **words) { (void)error; *words = "as the stub was told"; return OK; }

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER;
    (void)device;
    ++contexts;
    *context = &contexts;
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    if (--contexts == 0 && (block_count || hosts || streams || events || modules || graphs))
        fprintf(stderr, "stub: left behind: %d allocations, %d of the host, %d streams, %d events, %d modules, %d graphs\n",
                block_count, hosts, streams, events, modules, graphs);
    return OK;
}

int cuCtxSetCurrent(void *context) { ENTER; current = context != NULL; return OK; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { ENTER_CONTEXT; *free = MEMORY - used; *total = MEMORY; return OK; }

int cuMemAlloc_v2(address *at, size_t bytes)
{
    ENTER_CONTEXT;
    void *memory;
    if (bytes == 0 || block_count == MOST)
        return INVALID_VALUE;
    if (bytes > MEMORY - used || posix_memalign(&memory, 256, bytes))
        return OUT_OF_MEMORY;
    memset(memory, 0xff, bytes); /* not initialised: no numbers */
    used += bytes;
    *at = (address)memory;
    blocks[block_count++] = (struct block){*at, bytes};
    return OK;
}

int cuMemFree_v2(address at)
{
    ENTER_CONTEXT;
    for (int i = 0; i < block_count; ++i)
        if (blocks[i].at == at) {
            used -= blocks[i].bytes;
            blocks[i] = blocks[--block_count];
            free((void *)at);
            return OK;
        }
    return INVALID_VALUE;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT;
    (void)flags;
    if (bytes == 0 || hosts == MOST)
        return INVALID_VALUE;
    if (bytes > MEMORY)
        return OUT_OF_MEMORY;
    *at = malloc(bytes);
    memset(*at, 0xff, bytes); /* not initialised */
    host_blocks[hosts++] = (struct block){(address)*at, bytes};
    return OK;
}

int cuMemFreeHost(void *at)
{
    for (int i = 0; i < hosts; ++i)
        if (host_blocks[i].at == (address)at) {
            host_blocks[i] = host_blocks[--hosts];
            free(at);
            return OK;
        }
    return INVALID_VALUE;
}

/* The real one takes pageable memory too, but then waits, and captured work may not hold such copies. */
static int is_pinned(const void *at, size_t bytes)
{
    for (int i = 0; i < hosts; ++i)
        if (host_blocks[i].at <= (address)at && (address)at + bytes <= host_blocks[i].at + host_blocks[i].bytes)
            return 1;
    return bytes == 0;
}

struct copy { void *to; const void *from; size_t bytes; };
static int copy(const void *data)
{
    const struct copy *c = data;
    memcpy(c->to, c->from, c->bytes);
    return OK;
}

static int copying(void *stream, void *to, const void *from, size_t bytes, int device_to, int device_from)
{
    const struct copy c = {to, from, bytes};
    if (device_to ? !stub_is_device((address)to, bytes) : !is_pinned(to, bytes))
        return ILLEGAL_ADDRESS;
    if (device_from ? !stub_is_device((address)from, bytes) : !is_pinned(from, bytes))
        return ILLEGAL_ADDRESS;
    return stub_enqueue(stream, copy, &c, sizeof c);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) { ENTER_CONTEXT; return copying(stream, (void *)to, from, bytes, 1, 0); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream) { ENTER_CONTEXT; return copying(stream, to, (void *)from, bytes, 0, 1); }
int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void *stream) { ENTER_CONTEXT; return copying(stream, (void *)to, (void *)from, bytes, 1, 1); }

struct fill { address at; size_t pitch, width, rows; };
static int zero(const void *data)
{
    const struct fill *f = data;
    for (size_t row = 0; row < f->rows; ++row)
        memset((char *)f->at + row * f->pitch, 0, f->width);
    return OK;
}

int cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream)
{
    ENTER_CONTEXT;
    const struct fill f = {at, bytes, bytes, 1};
    if (value || !stub_is_device(at, bytes))
        return value ? INVALID_VALUE : ILLEGAL_ADDRESS;
    return stub_enqueue(stream, zero, &f, sizeof f);
}

int cuMemsetD2D8Async(address at, size_t pitch, unsigned char value, size_t width, size_t rows, void *stream)
{
    ENTER_CONTEXT;
    const struct fill f = {at, pitch, width, rows};
    if (value || pitch < width || !stub_is_device(at, (rows - 1) * pitch + width))
        return INVALID_VALUE;
    return stub_enqueue(stream, zero, &f, sizeof f);
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) { ENTER_CONTEXT; *least = 0; *greatest = -5; return OK; }
int cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority)
{
    ENTER_CONTEXT;
    *stream = calloc(1, sizeof **stream);
    ++streams;
    return flags == 1 && priority <= 0 && priority >= -5 ? OK : INVALID_VALUE;
}
int cuStreamSynchronize(struct stream *stream) { ENTER_CONTEXT; return stream->capture ? CAPTURE_UNSUPPORTED : OK; }
int cuStreamQuery(struct stream *stream)
{
    static int asked;
    ENTER_CONTEXT;
    if (stream->capture)
        return CAPTURE_UNSUPPORTED;
    return ++asked % 3 ? NOT_READY : OK;
}

int cuEventCreate(struct event **event, unsigned flags) { ENTER_CONTEXT; (void)flags; *event = calloc(1, sizeof **event); ++events; return OK; }
int cuEventDestroy_v2(struct event *event) { --events; free(event); return OK; }
int cuEventSynchronize(struct event *event) { ENTER_CONTEXT; return event->capture ? CAPTURED_EVENT : OK; }

int cuEventRecord(struct event *event, struct stream *stream)
{
    ENTER_CONTEXT;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    event->capture = stream->capture;
    event->on = stream;
    event->recorded = 1;
    return OK;
}

int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags)
{
    ENTER_CONTEXT;
    if (flags)
        return INVALID_VALUE;
    if (!event->recorded)
        return OK;
    if (stream->capture && event->capture != stream->capture)
        return CAPTURE_ISOLATION;
    if (event->capture && event->capture != capturing)
        return CAPTURED_EVENT;
    if (event->capture && !stream->capture) {
        stream->capture = event->capture;
        event->capture->streams[event->capture->count++] = stream;
    }
    /* Roughly: whoever waits for the last of a stream has joined it. */
    if (event->capture && event->on != stream)
        event->on->dirty = 0;
    return OK;
}

int cuEventElapsedTime_v2(float *milliseconds, struct event *from, struct event *to)
{
    ENTER_CONTEXT;
    if (!from->recorded || !to->recorded || from->capture || to->capture)
        return INVALID_HANDLE;
    *milliseconds = (float)(1e3 * (double)(to->time.tv_sec - from->time.tv_sec)
                            + 1e-6 * (double)(to->time.tv_nsec - from->time.tv_nsec));
    return OK;
}

int cuStreamBeginCapture_v2(struct stream *stream, int mode)
{
    ENTER_CONTEXT;
    if (mode != 2 || capturing)
        return INVALID_VALUE;
    capturing = calloc(1, sizeof *capturing); /* kept: events point to it */
    capturing->graph = calloc(1, sizeof *capturing->graph);
    capturing->graph->last = &capturing->graph->first;
    capturing->origin = stream;
    capturing->streams[capturing->count++] = stream;
    stream->capture = capturing;
    ++graphs;
    return OK;
}

int cuGraphDestroy(struct graph *graph);

int cuStreamEndCapture(struct stream *stream, struct graph **graph)
{
    ENTER_CONTEXT;
    if (!capturing || capturing->origin != stream)
        return INVALID_VALUE;
    int joined = 1;
    for (int i = 0; i < capturing->count; ++i) {
        struct stream *other = capturing->streams[i];
        joined &= other == stream || !other->dirty;
        other->capture = NULL;
    }
    *graph = capturing->graph;
    capturing = NULL;
    if (joined)
        return OK;
    cuGraphDestroy(*graph); /* nobody else can */
    *graph = NULL;
    return CAPTURE_UNJOINED;
}

int cuGraphInstantiateWithFlags(struct graph **launchable, struct graph *graph, unsigned long long flags)
{
    ENTER_CONTEXT;
    *launchable = calloc(1, sizeof **launchable);
    **launchable = *graph;
    graph->first = NULL;
    ++graphs;
    return flags ? INVALID_VALUE : OK;
}

int cuGraphDestroy(struct graph *graph)
{
    for (struct op *op = graph->first, *next; op; op = next) {
        next = op->next;
        let_go(op);
        free(op);
    }
    free(graph);
    --graphs;
    return OK;
}

int cuStreamDestroy_v2(struct stream *stream)
{
    if (capturing && capturing->origin == stream) {
        cuGraphDestroy(capturing->graph);
        capturing = NULL;
    }
    --streams;
    free(stream);
    return OK;
}

int cuGraphExecDestroy(struct graph *graph) { return cuGraphDestroy(graph); }

int cuGraphLaunch(struct graph *graph, struct stream *stream)
{
    ENTER_CONTEXT;
    int status = stream->capture ? CAPTURE_UNSUPPORTED : OK;
    for (struct op *op = graph->first; op && status == OK; op = op->next)
        status = op->work(op->data);
    return status;
}

/* An entry point behind `at`, with its parameters: whether each is an address. */
static const char *entry(const char *at, char *name, int *pointers, int *count)
{
    at = strstr(at, "__global__ void");
    if (!at)
        return NULL;
    at += strlen("__global__ void");
    at += strspn(at, " \n");
    if (!strncmp(at, "__launch_bounds__", 17))
        at = strchr(at, ')') + 1;
    at += strspn(at, " \n");
    size_t length = strcspn(at, "(");
    memcpy(name, at, length);
    name[length] = 0;
    at += length;
    *count = 0;
    int pointer = 0;
    for (const char *end = at + strcspn(at, ")"); at <= end; ++at) {
        pointer |= *at == '*';
        if (*at == ',' || *at == ')') {
            pointers[(*count)++] = pointer;
            pointer = 0;
        }
    }
    return at;
}

static void without(char *text, const char *words)
{
    for (char *at; (at = strstr(text, words));)
        memset(at, ' ', strlen(words));
}

int cuModuleLoadData(struct module **loaded, const void *image)
{
    ENTER_CONTEXT;
    const char *code = image;
    if (memcmp(code, "\x7f" "ELF", 4))
        return INVALID_VALUE;
    char *text = strdup(code + 4), file[512], library[512], command[4096];
    without(text, "extern \"C\"");
    uint64_t hash = 1469598103934665603u;
    for (const char *c = text; *c; ++c)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    snprintf(library, sizeof library, FOLDER "/module-%016llx.so", (unsigned long long)hash);
    if (access(library, R_OK)) {
        snprintf(file, sizeof file, FOLDER "/module-%d.c", (int)getpid());
        FILE *out = fopen(file, "w");
        if (!out)
            return UNKNOWN;
        fprintf(out, "#include \"%s\"\n%s\n", SHIM, text);
        char name[256];
        int pointers[PARAMETERS], count;
        for (const char *at = text; (at = entry(at, name, pointers, &count));) {
            fprintf(out, "static void call_%s(void) { %s(", name, name);
            for (int i = 0; i < count; ++i)
                fprintf(out, "%s%sarguments[%d]", i ? ", " : "", pointers[i] ? "(void *)" : "", i);
            fprintf(out, "); }\nint count_%s = %d;\n", name, count);
            fprintf(out, "int run_%s(const uint64_t *a, unsigned x, unsigned y, int r)\n"
                         "{ arguments = a; return run_grid(call_%s, x, y, r); }\n", name, name);
        }
        fclose(out);
        snprintf(command, sizeof command,
                 "cc -std=gnu11 -O1 -w -shared -fPIC -ffp-contract=off -o %s.%d %s -lm && mv %s.%d %s && rm %s",
                 library, (int)getpid(), file, library, (int)getpid(), library, file);
        if (system(command))
            return LAUNCH_FAILED;
    }
    struct module *module = calloc(1, sizeof *module);
    module->text = text;
    module->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!module->library)
        return UNKNOWN;
    ++modules;
    *loaded = module;
    return OK;
}

int cuModuleGetFunction(struct function **found, struct module *module, const char *name)
{
    ENTER_CONTEXT;
    char symbol[300];
    snprintf(symbol, sizeof symbol, "count_%s", name);
    int *count = dlsym(module->library, symbol);
    snprintf(symbol, sizeof symbol, "run_%s", name);
    struct function *function = malloc(sizeof *function);
    *(void **)&function->run = dlsym(module->library, symbol);
    if (!count || !function->run || module->count == 4096)
        return NOT_FOUND;
    function->arguments = *count;
    module->functions[module->count++] = function;
    *found = function;
    return OK;
}

int cuFuncLoad(struct function *function) { ENTER_CONTEXT; return function ? OK : INVALID_VALUE; }

int cuModuleUnload(struct module *module)
{
    for (int i = 0; i < module->count; ++i)
        free(module->functions[i]);
    dlclose(module->library);
    free(module->text);
    free(module);
    --modules;
    return OK;
}

struct launch { struct function *function; unsigned x, y; uint64_t arguments[PARAMETERS]; };
static int run(const void *data)
{
    const struct launch *l = data;
    return l->function->run(l->arguments, l->x, l->y, 0) == 1 ? OK : LAUNCH_FAILED;
}

int cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra)
{
    ENTER_CONTEXT;
    if (!x || !y || z != 1 || bx != 256 || by != 1 || bz != 1 || shared || extra || function->arguments > PARAMETERS)
        return INVALID_VALUE;
    struct launch l = {function, x, y, {0}};
    for (int i = 0; i < function->arguments; ++i)
        l.arguments[i] = *(uint64_t *)parameters[i];
    return stub_enqueue(stream, run, &l, sizeof l);
}
