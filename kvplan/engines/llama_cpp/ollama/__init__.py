"""Ollama: llama.cpp with other defaults."""
