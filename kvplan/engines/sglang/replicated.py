"""What a rank holds whole, or of its attention group alone, where other weights are split over all of tp; classes by release.

replicated.tsv is from models/*.py of the wheels of 0.4.6 to 0.5.23, of a class and those that it is made of: `use_attn_tp_group` of its
output layer, `moe_dense_tp_size == 1` (enable_moe_dense_fully_dp, is_dense_ffn_fully_dp) at its dense layers, `tp_size=1` (later a
replicated group) of its shared experts where an exchange between the ranks (moe_a2a_backend) is used.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.sglang import exchange
from kvplan.engines.sglang.layout import SglangLayout
from kvplan.rows import rows
from kvplan.tensors import Role

_COLUMNS: tuple[Role, ...] = ("head", "mlp", "shared_experts")
#: Class -> role -> the first release.
_SINCE: dict[str, dict[Role, str]] = {
    named: {role: since for role, since in zip(_COLUMNS, releases, strict=True) if since}
    for named, *releases in rows("engines/sglang/replicated.tsv")
}


def role_tp(d: Deployment, version: str, shape: SglangLayout) -> dict[Role, int]:
    """Roles of weights that are split over fewer ranks than tp: over those of an attention group, or over none."""
    found: dict[Role, int] = dict.fromkeys(("attention", "state", "embedding"), shape.attn_tp)
    asked: dict[Role, int] = {"shared_experts": 1} if exchange.backend(d) != "none" else {}
    asked |= {role: shape.attn_tp if role == "head" else 1 for role in _options(d)}
    return found | {role: tp for role, tp in asked.items() if _follows(role, d, version)}


def not_followed(d: Deployment, version: str) -> list[str]:
    """Notes on options that this model's class does not follow."""
    named = d.model.architecture or "a model without a class"
    return [
        f"{option}: sglang {version} splits these weights of {named} over all of tp as without it"
        for role, option in _options(d).items()
        if not _follows(role, d, version)
    ]


def _options(d: Deployment) -> dict[Role, str]:
    options = Options(d)
    asked: dict[Role, str] = {"head": "--enable-dp-lm-head"} if options.flag("enable_dp_lm_head") else {}
    return asked | ({"mlp": "--moe-dense-tp-size 1"} if options.count("moe_dense_tp_size") == 1 else {})


def _follows(role: Role, d: Deployment, version: str) -> bool:
    first = _SINCE.get(d.model.architecture or "", {}).get(role)
    return first is not None and release(version) >= release(first)
