{ pkgs, lib, host, ... }:
let
  files = {
    "qwen3-8b" = pkgs.fetchurl {
      url = "https://huggingface.co/unsloth/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf";
      hash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    };
  };
in
{
  services.llama-cpp = {
    enable = true;
    modelsPreset."chat" = { model = files."qwen3-8b"; ctx-size = "32768"; cache-type-k = "q8_0"; cache-type-v = "q8_0"; };
  };
  systemd.services.small.serviceConfig = host.hardened // {
    ExecStart = "${lib.getExe' pkgs.llama-cpp "llama-server"} -m ${files."qwen3-8b"} --ctx-size 4096";
  };
}
