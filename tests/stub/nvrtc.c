/* NVRTC for tests where there is no GPU: the machine code is the text itself, which the stub of the
 * driver compiles. A text without entry points does not compile. */
#include "stub.h"

struct program { char *text; };

int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
const char *nvrtcGetErrorString(int error) { return error ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }

int nvrtcCreateProgram(struct program **program, const char *text, const char *name, int headers, const char **h, const char **n)
{
    (void)name, (void)headers, (void)h, (void)n;
    *program = malloc(sizeof **program);
    (*program)->text = malloc(strlen(text) + 5);
    sprintf((*program)->text, "\x7f" "ELF%s", text);
    return stub_fails("nvrtcCreateProgram") ? 6 : 0;
}

int nvrtcCompileProgram(struct program *program, int count, const char **options)
{
    int arch = 0;
    for (int i = 0; i < count; ++i)
        arch |= !strcmp(options[i], "-arch=sm_90");
    if (stub_fails("nvrtcCompileProgram") || !arch)
        return 6;
    return strstr(program->text, "__global__ void") ? 0 : 6;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *bytes) { (void)program; *bytes = 9; return 0; }
int nvrtcGetProgramLog(struct program *program, char *log) { (void)program; strcpy(log, "the stub"); return 0; }
int nvrtcGetPTXSize(struct program *program, size_t *bytes) { (void)program; *bytes = 1; return 0; }
int nvrtcGetPTX(struct program *program, char *code) { (void)program; *code = 0; return 0; }
int nvrtcGetCUBINSize(struct program *program, size_t *bytes) { *bytes = strlen(program->text) + 1; return 0; }
int nvrtcGetCUBIN(struct program *program, char *code) { strcpy(code, program->text); return 0; }

int nvrtcDestroyProgram(struct program **program)
{
    free((*program)->text);
    free(*program);
    *program = NULL;
    return 0;
}
