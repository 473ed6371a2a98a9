"""Conformance vectors: questions with what engines' own code made of them, for anyone who writes a planner, a simulator or a scheduler.

A vector is one JSON object a line: model (its config keys in a file of models beside it), engine, release, memory, settings, `expect`.
docs/vectors.md says what each field is; the files are in the repository's `vectors/`, in no wheel.
"""
