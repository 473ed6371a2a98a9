resource "kubernetes_deployment" "llm" {
  metadata { name = "llm" }
  spec {
    template {
      spec {
        node_selector = {
          "nvidia.com/gpu.product" = "NVIDIA-L40S"
        }
        container {
          name  = "vllm"
          image = "vllm/vllm-openai:v0.9.0"
          args = [
            "--model=mistralai/Mistral-Nemo-Instruct-2407",
            "--tensor-parallel-size=2",
            "--max-model-len=32768",
          ]
          resources {
            limits = {
              "nvidia.com/gpu" = "2"
            }
          }
        }
      }
    }
  }
}
