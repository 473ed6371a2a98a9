"""What vLLM runs with, once all is said."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvplan.engines.common.protocol import Drafter, Settled
from kvplan.engines.vllm.deepseek_v41 import SharedRows
from kvplan.engines.vllm.rings import Pooled
from kvplan.engines.vllm.rules import MEASURED_FROM, VERSIONS, VllmRules, since
from kvplan.forms import Form
from kvplan.tensors import CacheFormats, Lowered, Role, distinct


class Captures(NamedTuple):
    """What is asked of CUDA graphs. `sizes`: batches in tokens; empty: the release's own, up to `most`. `mode` empty: the release's own."""

    sizes: tuple[int, ...] = ()
    most: int | None = None
    mode: str = ""


class VllmSettings(NamedTuple):
    """A settled question as vLLM sees it."""

    release: str
    rules: VllmRules
    platform: Literal["cuda", "cpu"]
    tp: int
    pp: int
    dp: int
    dcp: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    in_flight_tokens: int
    encoder_tokens: int
    auto_fit: bool
    block_size: int | None
    formats: CacheFormats
    skip_ends: bool
    skip_layers: frozenset[str]  # layers in the compute type whatever the cache's format, by number, and sliding_window: those with one
    aligned_format: str  # the cache's, as asked for, where some layers are left out of it; else empty
    hybrid: bool
    caching: bool  # prefixes are kept
    match_unit: int | None  # tokens between hashes of prefixes, as asked for
    retention: int  # tokens between what is kept of windows and states of them; 0: the last
    state_mode: Literal["none", "align", "all"]
    state_chunk: int
    sizes_drafts: bool  # the class counts the columns that drafts add to a convolution when the blocks are sized
    replayed: int  # inputs that ReplaySSM keeps beside the state of a Mamba-2 layer; 0: none
    state_block: int | None  # tokens between two kept states, as asked for
    method: str
    draft_tokens: int
    drafts_from_0: bool  # layers that draft are numbered from 0, not after the target's
    backend: str | None
    latent_backend: str
    blackwell: bool  # compute capability 10.x
    plain_latents: bool  # FP8 rows of sparse latents have no scales beside them
    packs_all: bool  # sparse latents are FP8 rows whatever is asked for, also of layers that a format leaves out
    rows_apart: bool  # blocks are a multiple of such a row apart
    exports_states: bool
    pooled: Pooled | None  # kernels of latent attention whose indexer keeps one key for several tokens
    records: SharedRows | None  # DeepSeek-V4.1's, whose rows a few layers make for all
    blocks_override: int | None
    swap_bytes: int
    served: Lowered  # the model, its drafter's layers in place of draft modules
    drafter: Drafter | None
    context_chosen: bool
    length_chosen: bool
    allow_long: bool
    graphs: bool  # CUDA graphs are captured
    estimated: bool  # the estimate of them is taken from the budget
    captures: Captures  # ... for which batches
    unquantised_load: bool  # the load holds the 16-bit checkpoint before it is quantised
    quantised_in_flight: bool  # bitsandbytes quantises 16-bit matrices one by one
    own_awq: bool  # AWQ's own kernels in V1: asked for, or AMD's cards, which have no Marlin kernels
    own_gptq: bool  # GPTQ's, likewise; AMD's up to 0.23
    expandable: bool  # torch's reserve grows and shrinks with what is allocated
    partition: str | None  # layers of each pipeline stage, as VLLM_PP_LAYER_PARTITION says
    packed: bool  # the checkpoint's matrices are packed integers
    chunked: bool  # prompts may take several steps
    second_runner: bool  # the V2 model runner
    exchange: str  # the all-to-all kernels of experts that take memory of their own; empty: none
    deepep_mib: int  # MiB of each of DeepEP's fixed buffers
    exchanged: int  # tokens of a rank that are exchanged at once up to 0.19
    redundant: int | None  # copies of experts; None: they are not dealt out anew
    load_window: int  # steps whose loads of experts are kept
    reserve_said: bool  # what others hold of the device
    seqs_by: Literal["you", "device", "nobody"]  # who says max_num_seqs: where nobody, its default hangs on a device that is not known

    def since(self, first: str) -> bool:
        """Whether the release is `first` or later."""
        return since(self.release, first)

    @property
    def role_tp(self) -> dict[Role, int]:
        """Roles that more ranks than tp split: experts over those of all replicas (FusedMoEParallelConfig.make, flatten_tp_across_dp)."""
        return {"experts": self.tp * self.dp}

    @property
    def forms(self) -> set[Form]:
        """Of the caches of all layers."""
        return {cache.form for layer in distinct(self.served.layers) for cache in layer.caches}

    @property
    def charges_graphs(self) -> bool:
        """Whether the budget of a card of NVIDIA's has the estimate of CUDA graphs."""
        return self.estimated and (not self.second_runner or self.rules.v2_graphs)

    @property
    def measured_as(self) -> str:
        """The release whose measured constants apply."""
        return max(self.release, MEASURED_FROM, key=VERSIONS.index)

    @property
    def graphs_as(self) -> str:
        """The same for CUDA graphs: V0's are whole steps in every release."""
        return self.measured_as if self.rules.v1 else MEASURED_FROM

    @property
    def device_name(self) -> str:
        """As the capacity lines name it: always GPU before 0.30."""
        if self.platform == "cpu" and self.since("0.30"):
            return "CPU"
        return "GPU"


def settings_of(settled: Settled) -> VllmSettings:
    """The settings that `settle` made."""
    found: VllmSettings = settled.settings
    return found
