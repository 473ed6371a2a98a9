"""Options of vLLM's server that want another beside them (entrypoints cli_args.py validate_parsed_serve_args of 0.9.0 to 0.33)."""

from __future__ import annotations

from kvplan.engines.common.exclusions import Exclusion

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("enable_auto_tool_choice=True", "tool_call_parser=*", "--enable-auto-tool-choice requires --tool-call-parser"),
    Exclusion("enable_log_outputs=True", "enable_log_requests=True", "--enable-log-outputs requires --enable-log-requests", "0.11"),
    Exclusion(
        "enable_per_request_metrics=True",
        "disable_log_stats=",
        "--enable-per-request-metrics requires engine statistics logging",
        "0.25",
    ),
)
