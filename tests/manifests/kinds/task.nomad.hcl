job "llm" {
  group "g" {
    task "vllm" {
      driver = "docker"
      config {
        image = "vllm/vllm-openai:v0.11.0"
        args = ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192"]
      }
      resources { device "nvidia/gpu" { count = 1 } }
    }
  }
}
