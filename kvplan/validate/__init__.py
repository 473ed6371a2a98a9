"""Proof on real memory: allocate the caches a plan names, write to them, measure, and compare line by line.

Two sides that never meet in code. `predict` reads a plan; everything that touches memory (`storage`, `blocks`, `caches`, `attention`,
`layers`, `measure`, `speed`, `models`, `worker`) works from shapes and element types alone, in a process of its own, and counts bytes
as the allocator does. `run` puts both beside each other and `receipts` keeps the outcome. torch is only ever imported here.
"""
