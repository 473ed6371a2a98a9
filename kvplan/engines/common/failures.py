"""Texts with which any engine may end: torch's, CUDA's and the system's, as rows of the engine's own table (stops.py)."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import partial
from typing import NamedTuple

from kvplan.engines.common.conditions import without_settings
from kvplan.engines.common.stops import Move, Stop


class Phase(NamedTuple):
    """When memory ran out: what the engine was doing (a blank before it), words of a traceback that say so (none: any), what moves it."""

    doing: str
    near: tuple[str, ...]
    moves: tuple[Move, ...]


#: torch's texts, the newest first; each names what was wanted, and some what was there.
_TORCH = (
    (
        "out of memory. Tried to allocate {wanted} {unit:w}. GPU {gpu} has a total capac...ty of {total} {of:w} of which {free} {left:w} "
        "is free",
        "{wanted} {unit} were asked for and {free} {left} of {total} {of} were free",
    ),
    (
        "out of memory. Tried to allocate {wanted} {unit:w} (GPU {gpu}; {total} {of:w} total capacity; {held} {held_unit:w} already "
        "allocated; {free} {left:w} free",
        "{wanted} {unit} were asked for and {free} {left} of {total} {of} were free",
    ),
    ("out of memory. Tried to allocate {wanted} {unit:w}", "{wanted} {unit} were asked for and were not there"),
    ("CUDA error: out of memory", "the device had nothing left"),
    ("OutOfMemoryError", "the device had nothing left"),
    ("CUDA out of memory", "the device had nothing left"),
    ("HIP out of memory", "the device had nothing left"),
)  # fmt: skip
#: Words that stand in many longer texts: told where nothing else is.
BARE = frozenset({"CUDA out of memory", "HIP out of memory"})
_SOURCE = "torch c10/cuda/CUDACachingAllocator.cpp"


def out_of_memory(*phases: Phase) -> Iterator[Stop]:
    """The rows of torch's texts for an engine's phases, the telling ones first; the last phase has no words of its own."""
    for text, means in _TORCH:
        for phase in phases:
            yield Stop("out of memory", text, f"memory ran out{phase.doing}: {means}", phase.moves, _SOURCE, near=phase.near)


_NCCL = (
    Move("reserve", "what others hold on the device, so that the plan leaves room for its buffers"),
    Move("", "run with NCCL_DEBUG=WARN, which names the call that failed"),
)


def unpacked(needs: Container[str], since: str = "") -> Stop:
    """The stop at a method that reads its settings from a checkpoint's own files, with weights that are plain.

    needs  such methods
    """
    return Stop(
        "packed weights", "Cannot find the config file for {method:w}",
        "--quantization {method} reads weights that are packed so already, and this checkpoint's are not",
        (Move("option:quantization", "left out; fp8 quantises while it loads"), Move("weight_dtype", "a release in {method}")),
        "model_loader/weight_utils.py get_quant_config", since, when=partial(without_settings, needs=needs), loading=True,
        numbers="the model is stored in {own}; where a method looks for no file, it stops for want of its settings",
    )  # fmt: skip


def of_checkpoints() -> Iterator[Stop]:
    """For engines that load checkpoints of the Hub: what --quantization and config.json say of them."""
    yield Stop(
        "packed weights", "Unknown quantization method: {method:w}. Must be", "this release loads no weights that are packed as {method}",
        (Move("weight_dtype", "a release in a format that it loads"), Move("engine_version", "one that has it")),
        "config/model.py; configs/model_config.py _verify_quantization",
    )  # fmt: skip


EVERYWHERE: tuple[Stop, ...] = (
    Stop(
        "communication", "ncclUnhandledCudaError: Call to CUDA function failed. ... Cuda failure {code} 'out of memory'",
        "NCCL found no memory for its buffers", (Move("memory_fraction", "lower"), *_NCCL), "NCCL",
    ),
    Stop(
        "communication", "NCCL error", "ranks could not talk: often too little memory left for NCCL's buffers, too small a /dev/shm in a "
        "container, or a network interface that is not there",
        (Move("", "a container needs --ipc=host or --shm-size of some GiB"), Move("memory_fraction", "lower"), *_NCCL), "NCCL",
    ),
    Stop(
        "kernels and GPU", "no kernel image is available for execution on the device",
        "this build has no kernels for the GPU: it is older or newer than the build supports",
        (Move("device", "another GPU"), Move("engine_version", "a release, or an image, that was built for this one")), "CUDA",
    ),
    Stop(
        "FP8 and GPU", "type fp8e4nv not supported in this architecture",
        "Triton has e4m3 floats from compute capability 8.9 on; Ampere has e5m2",
        (Move("kv_dtype", "fp8_e5m2, or auto"), Move("", "another attention backend")), "Triton",
    ),
    Stop(
        "host memory", "can't allocate memory: you tried to allocate {bytes} bytes",
        "the host, not the GPU, ran out of memory: {bytes} bytes were asked for",
        (Move("", "more host memory, or fewer ranks that load at once on this machine"),), "torch c10/core/impl/alloc_cpu.cpp",
    ),
    *(
        Stop("cuBLAS", text, means, (Move("memory_fraction", "lower"), Move("reserve", "stop what else is on the GPU")),
            "torch ATen/cuda/CublasHandlePool.cpp; CUDA")
        for text, means in (
            ("CUBLAS_STATUS_ALLOC_FAILED", "the device is full: cuBLAS found no memory for its own workspace"),
            ("CUBLAS_STATUS_NOT_INITIALIZED", "cuBLAS did not start: mostly the device is full, else its driver or GPU is in a bad state"),
        )
    ),
    Stop(
        "disk", "[Errno 28] No space left on device", "a disk, or a container's /dev/shm, is full: this is not the GPU's memory",
        (Move("", "free the disk that models are downloaded to (HF_HOME)"), Move("", "a container: --shm-size of some GiB, or --ipc=host")),
        "Linux: ENOSPC",
    ),
    Stop(
        "host memory", "[Errno 12] Cannot allocate memory", "the host, not the GPU, ran out of memory",
        (Move("", "more host memory for the container"),), "Linux: ENOMEM",
    ),
    Stop(
        "host memory", "exit code -9", "a process was killed from outside: mostly the host, or the container's limit, ran out of memory",
        (Move("", "more host memory for the container"),), "Linux: signal 9",
    ),
    *(
        Stop("host memory", text, "the process was killed: mostly its container's memory limit, or the host, ran out of memory",
            (Move("", "more host memory for the container"),), "Linux: 128 + signal 9")
        for text in ("exit code 137", "exit code: 137", "Exit Code: 137", "exited with code 137", "Exited (137)", "exit status 137")
    ),
    Stop(
        "host memory", "Killed process {pid} ({name:w}) total-vm:",
        "Linux ended {name}: the host, or its container's limit, ran out of memory, not the GPU",
        (Move("", "more host memory, or a higher limit"),), "Linux mm/oom_kill.c __oom_kill_process",
    ),
    Stop(
        "no GPU", "No CUDA GPUs are available", "the process sees no GPU: this is no want of memory",
        (Move("", "a container needs --gpus all, or nvidia.com/gpu among its limits"),
         Move("", "CUDA_VISIBLE_DEVICES names one that exists, and nvidia-smi shows it")), "torch c10/cuda/CUDAFunctions.cpp",
    ),
    Stop(
        "one buffer",
        "[metal::malloc] Attempting to allocate {bytes} bytes which is greater than the maximum allowed buffer size of {most} bytes",
        "one array of {bytes} bytes is more than Metal lets a buffer have ({most}), however much memory is free",
        (Move("max_num_batched_tokens", "shorter steps (mlx-lm: --prefill-step-size): the scores of a step follow it"),
         Move("context", "shorter prompts")), "mlx backend/metal/allocator.cpp",
    ),
    *(
        Stop("shared memory", text, "a container's /dev/shm is too small for what processes hand each other: this is not the GPU's memory",
            (Move("", "docker: --shm-size of some GiB, or --ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm"),), source)
        for text, source in (
            ("unable to open shared memory object", "torch aten/src/ATen/MapAllocator.cpp"),
            ("insufficient shared memory (shm)", "torch utils/data/_utils/signal_handling.py"),
        )
    ),
    Stop(
        "kernels and GPU", "out of resource: shared memory, Required: {wanted}, Hardware limit: {limit}",
        "a Triton kernel wants {wanted} B of a multiprocessor's own memory and this GPU has {limit}: it was tuned for another, and no "
        "memory that a plan counts helps",
        (Move("", "another attention backend"), Move("kv_dtype", "auto"), Move("engine_version", "another release")),
        "triton/compiler/compiler.py",
    ),
    Stop(
        "driver", "CUDA driver version is insufficient for CUDA runtime version",
        "the host's driver is older than the CUDA that this build was made with: this is no want of memory",
        (Move("", "a newer driver, or an image for an older CUDA"),), "CUDA cudaErrorInsufficientDriver",
    ),
    Stop(
        "a fault in a kernel", "an illegal memory access was encountered",
        "a kernel read or wrote where nothing is: a fault in it, not a want of memory",
        (Move("", "CUDA_LAUNCH_BLOCKING=1 names the kernel"), Move("", "another attention backend"), Move("enforce_eager", "true"),
         Move("engine_version", "another release")), "CUDA cudaErrorIllegalAddress",
    ),
    Stop(
        "experts between ranks", "DeepEP error: timeout", "a rank waited for another's tokens: one that stopped, or a network that is slow",
        (Move("", "read the other ranks' logs first"), Move("", "another way to exchange experts")), "DeepEP csrc/deep_ep.cpp",
    ),
    Stop(
        "a class of later releases", "model type `{kind:w}` but Transformers does not recognize this architecture",
        "the transformers that is installed does not know {kind}", (Move("", "a newer transformers"),
        Move("engine_version", "a release that has it")), "transformers models/auto/configuration_auto.py",
    ),
    Stop(
        "host memory", "OOMKilled", "the container's memory limit was reached: host memory, not the GPU's",
        (Move("", "a higher memory limit"),), "Kubernetes",
    ),
)  # fmt: skip
