"""Rows of elements as torch tensors: a storage format is the list of tensors that its definition names, scales beside the payload.

Written from the definitions of the formats, not from the table that predicts: the two agree or a test fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from kvplan.validate.quantise import PLAIN, decode, encode


class Part(NamedTuple):
    """One tensor of a format: `count` entries of `size` elements for each group of `group` elements of a row (0: once per row)."""

    name: str
    dtype: torch.dtype
    group: int
    size: int


_U8, _I8, _F16, _F32, _BF16 = torch.uint8, torch.int8, torch.float16, torch.float32, torch.bfloat16
_E4M3 = torch.float8_e4m3fn

#: Payload and scales. 4-bit payloads are two to a byte; GGML's 5-bit formats keep the fifth bits of 32 elements in 4 bytes.
PARTS: dict[str, tuple[Part, ...]] = {
    **{name: (Part("data", dtype, 1, 1),) for name, dtype in PLAIN.items()},
    "int8_per_token_head": (Part("data", _I8, 1, 1), Part("scale", _F32, 0, 1)),
    "fp8_per_token_head": (Part("data", _E4M3, 1, 1), Part("scale", _F32, 0, 1)),
    "int4_per_token_head": (Part("data", _U8, 2, 1), Part("scale", _F32, 0, 1)),
    "fp8_scale128": (Part("data", _E4M3, 128, 128), Part("scale", _F32, 128, 1)),
    "nvfp4": (Part("data", _U8, 16, 8), Part("scale", _E4M3, 16, 1)),
    "mxfp8": (Part("data", _E4M3, 32, 32), Part("scale", _U8, 32, 1)),
    "mxfp4": (Part("data", _U8, 32, 16), Part("scale", _U8, 32, 1)),
    "q8_0": (Part("scale", _F16, 32, 1), Part("data", _I8, 32, 32)),
    "q5_1": (Part("scale", _F16, 32, 1), Part("least", _F16, 32, 1), Part("high", _U8, 32, 4), Part("data", _U8, 32, 16)),
    "q5_0": (Part("scale", _F16, 32, 1), Part("high", _U8, 32, 4), Part("data", _U8, 32, 16)),
    "q4_1": (Part("scale", _F16, 32, 1), Part("least", _F16, 32, 1), Part("data", _U8, 32, 16)),
    "q4_0": (Part("scale", _F16, 32, 1), Part("data", _U8, 32, 16)),
    "iq4_nl": (Part("scale", _F16, 32, 1), Part("data", _U8, 32, 16)),
    "turboquant_k8": (Part("data", _E4M3, 1, 1),),
    "turboquant_k4": (Part("data", _U8, 2, 1), Part("norm", _F16, 0, 1)),
    "turboquant_k3": (Part("data", _U8, 8, 3), Part("norm", _F16, 0, 1)),
    "turboquant_v4": (Part("data", _U8, 2, 1), Part("scale", _F16, 0, 1), Part("zero", _F16, 0, 1)),
    "turboquant_v3": (Part("data", _U8, 8, 3), Part("scale", _F16, 0, 1), Part("zero", _F16, 0, 1)),
}

#: Rows defined for one width only: latent, scales, rotary part.
PACKED: dict[str, tuple[int, tuple[Part, ...]]] = {
    "fp8_ds_mla": (576, (Part("latent", _E4M3, 0, 512), Part("scale", _F32, 0, 4), Part("rope", _BF16, 0, 64))),
    "nvfp4_ds_mla": (576, (Part("latent", _U8, 0, 256), Part("scale", _E4M3, 0, 32), Part("rope", _E4M3, 0, 64))),
    "fp8_ds_v4": (512, (Part("latent", _E4M3, 0, 448), Part("rope", _BF16, 0, 64), Part("scale", _U8, 0, 8))),
}


def parts(element: str, width: int) -> list[tuple[str, torch.dtype, int]]:
    """The tensors of one row of `width` elements: name, element type, elements. Raises KeyError, ValueError for what no format has."""
    if element in PACKED:
        only, packed = PACKED[element]
        if width != only:
            raise ValueError(f"{element} holds rows of {only} elements, not {width}")
        return [(part.name, part.dtype, part.size) for part in packed]
    return [(part.name, part.dtype, -(-width // part.group) * part.size if part.group else part.size) for part in PARTS[element]]


class Rows:
    """Rows of one format with leading dimensions `lead` (sequence, head, slot; or block, head, slot): one tensor per part."""

    def __init__(self, element: str, lead: tuple[int, ...], width: int, device: str = "cpu") -> None:
        self.element, self.width, self.device = element, width, device
        self.tensors = {name: torch.empty((*lead, size), dtype=dtype, device=device) for name, dtype, size in parts(element, width)}

    def sizes(self) -> list[int]:
        """Bytes of each tensor's storage, as its allocator made it."""
        return [tensor.untyped_storage().nbytes() for tensor in self.tensors.values()]

    def touch(self) -> None:
        """Writes every byte, so that every page is real."""
        for tensor in self.tensors.values():
            tensor.view(torch.uint8).fill_(1)

    def touched(self) -> bool:
        """Whether what `touch` wrote can be read back, at both ends of every tensor."""
        flat = [tensor.view(torch.uint8).view(-1) for tensor in self.tensors.values()]
        return all(int(data[0]) == 1 and int(data[-1]) == 1 for data in flat if data.numel())

    def put(self, index: tuple[Any, ...], values: torch.Tensor) -> None:
        """Stores rows [..., width] at an index of the leading dimensions, quantised where the format is."""
        for name, data in encode(self.element, values).items():
            self.tensors[name][index] = data

    def get(self, index: tuple[Any, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """The rows at an index, as numbers again."""
        return decode(self.element, {name: tensor[index] for name, tensor in self.tensors.items()}, self.width).to(dtype)
