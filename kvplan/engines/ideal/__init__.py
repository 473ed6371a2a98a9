"""No engine: exactly the tensors."""
