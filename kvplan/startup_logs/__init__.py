"""What an engine printed when it started: the question it was asked, the figures it logged, and a plan beside them."""

from kvplan.startup_logs.patterns import Figure
from kvplan.startup_logs.read import LoggedStart, read_log, read_starts
from kvplan.startup_logs.reconcile import Line, Reconciliation, compare, question_of
from kvplan.startup_logs.record import keep, record_of

__all__ = ["Figure", "Line", "LoggedStart", "Reconciliation", "compare", "keep", "question_of", "read_log", "read_starts", "record_of"]
