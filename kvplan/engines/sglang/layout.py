"""How SGLang's ranks are arranged."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.errors import UnsupportedError
from kvplan.parallel import split_layers


class SglangLayout(NamedTuple):
    """How the ranks are arranged. `attention_dp`: attention data parallel groups inside tp; `dp`: servers, where there are none.
    `attn_cp`: ranks that share a prompt's tokens, and have all heads of them."""

    tp: int
    pp: int
    dp: int
    ep: int
    dcp: int
    attention_dp: int
    attn_cp: int = 1

    @property
    def attn_tp(self) -> int:
        return self.tp // self.attention_dp // self.attn_cp

    @property
    def n_devices(self) -> int:
        return self.tp * self.pp * (1 if self.attention_dp > 1 else self.dp)


def read_shape(d: Deployment, options: Options, *, forced: bool, latent: bool) -> SglangLayout:
    """Parallel sizes. `forced`: attention data parallelism over all of tp, as asked or not; `latent`: rows have no heads. Where dp, ep,
    dcp or attn_cp_size does not divide, or dcp is wider than an attention group with heads, those without it: a check refuses them.
    Raises UnsupportedError for dcp that does not divide an attention group."""
    tp, pp, dp, ep, dcp = (n or 1 for n in (d.tp, d.pp, d.dp, d.ep, d.dcp))
    dp = tp if forced else dp
    attention_dp = dp if forced or options.flag("enable_dp_attention") else 1
    if tp % attention_dp:
        dp = attention_dp = 1
    asked = options.count("attn_cp_size") or 1
    cp = asked if (tp // attention_dp) % asked == 0 else 1
    ep, dcp = (1 if tp % ep else ep), (1 if tp % dcp else dcp)
    group = tp // attention_dp // cp
    if group < dcp:  # its ranks are of several attention groups; heads are then split over none (get_num_kv_heads)
        dcp = dcp if latent else 1
    elif group % dcp:
        raise UnsupportedError(f"dcp: {dcp} ranks that share a sequence, of attention groups of {group}, are not modelled")
    return SglangLayout(tp, pp, dp, ep, dcp, attention_dp, cp)


def cut(layers: int, stages: int, *, piled: bool) -> list[range]:
    """Layers of each pipeline stage. `piled`: the last takes all that are left over, not one more for each of the last (get_pp_indices)."""
    if not piled:
        return split_layers(layers, stages, "last")
    ends = [n * (layers // stages) for n in range(stages)] + [layers]
    return [range(first, last) for first, last in pairwise(ends)]
