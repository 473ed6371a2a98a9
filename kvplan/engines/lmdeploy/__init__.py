"""LMDeploy: TurboMind (C++) and the PyTorch engine, each with one pool of blocks for all layers.

settle: the question with the engine's defaults, and which backend runs it; blocks: bytes of one block and of one state; pools: bytes to
blocks under each pool; budget: device to bytes; plan, answer: a pool to an outcome. Sources are named in each file.
"""
