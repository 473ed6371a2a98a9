"""TensorRT-LLM (PyTorch backend; the C++ runtime's releases by their block arithmetic): a dry run, then one pool or pools per window.

settings: the question with the engine's defaults; cells: bytes per token; pools: bytes to blocks under the V1 and the V2 cache manager;
budget: device to bytes; plan, answer: pools to an outcome. Sources are named in each file.
"""
