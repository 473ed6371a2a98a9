"""SGLang 0.4.3 to 0.5.23: static pools, sized from what is free after the weights, without a profiling forward.

settings: the question with SGLang's defaults; memory: defaults by GPU memory; cells: bytes per token; pools, deepseek_v4: bytes to
tokens; budget: device to bytes; plan, answer: pools to an outcome. Sources are named in each file, with the release they were read in.
"""
