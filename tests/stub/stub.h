/* What the stub libraries share: work on streams, and failures on demand. */
#ifndef STUB_H
#define STUB_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907,
    UNKNOWN = 999
};

/* Does work now, or writes it down where the stream is captured; the data are copied. */
int stub_enqueue(void *stream, int (*work)(const void *), const void *data, size_t bytes);

/* Whether these bytes were allocated on the device. */
int stub_is_device(uint64_t at, size_t bytes);

/* Whether captured work that was not destroyed begins with this pointer. */
int stub_holds(const void *first);

/* Whether this call is the one that GNNC_STUB_FAIL=NAME:N names. */
int stub_fails(const char *name);

#endif
