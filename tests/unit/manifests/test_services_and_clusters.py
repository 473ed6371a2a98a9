"""What services and clusters say around a command: expected is what the file's own words say; each shape was met in public files."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvplan
from tests.unit.manifests.as_read import found

BLUEPRINT = """
    {{"recipe_image_uri": "docker.io/vllm/vllm-openai:v0.9.1", "recipe_node_shape": "{shape}", {more},
      "recipe_container_command_args": ["--model", "meta-llama/Llama-3.2-3B-Instruct"]}}
    """


@pytest.mark.parametrize(
    ("shape", "more", "device", "count"),
    [
        ("BM.GPU.H100.8", '"recipe_nvidia_gpu_count": 1', "h100-80gb", 1),
        ("BM.GPU.H100.8", '"recipe_nvidia_gpu_count": 1, "mig_resource_request": "1g.20gb"', "h100-80gb-1g.20gb", 1),
        ("BM.GPU.MI300X.8", '"recipe_amd_gpu_count": 4', "mi300x", 4),
    ],
)
def test_a_blueprint_of_oracle_says_how_much_of_its_node_the_engine_gets(shape: str, more: str, device: str, count: int) -> None:
    (one,) = found(BLUEPRINT.format(shape=shape, more=more), "blueprint.json")
    assert (str(one.question["device"]).lower(), one.question["n_devices"]) == (device, count)


@pytest.mark.parametrize(
    "run", ["|-\n      vllm serve $NAME --max-model-len 32768", "\n    - command: vllm serve $NAME --max-model-len 32768"]
)
@pytest.mark.parametrize(("preset", "device"), [("gpu-l4-small-spot", "l4"), ("gpu-h100-80g-small", "h100-80gb"), ("gpu-large", None)])
def test_a_vessl_job_has_its_variables_and_the_gpu_of_its_preset(run: str, preset: str, device: str | None) -> None:
    text = f"""
    image: vllm/vllm-openai:v0.6.3
    resources: {{cluster: example, preset: {preset}}}
    run: {run}
    env: {{NAME: Qwen/Qwen3-8B}}
    """
    (one,) = found(text, "run.yaml")
    assert (one.model, one.engine_version, one.question["max_model_len"]) == ("Qwen/Qwen3-8B", "0.6.3", 32768)
    assert one.question.get("device") == device
    assert device or any(preset in u.why for u in one.unresolved)


JOB = """
    #!/bin/bash
    #SBATCH --nodes={nodes}
    #SBATCH --gpus-per-node=4
    #SBATCH --constraint=h100
    vllm serve Qwen/Qwen3-235B-A22B --tensor-parallel-size $((SLURM_NNODES * SLURM_GPUS_ON_NODE))
    """


@pytest.mark.parametrize(("nodes", "tp", "count"), [(1, 4, 4), (4, 16, 16)])
def test_slurm_tells_a_job_its_nodes_and_their_gpus(nodes: int, tp: int, count: int) -> None:
    (one,) = found(JOB.format(nodes=nodes), "job.sbatch.sh")
    assert (one.question["tp"], one.question.get("n_devices"), one.question["device"]) == (tp, count, "h100-80gb")


SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
LLAMA = "llama-server -hf bartowski/Qwen_Qwen3-8B-GGUF:Q8_0 -c 8192"


@pytest.mark.parametrize(
    ("asks", "command", "tp", "count"),
    [  # slurm.schedmd.com/sbatch.html: --gpus-per-node and --gres are of each node, --gpus of all of them together
        ("--nodes=2 --gres=gpu:h100:4", f"{SERVE} --tensor-parallel-size 16", 16, 8),
        ("-N2 --gpus-per-node=h100:4", f"{SERVE} --tensor-parallel-size 8", 8, 8),
        ("--nodes=2 --gpus=h100:8", f"{SERVE} --tensor-parallel-size $SLURM_GPUS_ON_NODE", 4, 8),
        ("--nodes=3 --gpus=h100:8", f"{SERVE} --tensor-parallel-size 8", 8, 8),
        ("--gpus=4 --constraint=h100", f"{SERVE} --tensor-parallel-size $SLURM_GPUS", 4, 4),
        ("--nodes=2 --gres=gpu:h100:4", LLAMA, None, 4),  # one process has the devices of its node
        ("--nodes=3 --gpus=h100:8", LLAMA, None, None),
    ],
)
def test_gpus_of_a_node_and_of_a_job(asks: str, command: str, tp: int | None, count: int | None) -> None:
    (one,) = found(f"#!/bin/bash\n#SBATCH {asks}\n{command}\n", "job.sbatch")
    assert (one.question.get("tp"), one.question.get("n_devices"), one.question["device"]) == (tp, count, "h100-80gb")


@pytest.mark.parametrize(
    ("asks", "command", "rules"),
    [
        ("--nodes=2 --gres=gpu:h100:4", f"{SERVE} --tensor-parallel-size 16", {"too-few-devices"}),
        ("--nodes=2 --gres=gpu:h100:4", f"srun {SERVE} --tensor-parallel-size 4", set()),  # one on each node
        ("--nodes=1 --gres=gpu:h100:4", f"{SERVE} --tensor-parallel-size 2", {"idle-devices"}),
        ("--nodes=1 --gres=gpu:h100:4", f"for i in 0 1; do CUDA_VISIBLE_DEVICES=$((2*i)),$((2*i+1)) {SERVE} -tp 2 & done", set()),
    ],
)
def test_what_a_job_leaves_idle_or_lacks(asks: str, command: str, rules: set[str], tmp_path: Path) -> None:
    job = tmp_path / "job.sbatch"
    job.write_text(f"#!/bin/bash\n#SBATCH {asks}\n{command}\n")
    (verdict,) = kvplan.check(str(job))
    assert {f.rule for f in verdict.findings} & {"too-few-devices", "idle-devices"} == rules


def test_a_constraint_of_two_kinds_of_gpu_leaves_the_kind_open() -> None:
    (one,) = found(JOB.format(nodes=1).replace("=h100", '="h100|a100-80gb"'), "job.sbatch.sh")
    assert "device" not in one.question


def test_the_file_of_a_later_node_is_of_the_same_engine() -> None:
    command = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 16 --nnodes 2 --node-rank {}\n"
    (one,) = found(command.format(1), "node1.sh")
    assert one.question["tp"] == 16
    assert any("later node" in f.message for f in one.findings)
    (one,) = found(command.format(0) + command.format(1), "both.sh")
    assert not any("later node" in f.message for f in one.findings)


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "$1"])
def test_a_command_in_a_variable_is_split_though_a_name_in_it_is_open(model: str) -> None:
    script = f"""
    cmd="docker run --gpus all --env "TOKEN=$TOKEN" \\
      vllm/vllm-openai:$tag --model {model} --max-model-len 4096 --tensor-parallel-size 2"
    echo $cmd
    $cmd
    """
    (one,) = found(script, "run.sh")
    assert (one.engine, one.question["max_model_len"], one.question["tp"]) == ("vllm", 4096, 2)
    assert one.model == (model if model != "$1" else None)


def test_the_marks_of_a_template_that_is_no_yaml_are_open_names() -> None:
    text = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: llm}
    spec:
      template:
        spec:
          nodeSelector:
            {{{KARPENTER_PREFIX}}}/instance-family: g6e
          containers:
            - name: llm
              image: {{IMAGE_PREFIX}}ollama/ollama:0.10.1
              resources: {limits: {nvidia.com/gpu: 1}}
    """
    (one,) = found(text, "deployment.template.yaml")
    assert (one.engine, one.engine_version, one.question["device"], one.question["n_devices"]) == ("ollama", "0.10.1", "l40s", 1)
    assert any("{{NAME}}" in f.message for f in one.findings)


ECS = """
    locals {{
      instance_type = "{machine}"
      image         = "vllm/vllm-openai:v0.10.2"
    }}
    {body}
    """
TASK = 'image = local.image, command = ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "4"]'


@pytest.mark.parametrize(
    "body",
    [
        'module "m" {\n container_definitions = {\n a = {\n %s\n resource_requirements = [{\n type = "GPU"\n value = 4\n }]\n}\n}\n}',
        'resource "aws_ecs_task_definition" "t" {\n container_definitions = jsonencode([{\n %s\n resourceRequirements = [{ type = "GPU",'
        ' value = "4" }]\n }])\n}',
    ],
)
def test_a_task_of_amazon_ecs_in_terraform(body: str) -> None:
    (one,) = found(ECS.format(machine="g5.12xlarge", body=body % TASK.replace(", command", "\n command")), "main.tf")
    assert (one.engine_version, one.model, one.question["tp"]) == ("0.10.2", "Qwen/Qwen3-8B", 4)
    assert (one.question["device"], one.question["n_devices"]) == ("a10g", 4)


def test_a_container_in_nix_has_its_arguments_and_a_branch_that_throws_is_none() -> None:
    text = """
    let
      path = name: "/models/${name}" + (if models ? ${name} then "" else throw "no ${name}");
    in {
      main = { command = [ "/app/llama-server" ]; args = [ "--model" (path "Qwen3-8B-Q4_K_M.gguf") "--parallel" "2" ]; };
    }
    """
    (one,) = found(text, "llm.nix")
    assert one.model == "/models/Qwen3-8B-Q4_K_M.gguf"
    assert one.question["max_num_seqs"] == 2


@pytest.mark.parametrize(
    ("first", "count"), [("ray start --address=10.0.0.1:6379", None), ("srun -N 1 ray start --head", None), ("date", 1)]
)
def test_a_ray_cluster_has_more_gpus_than_this_shell_sees(first: str, count: int | None) -> None:
    text = f"export CUDA_VISIBLE_DEVICES=0\n{first}\nvllm serve Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4 --pipeline-parallel-size 2\n"
    (one,) = found(text, "serve.sh")
    assert (one.question["pp"], one.question.get("n_devices")) == (2, count)


def test_the_directives_of_a_terraform_template_leave_all_of_their_branches() -> None:
    text = """
    %{ if on_gpu ~}
    nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
    %{ endif ~}
    image: {tag: 0.9.0}
    ollama:
      gpu: {enabled: true, number: 2}
      models:
        pull: [qwen3:8b]
    """
    (one,) = found(text, "values.yaml")
    assert (one.engine, one.engine_version, one.question["n_devices"]) == ("ollama", "0.9.0", 2)
    assert any("%{ if }" in f.message for f in one.findings)
