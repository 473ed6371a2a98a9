@echo off
set MODEL=C:\models\Qwen3-8B-Q4_K_M.gguf
llama-server.exe -m %MODEL% -c 32768 -ngl 99 ^
  --flash-attn on --port 8080
