"""Values into stored parts and back, for the formats that the reference attention reads: enough to show what is stored is enough."""

from __future__ import annotations

from collections.abc import Callable

import torch

#: Elements that are stored as they are.
PLAIN: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2, "int8": torch.int8,
}  # fmt: skip
Parts = dict[str, torch.Tensor]
_E4M3_MAX, _E2M1_MAX = 448.0, 6.0
_E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def encode(element: str, values: torch.Tensor) -> Parts:
    """The parts of rows [..., width]. Raises KeyError for a format that only has a shape here."""
    if element in PLAIN:
        dtype = PLAIN[element]
        return {"data": values.round().clamp(-127, 127).to(dtype) if dtype is torch.int8 else values.to(dtype)}
    return _ENCODE[element](values.to(torch.float32))


def decode(element: str, parts: Parts, width: int) -> torch.Tensor:
    """The rows that the parts hold, [..., width] in float32 or wider."""
    if element in PLAIN:
        data = parts["data"]
        return data if data.dtype in (torch.float64, torch.float32) else data.to(torch.float32)
    decoded: torch.Tensor = _DECODE[element](parts)
    return decoded[..., :width]


def _pack(nibbles: torch.Tensor) -> torch.Tensor:
    """Two 4-bit codes to a byte, the even one low; an odd row is padded."""
    if nibbles.shape[-1] % 2:
        nibbles = torch.nn.functional.pad(nibbles, (0, 1))
    codes = nibbles.to(torch.uint8)
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def _unpack(data: torch.Tensor) -> torch.Tensor:
    return torch.stack((data & 15, data >> 4), dim=-1).flatten(-2)


def _groups(x: torch.Tensor, group: int) -> torch.Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // group, group)


def _scale(x: torch.Tensor, most: float) -> torch.Tensor:
    """One scale per last dimension such that its largest value becomes `most`."""
    return (x.abs().amax(-1) / most).clamp_min(1e-8)


def _int8_row(x: torch.Tensor) -> Parts:
    scale = _scale(x, 127)
    return {"data": (x / scale[..., None]).round().clamp(-127, 127).to(torch.int8), "scale": scale[..., None]}


def _fp8_row(x: torch.Tensor) -> Parts:
    scale = _scale(x, _E4M3_MAX)
    return {"data": (x / scale[..., None]).to(torch.float8_e4m3fn), "scale": scale[..., None]}


def _int4_row(x: torch.Tensor) -> Parts:
    scale = _scale(x, 7)
    return {"data": _pack((x / scale[..., None]).round().clamp(-7, 7) + 8), "scale": scale[..., None]}


def _fp8_128(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 128)
    scale = _scale(blocks, _E4M3_MAX)
    return {"data": (blocks / scale[..., None]).to(torch.float8_e4m3fn).flatten(-2), "scale": scale}


def _e2m1_codes(x: torch.Tensor) -> torch.Tensor:
    """The nearest 4-bit float: sign, then the place in the list of magnitudes."""
    nearest = (x.abs()[..., None] - _E2M1.to(x.device)).abs().argmin(-1)
    return nearest + 8 * (x < 0)


def _e2m1_values(codes: torch.Tensor) -> torch.Tensor:
    codes = codes.long()
    return _E2M1.to(codes.device)[codes & 7] * (1 - 2 * (codes >> 3))


def _nvfp4(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 16)
    scale = _scale(blocks, _E2M1_MAX).clamp_min(2.0**-9).to(torch.float8_e4m3fn)
    return {"data": _pack(_e2m1_codes(blocks / scale.float()[..., None]).flatten(-2)), "scale": scale}


def _exponent(x: torch.Tensor, most: float) -> torch.Tensor:
    """A power-of-two scale as its biased exponent."""
    return (_scale(x, most).log2().ceil() + 127).clamp(0, 254).to(torch.uint8)


def _power(exponent: torch.Tensor) -> torch.Tensor:
    return torch.exp2(exponent.float() - 127)


def _mxfp8(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 32)
    scale = _exponent(blocks, _E4M3_MAX)
    return {"data": (blocks / _power(scale)[..., None]).to(torch.float8_e4m3fn).flatten(-2), "scale": scale}


def _mxfp4(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 32)
    scale = _exponent(blocks, _E2M1_MAX)
    return {"data": _pack(_e2m1_codes(blocks / _power(scale)[..., None]).flatten(-2)), "scale": scale}


def _q8_0(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 32)
    scale = _scale(blocks, 127).to(torch.float16)
    return {"data": (blocks / scale.float()[..., None]).round().clamp(-127, 127).to(torch.int8).flatten(-2), "scale": scale}


def _q4_0(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 32)
    scale = _scale(blocks, 7).to(torch.float16)
    return {"data": _pack(((blocks / scale.float()[..., None]).round().clamp(-8, 7) + 8).flatten(-2)), "scale": scale}


def _q4_1(x: torch.Tensor) -> Parts:
    blocks = _groups(x, 32)
    least = blocks.amin(-1).to(torch.float16)
    scale = ((blocks.amax(-1) - least.float()) / 15).clamp_min(1e-6).to(torch.float16)
    codes = ((blocks - least.float()[..., None]) / scale.float()[..., None]).round().clamp(0, 15)
    return {"data": _pack(codes.flatten(-2)), "scale": scale, "least": least}


_ENCODE: dict[str, Callable[[torch.Tensor], Parts]] = {
    "int8_per_token_head": _int8_row, "fp8_per_token_head": _fp8_row, "int4_per_token_head": _int4_row, "fp8_scale128": _fp8_128,
    "nvfp4": _nvfp4, "mxfp8": _mxfp8, "mxfp4": _mxfp4, "q8_0": _q8_0, "q4_0": _q4_0, "q4_1": _q4_1,
}  # fmt: skip


def _grouped(values: torch.Tensor, group: int, scale: torch.Tensor) -> torch.Tensor:
    return (_groups(values.float(), group) * scale.float()[..., None]).flatten(-2)


_DECODE: dict[str, Callable[[Parts], torch.Tensor]] = {
    "int8_per_token_head": lambda p: p["data"].float() * p["scale"],
    "fp8_per_token_head": lambda p: p["data"].float() * p["scale"],
    "int4_per_token_head": lambda p: (_unpack(p["data"]).float() - 8) * p["scale"],
    "fp8_scale128": lambda p: _grouped(p["data"], 128, p["scale"]),
    "nvfp4": lambda p: _grouped(_e2m1_values(_unpack(p["data"])), 16, p["scale"]),
    "mxfp8": lambda p: _grouped(p["data"], 32, _power(p["scale"])),
    "mxfp4": lambda p: _grouped(_e2m1_values(_unpack(p["data"])), 32, _power(p["scale"])),
    "q8_0": lambda p: _grouped(p["data"], 32, p["scale"]),
    "q4_0": lambda p: _grouped(_unpack(p["data"]).float() - 8, 32, p["scale"]),
    "q4_1": lambda p: _grouped(_unpack(p["data"]), 32, p["scale"]) + p["least"].float().repeat_interleave(32, dim=-1),
}
FORMATS_WITH_VALUES = (*PLAIN, *_ENCODE)
