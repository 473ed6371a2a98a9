"""The commands about what lies beyond one GPU's memory."""

from __future__ import annotations

from typing import Any

import click

from kvplan import api
from kvplan.cli.grid import questions
from kvplan.cli.groups import Grouped
from kvplan.cli.options import FORMAT, MODEL, parted, put, question_options


@click.command(cls=Grouped)
@MODEL
@click.option("--prefix", metavar="TOKENS", help="Tokens of the prefix that comes back; by default the context.")
@click.option("--link", metavar="LINK", help="A GPU's link to RAM: pcie4, pcie5, nvlink-c2c, ... or GB/s; by default the device's.")
@click.option("--disk-link", metavar="LINK", help="The disk's, of all ranks together; by default nvme4.")
@click.option("--remote-link", metavar="LINK", help="Also from a remote store, over 100gb, 400gb, ... of all ranks together.")
@question_options
@FORMAT
def tiers(model: str, fmt: str, **options: Any) -> int:
    """What the CPU and disk tiers of MODEL's cache hold, and how long a prefix takes to come back beside computing it again.

    Tiers are asked for as the engine does: `kvplan tiers MODEL --engine vllm --device h100 --engine-option kv_offloading_size=64`;
    `kvplan engines vllm` lists the options. Exit code 1 where the engine would not start.
    """
    from kvplan.report import tiers as report

    asked, own = parted(options)
    found = [api.tiers(model, **own, **question) for question in questions(asked)]
    put(report.render(found, fmt))
    return max(int(one.plan.starts is False) for one in found)


@click.command(cls=Grouped)
@MODEL
@click.option("--prompt", metavar="TOKENS", help="Tokens of the prompt; by default the context.")
@click.option("--output", metavar="TOKENS", help="Tokens of the answer: also how many prefill workers feed one decode worker.")
@click.option("--decode-tp", metavar="COUNT", help="Tensor parallel size of the decode worker; by default as --tp.")
@click.option("--decode-device", metavar="DEVICE", help="Device of the decode worker; by default as --device.")
@click.option("--link", "links", multiple=True, metavar="LINK", help="A GPU's link: nvlink4, pcie5, 400gb, ... or GB/s; repeatable.")
@click.option("--gpus", metavar="COUNT", help="With --output: also how to split so many GPUs.")
@question_options
@FORMAT
def transfer(model: str, fmt: str, links: tuple[str, ...], **options: Any) -> int:
    """What one request of MODEL moves between workers that prefill and decode apart, and how long that takes over each link.

    The question is the prefill worker's (vLLM's NixlConnector, as llm-d and Dynamo run it, or SGLang's --disaggregation-mode):
    `kvplan transfer MODEL --engine vllm --device h100 --tp 4 --decode-tp 8 --context 8k --output 500`.
    """
    from kvplan.report import transfer as report

    asked, own = parted(options)
    put(report.render([api.transfer(model, links=links, **own, **question) for question in questions(asked)], fmt))
    return 0
