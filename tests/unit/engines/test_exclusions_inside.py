"""Terms of exclusions that look inside an option's object (kvplan/engines/common/exclusions.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan.engines.common.exclusions import Exclusion, excluded


@pytest.mark.parametrize(
    ("asked", "said", "holds"),
    [
        ("config.mode=3,full", '{"mode": "full"}', True),
        ("config.mode=", '{"mode": "full"}', False),
        ("config.mode=", "{}", True),
        ("config.flag=True", '{"flag": true}', True),
        ("config.flag=*", '{"flag": false}', True),
        ("config.sizes.*<=0", '{"sizes": [4, 0]}', True),
        ("config.sizes.*<=0", '{"sizes": []}', False),
        ("config.sizes.*>8", '{"sizes": "8"}', False),
        ("config.inner.n^-.*", '{"inner": {"n": -1}}', True),
        ("config.ops^.*'\\+(\\w+)'.*'-\\1'.*", '{"ops": ["+a", "-a"]}', True),
        ("config.mode=*", '{"mode": "$MODE"}', False),
        ("config.mode=*", "no JSON", False),
        ("config.mode=", '{"mode": "$MODE"}', False),
        ("config.mode=full", '{"mode": "full", "n": $N}', True),
        ("config.mode=", '{"mode": "full", "n": ${N}}', False),
        ("config.mode=full", '{"mode": "full", "n": {{ n }}}', True),
        ("config.mode=", '{"n": $N}', True),
        ("config.mode=", '{"$KEY": 1}', False),
        ("config.mode=", "$CONFIG", False),
        ("config.inner.n=", '{"inner": $INNER}', False),
        ("config.sizes.*<=0", '{"sizes": [$N, 4]}', False),
        ("config.sizes.*<=0", '{"sizes": [' + "1" + "0" * 400 + "]}", False),
        ("config.sizes.*<=0", '{"sizes": [-1' + "0" * 400 + "]}", True),
    ],
)
def test_terms(asked: str, said: str, holds: bool) -> None:
    assert bool(list(excluded((Exclusion(asked, "other=*", "it stops"),), {"config": said}, "1.0"))) is holds


def test_the_option_is_what_it_speaks_of() -> None:
    one = Exclusion("config.mode=3", "other.key=*|config.more=*", "it stops")
    assert (one.keys, one.lifted_by) == ({"config", "other"}, {"other"})


@pytest.mark.parametrize(
    ("wanted", "said", "stops"),
    [
        ("config.mode=full", '{"mode": "$MODE"}', False),
        ("config.mode=full", '{"mode": "none", "n": $N}', True),
        ("config.mode=", '{"$KEY": 1}', False),
        ("config.mode=full", "$CONFIG", False),
        ("config.mode^f.*", '{"mode": "{{ mode }}"}', False),
        ('config~"mode":"full"', '{"mode": "$MODE"}', False),
        ("config=,1", "$K", False),
        ("config=,1", "2", True),
        ("config>4", "$K", False),
    ],
)
def test_what_is_open_may_be_what_is_wanted(wanted: str, said: str, stops: bool) -> None:
    assert bool(list(excluded((Exclusion("other=*", wanted, "it stops"),), {"config": said, "other": 1}, "1.0"))) is stops


WATERMARK = """vllm serve Qwen/Qwen3-8B --watermark-config '{}' --speculative-config """
PROTON = (
    """vllm serve Qwen/Qwen3-8B --profiler-config '{"profiler":"proton","proton_mode":"pcsampling","proton_profiler_dir":"/tmp/p","""
    """"proton_graph_attribution":true}' --compilation-config """
)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (
            "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --speculative-use-rejection-sampling --speculative-algorithm EAGLE "
            "--speculative-draft-model-path x/y --speculative-num-steps 3 --speculative-num-draft-tokens 4 --speculative-eagle-topk $K",
            "unknown",
        ),
        (WATERMARK + """'{"method":"mtp","num_speculative_tokens":'$N',"draft_sample_method":"probabilistic"}'""", "unknown"),
        (WATERMARK + """'{"method":"mtp","num_speculative_tokens":'$N',"draft_sample_method":"greedy"}'""", "refuses"),
        (
            "vllm serve Qwen/Qwen3-VL-8B-Instruct --mm-processor-device cuda "
            """--ec-transfer-config '{"ec_connector":"ECExampleConnector","ec_role":"'$ROLE'"}'""",
            "unknown",
        ),
        # config/compilation.py CUDAGraphMode, which pydantic takes 0, 0.0 and false for: NONE
        *((PROTON + f"""'{{"cudagraph_mode":{none}}}'""", "fits") for none in ("0", "0.0", "false", '"none"')),
        (PROTON + """'{"cudagraph_mode":1.0}'""", "refuses"),
    ],
)
def test_commands(command: str, status: str, tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(command + "\n")
    (verdict,) = kvplan.check(tmp_path / "serve.sh", device="h100")
    assert verdict.status == status


@pytest.mark.parametrize(("mode", "name"), [("1.0", "PIECEWISE"), ("true", "PIECEWISE"), ("2", "FULL")])
def test_a_mode_of_graphs_by_its_number(mode: str, name: str, tmp_path: Path) -> None:
    """pydantic takes 1.0 and true for the member whose value is 1."""
    (tmp_path / "serve.sh").write_text(f"""vllm serve Qwen/Qwen3-8B --compilation-config '{{"cudagraph_mode":{mode}}}'\n""")
    (verdict,) = kvplan.check(tmp_path / "serve.sh", device="h100")
    assert verdict.found is not None
    assert verdict.found.question["engine_option"]["cudagraph_mode"] == name
