"""Hugging Face `config.json` families: how each architecture's keys become layers, caches and weights."""
