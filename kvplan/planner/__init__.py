"""From a question to a plan: evaluate it, and search over evaluations."""
