import subprocess
import sys

MODEL = "Qwen/Qwen3-8B"


def main():
    subprocess.run([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--max-model-len", "8192"], check=True)
