"""GPUs that are not there: an NVML that finds them, and a driver that records its calls and their processes.

By default NVML finds two GPUs and the driver itself has none, so without NVML there is none. With the runtime torch
finds the driver's GPUs too, with devices, streams and events; memory and kernels still fail, as they have no GPU.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMPILER = shutil.which("gcc") or shutil.which("cc")
RUNTIME_NAME = "libpretended_runtime.so"
CALLS = "PRETENDED_DRIVER_CALLS"  # path of the file that the driver writes to

NVML = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MIG 1000 /* of the handles of instances */
#define IS_MIG(device) ((long)(device) >= FIRST_MIG)

int nvmlInit(void) { return NVML_ANSWER; }
int nvmlInit_v2(void) { return NVML_ANSWER; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount(unsigned *count) { *count = NVML_GPUS; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = NVML_GPUS; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(index + 1L); return 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
    return snprintf(text, size, "%s-%ld-pretended", IS_MIG(device) ? "MIG" : "GPU", (long)device - 1) < 0;
}
int nvmlDeviceGetHandleByUUID(const char *text, void **device) { *device = (void *)(atol(text + 4) + 1); return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending)
{
    *now = *pending = 1;
    return MIG_INSTANCES ? 0 : 3; /* not supported */
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = MIG_INSTANCES; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance)
{
    *instance = (void *)((long)device * FIRST_MIG + index);
    return 0;
}
/* A GPU has as many GiB in use as its index says, divided by BUSY. */
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    memset(memory, 0, 24);
    memory[2] = ((unsigned long long)((long)device - 1) << 30) / BUSY;
    return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    strncpy(name, IS_MIG(device) ? "pretended MIG 1g.10gb" : "pretended", size);
    return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "1.2.3", size); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = CUDA; return 0; }
"""

# The runtime asks for all functions by name before it calls any; only cuInit starts the driver.
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int note(const char *name, int answer)
{
    const char *path = getenv("PRETENDED_DRIVER_CALLS");
    FILE *file = path ? fopen(path, "a") : 0;
    if (file) { fprintf(file, "%d %s\\n", (int)getpid(), name); fclose(file); }
    return answer;
}

int cuInit(unsigned flags) { if (NOISE) puts("noise"); return note("cuInit", CUINIT); }
int cuDriverGetVersion(int *version) { *version = CUDA; return 0; }
int cuDeviceGetCount(int *count) { *count = CUDA_GPUS; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device)
{
    strncpy(name, MIG_INSTANCES ? "pretended MIG 1g.10gb" : "pretended", size);
    return 0;
}
int cuGetErrorString(int code, const char **text) { *text = "pretended"; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
static int other(void) { return note("something else", 100); }

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status)
{
    *function = (void *)other;
    if (!strcmp(name, "cuInit")) *function = (void *)cuInit;
    if (!strcmp(name, "cuDriverGetVersion")) *function = (void *)cuDriverGetVersion;
    if (!strncmp(name, "cuGetProcAddress", 16)) *function = (void *)cuGetProcAddress_v2;
    if (status) *status = 0;
    return 0;
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
"""

# Preloaded, so that its functions replace those of CUDA's runtime. All work ends at once.
RUNTIME = """
#include <stdlib.h>
#include <string.h>

static __thread int current;

int cudaGetDeviceCount(int *count) { *count = CUDA_GPUS; return 0; }
int cudaGetDevice(int *device) { *device = current; return 0; }
int cudaSetDevice(int device) { current = device; return 0; }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { *can = 1; return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaMemGetInfo(size_t *free, size_t *total) { *free = *total = 80ul << 30; return 0; }
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { *stream = malloc(1); return 0; }
int cudaStreamQuery(void *stream) { return 0; }
int cudaStreamSynchronize(void *stream) { return 0; }
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo(void *stream, int *status) { *status = 0; return 0; } /* and what it leaves alone */
int cudaStreamGetCaptureInfo_v2(void *stream, int *status) { *status = 0; return 0; }
int cudaStreamDestroy(void *stream) { free(stream); return 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { *event = malloc(1); return 0; }
int cudaEventDestroy(void *event) { free(event); return 0; }
int cudaEventRecord(void *event, void *stream) { return 0; }
int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) { return 0; }
int cudaEventQuery(void *event) { return 0; }
int cudaEventSynchronize(void *event) { return 0; }
int cudaEventElapsedTime(float *milliseconds, void *before, void *after) { *milliseconds = 1; return 0; }

/* The offsets are those of cudaDeviceProp in CUDA 12 and 13. */
int cudaGetDeviceProperties(char *properties, int device)
{
    memset(properties, 0, 800);
    strcpy(properties, "pretended");
    *(size_t *)(properties + 288) = 80ul << 30; /* totalGlobalMem */
    *(int *)(properties + 308) = 32; /* warpSize */
    *(int *)(properties + 320) = 1024; /* maxThreadsPerBlock */
    *(int *)(properties + 360) = 9; /* major */
    return 0;
}
int cudaGetDeviceProperties_v2(char *properties, int device) { return cudaGetDeviceProperties(properties, device); }
"""


@dataclass(frozen=True, slots=True)
class Pretended:
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "0,1",
            CALLS: str(self.folder / "calls"),
        }

    @property
    def environ_with_runtime(self) -> dict[str, str]:
        """With all GPUs that torch finds visible."""
        found = {**self.environ, "LD_PRELOAD": str(self.folder / RUNTIME_NAME)}
        del found["CUDA_VISIBLE_DEVICES"]
        return found

    def starts(self) -> list[int]:
        """Processes that called cuInit."""
        file = self.folder / "calls"
        calls = [line.split(" ", 1) for line in file.read_text().splitlines()] if file.exists() else []
        return [int(pid) for pid, name in calls if name == "cuInit"]


NVML_WORKS, NVML_HAS_NO_DRIVER = 0, 9  # NVML_SUCCESS, NVML_ERROR_DRIVER_NOT_LOADED
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
DEFAULTS = {
    "NVML_ANSWER": NVML_WORKS,
    "NVML_GPUS": 2,
    "MIG_INSTANCES": 0,  # of each GPU
    "BUSY": 1,
    "CUDA": 13000,
    "CUINIT": NO_DEVICE,
    "CUDA_GPUS": 0,
    "NOISE": 0,
}
EIGHT = {"nvml_gpus": 8, "cuinit": 0, "cuda_gpus": 8, "busy": 1024}  # a node in order


def build(folder: Path, **numbers: int) -> Pretended:
    """`numbers` replace DEFAULTS, in lower case: `cuda` is the version that both libraries report."""
    assert COMPILER is not None
    folder.mkdir(exist_ok=True)
    values = DEFAULTS | {name.upper(): number for name, number in numbers.items()}
    assert values.keys() == DEFAULTS.keys()
    for name, source in (("libnvidia-ml.so.1", NVML), ("libcuda.so.1", DRIVER), (RUNTIME_NAME, RUNTIME)):
        command = [
            COMPILER,
            "-shared",
            "-fPIC",
            *(f"-D{name}={number}" for name, number in values.items()),
            "-x",
            "c",
            "-o",
            str(folder / name),
            "-",
        ]
        subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return Pretended(folder)
