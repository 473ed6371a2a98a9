"""Python programs that put a server's command together: argparse's defaults, lists that grow, conditions, functions."""

from __future__ import annotations

from textwrap import dedent

from kvplan.manifests.read import read
from kvplan.manifests.values import Found


def one(text: str) -> Found:
    (found,) = read(dedent(text), "serve.py")
    return found


def test_defaults_of_the_programs_own_options() -> None:
    found = one("""
        import argparse, os

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--model", required=True)
            parser.add_argument("--gpu-memory-utilization", "-g", type=float, default=0.85)
            parser.add_argument("--max-model-len", type=int, default=None)
            parser.add_argument("--tp", dest="ranks", type=int, default=2)
            parser.add_argument("--eager", action="store_true")
            args = parser.parse_args()
            cmd = ["vllm", "serve"]
            cmd.extend([args.model, "--tensor-parallel-size", str(args.ranks)])
            if args.max_model_len:
                cmd.extend(["--max-model-len", str(args.max_model_len)])
            if args.gpu_memory_utilization is not None:
                cmd += ["--gpu-memory-utilization", str(args.gpu_memory_utilization)]
            if args.eager:
                cmd.append("--enforce-eager")
            os.system(" ".join(cmd))
        """)
    assert found.question == {"tp": 2, "memory_fraction": 0.85}
    assert "model" in {u.what for u in found.unresolved}


def test_a_function_that_returns_the_words() -> None:
    found = one("""
        import os, subprocess
        MODEL = "m/x"
        EAGER = True
        CHUNKED = False
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"

        def build(length=4096):
            cmd = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL,
                   "--max-model-len", str(length), "--enforce-eager" if EAGER else "", "--enable-chunked-prefill" if CHUNKED else ""]
            cmd = [c for c in cmd if c]
            return cmd

        def main():
            command = build(length=8192)
            subprocess.run(command)
        """)
    assert (found.model, found.question) == ("m/x", {"max_model_len": 8192, "enforce_eager": True, "n_devices": 2})


def test_what_a_condition_adds_that_is_not_known_is_open() -> None:
    found = one("""
        import os, subprocess
        cmd = ["vllm", "serve", "m/x"]
        if os.path.exists("/etc/long"):
            cmd.extend(["--max-model-len", "9"])
        subprocess.Popen(cmd)
        """)
    assert "max_model_len" not in found.question
    assert {"options", "device"} <= {u.what for u in found.unresolved}


def test_a_function_that_calls_itself_ends() -> None:
    assert read("import subprocess\ndef f(x):\n    return f(f(x))\nsubprocess.run(f('vllm'))\n", "serve.py") == []
