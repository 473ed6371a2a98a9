"""What an engine printed when it started: the question it was asked, and the figures it logged."""

from kvplan.startup_logs.patterns import Figure
from kvplan.startup_logs.read import LoggedStart, read_log, read_starts

__all__ = ["Figure", "LoggedStart", "read_log", "read_starts"]
