"""MLX-LM on Apple machines."""
