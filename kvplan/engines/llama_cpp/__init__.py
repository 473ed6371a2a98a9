"""llama.cpp and, as data, Ollama."""
