import subprocess

import modal
from vllm import LLM

MODEL = "Qwen/Qwen3-32B"
N_GPU = 2
app = modal.App("x")


@app.function(gpu=f"H100:{N_GPU}")
def serve():
    cmd = ["vllm", "serve", MODEL, "--tensor-parallel-size", str(N_GPU)]
    cmd += ["--max-model-len", "8192"]
    subprocess.Popen(" ".join(cmd), shell=True)


def offline(size):
    return LLM(model="Qwen/Qwen3-8B", tensor_parallel_size=size, gpu_memory_utilization=0.8)
