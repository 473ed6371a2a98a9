"""The help of commands that take a question: its names in groups, an example with each."""

from __future__ import annotations

import click

from kvplan.deployment import NAMES

#: What a group is called, an example of it, its names.
GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("What is asked", "--context 32k --batch 16", ("context", "batch", "encoder_tokens", "multimodal")),
    ("Hardware", "--device 8xH100 --tp 8",
     ("device", "n_devices", "tp", "pp", "dp", "ep", "dcp", "reserve", "host_memory", "n_gpu_layers")),
    ("Formats", "--weight-dtype fp8 --kv-dtype fp8", ("weight_dtype", "kv_dtype", "dtype")),
    ("Engine", "--engine vllm --engine-version 0.33 --max-num-seqs 64",
     ("engine", "engine_version", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "memory_fraction", "kv_memory",
      "enforce_eager", "speculative", "lora", "engine_option", "calibration")),
)  # fmt: skip


class TooMany(click.UsageError):
    """Words of a command line that no argument takes."""

    def __init__(self, words: list[str], ctx: click.Context) -> None:
        super().__init__(f"unexpected: {' '.join(words)}", ctx)
        self.words, self.model = words, ctx.params.get("model")


class Grouped(click.Command):
    """A command whose options are the names of a question and its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise TooMany(list(ctx.args), ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        arguments = {param.name for param in self.get_params(ctx) if isinstance(param, click.Argument)}
        own = [record for name, record in records.items() if name not in NAMES and name not in arguments and record is not None]
        if own:
            with formatter.section("Options of this command"):
                formatter.write_dl(own)
        for title, example, names in GROUPS:
            found = [record for name in names if (record := records.get(name)) is not None]
            if found:
                with formatter.section(f"{title}, such as {example}"):
                    formatter.write_dl(found)
