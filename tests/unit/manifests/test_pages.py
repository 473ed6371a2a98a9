"""Markdown pages: of what stands in fenced blocks, each is read by itself, at its own lines."""

from __future__ import annotations

import pytest

from kvplan.manifests.pages import blocks, is_page
from tests.unit.manifests.as_read import found

PAGE = """
# Serving

It's what vLLM serves: `vllm serve m/x` says it's so.

```bash
$ pip install vllm==0.11.0
$ vllm serve Qwen/Qwen3-8B --max-model-len 8192 \\
>   --tensor-parallel-size 2
```

- a list, with a manifest

  ~~~yaml
  apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers:
    - {name: c, image: "lmsysorg/sglang:v0.5.5", command: [sglang, serve, --model-path, Qwen/Qwen3-4B]}
  ~~~

```python
print("it's", "llama-server -m x.gguf")
```

```
llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 4096
```
"""


def test_the_blocks_of_a_page() -> None:
    vllm, sglang, llama = found(PAGE, "README.md")
    assert (vllm.engine, vllm.model, vllm.engine_version, vllm.place.line) == ("vllm", "Qwen/Qwen3-8B", "0.11.0", 7)
    assert (vllm.question["max_model_len"], vllm.question["tp"]) == (8192, 2)
    assert (sglang.model, sglang.engine_version, sglang.span[0]) == ("Qwen/Qwen3-4B", "0.5.5", 19)
    assert (llama.model, llama.question["max_model_len"]) == ("unsloth/Qwen3-8B-GGUF:Q4_K_M", 4096)


def test_a_block_that_can_not_be_read_is_said_where_it_names_an_engine() -> None:
    page = "```sh\necho 'no end\n```\n\n```sh\nVLLM='x\n```\n\n```sh\nvllm serve Qwen/Qwen3-8B\n```\n"
    first, second = found(page, "a.md")
    assert (first.engine, second.model) == ("", "Qwen/Qwen3-8B")
    assert first.unresolved[0].why == "the block of line 6 is not read: a quote ' is not closed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```sh\na\n", [("a", False, 2)]),
        ("````sh\n```\na\n```\n````\n", [("```\na\n```", False, 2)]),
        ("~~~\n# a prompt of root is a comment here\n~~~", [("# a prompt of root is a comment here", False, 2)]),
        ("```python\na\n```\n", []),
        ("``` {.yaml}\na: 1\n```", [("a: 1", True, 2)]),
        ("text ```sh\n", []),
    ],
)
def test_fences(text: str, expected: list[tuple[str, bool, int]]) -> None:
    """spec.commonmark.org 0.31, "Fenced code blocks"."""
    assert [tuple(one) for one in blocks(text)] == expected
    assert is_page("README.MD")
