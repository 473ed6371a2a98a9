"""What releases of transformers do differently, as data."""

from __future__ import annotations

import re
from typing import NamedTuple


class Release(NamedTuple):
    """The rules from `version` on.

    latent       the cache holds the compressed latent; before, every head's expanded K and V
    f32_states   Mamba states are kept in f32; before, in the compute type
    fp8          a QuantizedCache may be in fp8
    page         tokens per page of continuous batching, where it exists
    stops        architectures whose class fails in its first forward, so that they run as their text class only
    f32_gates    DeepSeek-V4 keeps gates of an overlap in f32, as their biases are, however it is made; before, where it is loaded
    split_peak   its memory handler counts a rank's heads in activations; before, all heads, however many ranks
    """

    version: tuple[int, int]
    latent: bool = True
    f32_states: bool = True
    fp8: bool = True
    page: int = 256
    stops: tuple[str, ...] = ()
    split_peak: bool = True
    f32_gates: bool = True


#: Read in the wheels 4.57.6, 5.0.0, 5.2 to 5.6, 5.8, 5.10, 5.12, 5.14, 5.23.0, 5.24.0 (cache_utils.py, modeling files).
RELEASES: tuple[Release, ...] = (
    Release((4, 57), latent=False, f32_states=False, fp8=False, page=32, split_peak=False, f32_gates=False),
    Release((5, 0), latent=False, f32_states=False, fp8=False, page=32, split_peak=False, f32_gates=False),
    Release((5, 4), latent=False, f32_states=False, fp8=False, split_peak=False, f32_gates=False),
    Release((5, 5), latent=False, fp8=False, split_peak=False, f32_gates=False),
    Release((5, 15), fp8=False, split_peak=False, f32_gates=False),
    Release((5, 21), split_peak=False, f32_gates=False),
    Release((5, 23), split_peak=False, f32_gates=False),
    Release((5, 24), stops=("Llama4ForConditionalGeneration",)),
)
NEWEST = "5.24.0"
VERSIONS = tuple(f"{major}.{minor}.0" for major, minor in sorted({r.version for r in RELEASES} | {(5, n) for n in range(25)}))


def find(version: str | None) -> tuple[Release, tuple[str, ...]]:
    """The rules of a release, and a note where it lies outside 4.57 to 5.24."""
    if version is None:
        return RELEASES[-1], ()
    match = re.match(r"v?(\d{1,3})(?:\.(\d{1,3}))?", version.strip())
    if match is None:
        return RELEASES[-1], (f"transformers {version} names no release; the rules of {NEWEST} are used",)
    asked = (int(match[1]), int(match[2] or 0))
    release = max((r for r in RELEASES if r.version <= asked), default=RELEASES[0])
    known = RELEASES[0].version <= asked <= RELEASES[-1].version and (asked[0] != 4 or asked == RELEASES[0].version)
    if known:
        return release, ()
    nearest = ".".join(str(part) for part in release.version)
    return release, (f"transformers {version} is not known; the rules of {nearest} are used",)
