resource "helm_release" "chat" {
  name  = "chat"
  chart = "vllm-stack"
  values = [yamlencode({
    servingEngineSpec = {
      modelSpec = [{
        name       = "chat"
        repository = "vllm/vllm-openai"
        tag        = "v0.11.0"
        modelURL   = "Qwen/Qwen3-8B"
        requestGPU = 1
        vllmConfig = {
          enablePrefixCaching = false
          maxModelLen         = 8192
          extraArgs           = ["--gpu-memory-utilization=0.8"]
        }
      }]
    }
  })]
}
