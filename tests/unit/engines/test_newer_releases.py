"""Releases after all that were read: 0.33 is the newest whose rules were; what another does otherwise nobody here knows."""

from __future__ import annotations

import pytest

import kvplan


@pytest.mark.parametrize(("version", "certainty"), [("0.33.0", "certain"), ("0.33.9", "certain"), ("0.34.0", "likely"), ("9.9", "likely")])
def test_no_start_of_one_is_certain(version: str, certainty: str) -> None:
    assert kvplan.estimate("meta-llama/llama-3.1-8b", device="h100", context="4k", engine_version=version).certainty == certainty
