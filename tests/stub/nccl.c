/* NCCL for tests where there is no GPU: messages are files of a folder that the identifier names. */
#define _GNU_SOURCE
#include "stub.h"
#include <sys/stat.h>
#include <unistd.h>

#define MOST 1024
#define WAIT_US 5000000

struct id { char folder[128]; };
struct config { size_t size; unsigned magic, version; int blocking; };
struct comm { char folder[128]; int rank, ranks, asked, error; unsigned sent[64], received[64]; };
struct message { struct comm *comm; char *at; size_t bytes; int peer, send; };

static struct { struct message messages[MOST]; int count; void *stream; } group;
static int depth;

int ncclGetVersion(int *version) { *version = 22703; return 0; }
const char *ncclGetErrorString(int error) { return error == 6 ? "remote process exited" : "invalid usage"; }
const char *ncclGetLastError(struct comm *comm) { return comm ? "the stub" : ""; }

int ncclGetUniqueId(struct id *id)
{
    snprintf(id->folder, sizeof id->folder, "/tmp/gnnc-stub-XXXXXX");
    return mkdtemp(id->folder) ? 0 : 2;
}

static int becomes(const char *path, int there)
{
    for (int waited = 0; waited < WAIT_US; waited += 200) {
        if (!access(path, R_OK) == there)
            return 1;
        usleep(200);
    }
    return 0;
}

static int arrives(const char *path) { return becomes(path, 1); }

int ncclCommInitRankConfig(struct comm **made, int ranks, struct id id, int rank, struct config *config)
{
    char path[256];
    if (stub_fails("ncclCommInitRankConfig") || config->magic != 0xcafebeef || config->blocking != 0 || ranks > 64)
        return 5;
    struct comm *comm = calloc(1, sizeof *comm);
    strcpy(comm->folder, id.folder);
    comm->rank = rank;
    comm->ranks = ranks;
    for (int i = 0; i < ranks; ++i) {
        /* Own presence first, then that of the others. */
        const int other = (rank + i) % ranks;
        snprintf(path, sizeof path, "%s/rank-%d", comm->folder, other);
        if (other == rank)
            fclose(fopen(path, "w"));
        else if (!arrives(path))
            return 6;
    }
    *made = comm;
    return 7; /* it is said to be done at the third question */
}

int ncclCommGetAsyncError(struct comm *comm, int *error) { *error = comm->error ? comm->error : ++comm->asked < 3 ? 7 : 0; return 0; }

/* Captured work holds on to a communicator, which waits for ever then. */
int ncclCommAbort(struct comm *comm)
{
    char path[256];
    if (stub_holds(comm)) {
        fprintf(stderr, "stub: NCCL would wait for captured work for ever\n");
        abort();
    }
    snprintf(path, sizeof path, "%s/rank-%d", comm->folder, comm->rank);
    unlink(path);
    rmdir(comm->folder); /* succeeds for the last */
    free(comm);
    return 0;
}

/* Nothing is on its way: messages are files. Done at the third question. */
int ncclCommFinalize(struct comm *comm)
{
    if (stub_fails("ncclCommFinalize") || comm->error)
        return 5;
    comm->asked = 0;
    return 7;
}

int ncclCommDestroy(struct comm *comm) { return ncclCommAbort(comm); }

int ncclGroupStart(void) { group.count = 0; ++depth; return 0; }

static int add(struct message message, void *stream)
{
    if (depth != 1 || group.count == MOST || message.peer == message.comm->rank || message.peer >= message.comm->ranks)
        return 5;
    if (!stub_is_device((uint64_t)message.at, message.bytes))
        return 4;
    group.messages[group.count++] = message;
    group.stream = stream;
    return 0;
}

int ncclSend(const void *at, size_t bytes, int type, int peer, struct comm *comm, void *stream)
{
    return type == 1 ? add((struct message){comm, (char *)at, bytes, peer, 1}, stream) : 4;
}

int ncclRecv(void *at, size_t bytes, int type, int peer, struct comm *comm, void *stream)
{
    return type == 1 ? add((struct message){comm, at, bytes, peer, 0}, stream) : 4;
}

static void name(char *path, size_t size, const struct message *m, unsigned number)
{
    const struct comm *comm = m->comm;
    const int from = m->send ? comm->rank : m->peer, to = m->send ? m->peer : comm->rank;
    snprintf(path, size, "%s/%d-%d-%u", comm->folder, from, to, number);
}

/* A send of NCCL's is over when it was taken: whoever sends without being received waits for ever. */
static int taken(const void *data)
{
    const struct message *m = data;
    char path[256];
    name(path, sizeof path, m, m->comm->sent[m->peer] - 1);
    if (!m->comm->error && !becomes(path, 0))
        m->comm->error = 6;
    return OK;
}

static int transfer(const void *data)
{
    const struct message *m = data;
    struct comm *comm = m->comm;
    char path[256], aside[300];
    if (comm->error)
        return OK;
    name(path, sizeof path, m, m->send ? comm->sent[m->peer]++ : comm->received[m->peer]++);
    snprintf(aside, sizeof aside, "%s.part", path);
    if (!m->send && !arrives(path)) {
        comm->error = 6;
        return OK; /* found by whoever asks for errors */
    }
    FILE *file = fopen(m->send ? aside : path, m->send ? "w" : "r");
    const size_t done = m->send ? fwrite(m->at, 1, m->bytes, file) : fread(m->at, 1, m->bytes, file);
    const int longer = !m->send && fgetc(file) != EOF;
    fclose(file);
    if (m->send)
        rename(aside, path);
    else
        unlink(path);
    if (done != m->bytes || longer)
        comm->error = 4;
    return OK;
}

int ncclGroupEnd(void)
{
    --depth;
    int status = stub_fails("ncclGroupEnd") ? 6 : 0;
    for (int send = 1; send >= 0 && !status; --send)
        for (int i = 0; i < group.count && !status; ++i)
            if (group.messages[i].send == send)
                status = stub_enqueue(group.stream, transfer, &group.messages[i], sizeof group.messages[i]);
    for (int i = 0; i < group.count && !status; ++i)
        if (group.messages[i].send)
            status = stub_enqueue(group.stream, taken, &group.messages[i], sizeof group.messages[i]);
    return status;
}
