resource "google_compute_instance" "llm" {
  machine_type = "g2-standard-12"
  metadata_startup_script = <<-EOT
    #!/bin/bash
    docker run -d --gpus all -p 8000:8000 vllm/vllm-openai:v0.9.2 \
      --model Qwen/Qwen2.5-7B-Instruct --max-model-len 8192
  EOT
}
