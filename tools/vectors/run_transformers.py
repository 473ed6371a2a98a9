"""What transformers itself keeps of a forward: questions on standard input, answers on standard output, one JSON object a line.

    PYTHONPATH=. python tools/vectors/run_transformers.py < questions.jsonl > answers.jsonl

A question has `id`, `config` (the keys of a config.json) and `runs`, pairs of batch and tokens; the model is built on torch's meta
device, run once for each, and every tensor of the cache that it returns is counted (tests/oracle/mutants/truth.py says what stands in
for layers that do not run there: none that touches a cache). An answer has `release` and either `cache_bytes`, in the order of `runs`, or
`refused`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")


def main() -> None:
    import transformers

    from tests.oracle.mutants import truth

    with tempfile.TemporaryDirectory() as scratch, truth.quiet():
        for line in sys.stdin:
            question = json.loads(line)
            answer = kept(truth, question, Path(scratch))
            print(json.dumps({"id": question["id"], "release": transformers.__version__, **answer}), flush=True)


def kept(truth: Any, question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Bytes of the cache by tokens, and parameters, of the class that the config names."""
    import torch

    try:
        (cls, made), *_ = truth.read(question["config"], folder)
        model = truth._made(cls, made, "meta")
        parameters = sum(p.numel() for p in model.parameters())
        for prepare in (truth.quick, truth.still, truth.whole_blocks):
            undo = prepare(model)
            try:
                with torch.no_grad(), torch.device("meta"):
                    cache = [truth.held(run(model, batch, tokens))[0] for batch, tokens in question["runs"]]
                return {"parameters": parameters, "cache_bytes": cache}
            except Exception as error:
                why = f"{error!r:.200}"
            for module in undo:
                del module.forward
        return {"refused": why}
    except Exception as error:
        return {"refused": f"{error!r:.200}"}


def run(model: Any, batch: int, tokens: int) -> Any:
    import torch

    return model(input_ids=torch.zeros((batch, tokens), dtype=torch.long), use_cache=True)


if __name__ == "__main__":
    main()
