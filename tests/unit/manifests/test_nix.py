"""Nix: modules of NixOS and home-manager. Shapes: Jclong98/my-nixos-config, derui/my-nixos, wi2trier/gpu-server, rajeeshckr/nix-config,
ALH477/Oligarchy, Quil180/nixos-config."""

from __future__ import annotations

from functools import partial

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import read
from tests.unit.manifests import as_read
from tests.unit.manifests.as_read import opened

found = partial(as_read.found, name="module.nix")


def test_llama_swap_with_names_of_the_file() -> None:
    first, second = found(
        r"""
        { config, pkgs, lib, ... }:
        let
          llama-cpp = pkgs.llama-cpp.override { vulkanSupport = true; };
          llama-server = lib.getExe' llama-cpp "llama-server";  # the program
          models = "/var/lib/models";
        in
        {
          services.llama-swap = {
            enable = true;
            settings.models = {
              "qwen" = {
                cmd = "${llama-server} --port \${PORT} -m ${models}/Qwen3-8B-Q4_K_M.gguf -c 16384";
                ttl = 3600;
              };
              "moe:30b".cmd = "${llama-server} -hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M --port \${PORT} \\
                 -ngl 99 --n-cpu-moe 6";
            };
          };
        }
        """
    )
    assert (first.engine, first.model, first.question["max_model_len"]) == ("llama.cpp", "/var/lib/models/Qwen3-8B-Q4_K_M.gguf", 16384)
    assert first.place.line == 12
    assert (second.model, second.question["n_gpu_layers"]) == ("unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M", 99)
    assert second.question["engine_option"]["n_cpu_moe"] == 6


def test_the_service_of_llama_cpp() -> None:
    """nixpkgs nixos/modules/services/misc/llama-cpp.nix: model, extraFlags; settings, whose switches are options alone."""
    (flags,) = found(
        """
        { services.llama-cpp = { enable = true; model = "/models/a-Q8_0.gguf"; extraFlags = [ "-c" "8192" ] ++ [ "-ngl" "99" ]; }; }
        """
    )
    assert (flags.model, flags.question["max_model_len"], flags.question["n_gpu_layers"]) == ("/models/a-Q8_0.gguf", 8192, 99)
    (settings,) = found(
        """
        {
          services.llama-cpp.enable = true;
          services.llama-cpp.settings = rec {
            hf-repo = "unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_M";
            ctx-size = 64 * 1024 * parallel;
            parallel = 2;
            cache-type-k = "q8_0"; cache-type-v = "q8_0";
            no-mmproj = true;
            mlock = false;
          };
        }
        """
    )
    assert (settings.model, settings.question["max_model_len"]) == ("unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_M", 131072)
    assert (settings.question["max_num_seqs"], settings.question["kv_dtype"], settings.question["multimodal"]) == (2, "q8_0", "off")


def test_a_container_and_what_the_file_does_not_say() -> None:
    (one,) = found(
        """
        { config, lib, ... }:
        let cfg = { model = "Qwen/Qwen2.5-7B-Instruct"; port = 8000; }; in
        {
          virtualisation.oci-containers.containers.vllm = {
            image = "vllm/vllm-openai:v0.11.0";
            environment = { PYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"; };
            cmd = [ "--model" cfg.model "--max-model-len" "4096" "--max-num-seqs" (toString config.my.seqs) ];
            extraOptions = [ "--device=nvidia.com/gpu=all" "--ipc=host" ];
          };
        }
        """
    )
    assert (one.engine, one.engine_version, one.model) == ("vllm", "0.11.0", "Qwen/Qwen2.5-7B-Instruct")
    assert one.question["max_model_len"] == 4096
    assert "max_num_seqs" in opened(one)


def test_units_and_scripts_have_their_lines() -> None:
    unit, script = found(
        """
        { pkgs, ... }:
        let
          run = pkgs.writeShellScript "run" ''
            # ${pkgs.hello}/bin/hello
            exec ${pkgs.llama-cpp}/bin/llama-server -m a.gguf -c 4096 "''${ARGS[@]}"
          '';
        in {
          systemd.services.a = { serviceConfig.ExecStart = "${run}"; };
          systemd.services.b = {
            enable = true;
            environment.CUDA_VISIBLE_DEVICES = "0";
            script = ''
              vllm serve Qwen/Qwen3-8B --max-model-len 8192
            '';
          };
          systemd.services.c = { enable = false; script = "vllm serve m/y"; };
        }
        """
    )
    assert (unit.model, unit.place.line) == ("a.gguf", 5)
    assert "options" in opened(unit)
    assert (script.model, script.place.line, script.question["n_devices"]) == ("Qwen/Qwen3-8B", 13, 1)


def test_a_forks_package_and_launchds_words() -> None:
    fork, agent = found(
        """
        { pkgs, ... }:
        let ik-llama-cpp = pkgs.callPackage ./ik-llama-cpp.nix { }; in
        {
          systemd.services.a.script = ''
            exec ${ik-llama-cpp}/bin/llama-server --model /m/a-IQ4_KS.gguf -c 4096 -ngl 99
          '';
          launchd.user.agents.b.serviceConfig.ProgramArguments = [ "/opt/bin/llama-server" "-hf" "org/Model-GGUF:Q4_K_M" "-c" "16384" ];
        }
        """
    )
    assert (fork.model, fork.question["max_model_len"]) == ("/m/a-IQ4_KS.gguf", 4096)
    assert "command" in opened(fork)
    assert (agent.model, agent.question["max_model_len"]) == ("org/Model-GGUF:Q4_K_M", 16384)


def test_ollamas_service() -> None:
    (one,) = found(
        """
        { services.ollama = { enable = true; loadModels = [ "qwen3:8b" ]; environmentVariables = { OLLAMA_NUM_PARALLEL = "2"; }; }; }
        """
    )
    assert (one.engine, one.model, one.question["max_num_seqs"]) == ("ollama", "qwen3:8b", 2)


@pytest.mark.parametrize("text", ["{ a = ", "{ a = 1; ", "{ a = ''x", '{ a = "${', "{ a b = 1; }", "[" * 200])
def test_what_is_no_nix_is_one_error(text: str) -> None:
    with pytest.raises(SpecError, match=r"^a\.nix: line 1: "):
        read(text, "a.nix")


def test_names_that_stand_for_each_other_are_bounded() -> None:
    text = "let " + "".join(f'a{n} = "${{a{n + 1}}}${{a{n + 1}}}"; ' for n in range(40)) + 'a40 = "y"; in { script = a0; }'
    with pytest.raises(SpecError, match="grows beyond"):
        read(text, "a.nix")
    assert read("rec { a = b; b = a; script = a; }", "a.nix") == []
