#!/bin/sh
# An installer that writes a unit and starts it.
MODEL=/srv/models/Qwen3-8B-Q4_K_M.gguf
cat > /etc/systemd/system/chat.service <<EOF
[Unit]
Description=chat

[Service]
ExecStart=/usr/local/bin/llama-server \\
    --model $MODEL \\
    --ctx-size 16384 \\
    -np 2 -ngl 99

[Install]
WantedBy=multi-user.target
EOF
systemctl enable --now chat.service
