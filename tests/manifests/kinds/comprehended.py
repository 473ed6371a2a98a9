import os
import subprocess

import modal

SIZES = {"kv-cache-dtype": "fp8", "max-model-len": 32768}


def setting(name, default, kind=str):
    value = os.getenv(name, default)
    if kind is int:
        return int(value)
    elif kind is bool:
        return value.lower() in ("true", "1")
    return value


app = modal.App("chat")


@app.function(gpu="H100:2", image=modal.Image.debian_slim().pip_install("vllm==0.11.0"))
def serve():
    cmd = ["vllm", "serve", setting("MODEL", "Qwen/Qwen3-32B"), "--tensor-parallel-size", str(setting("TP", "2", int))]
    cmd += [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]
    subprocess.Popen(cmd)
