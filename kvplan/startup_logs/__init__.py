"""What an engine printed when it started: the question it was asked, the figures it logged, a plan beside them, constants from them."""

from kvplan.engines.common.logs import Figure
from kvplan.startup_logs.calibrate import Calibration, Residual, Row, Start, check_model, fit_own, log_files
from kvplan.startup_logs.read import LoggedStart, read_log, read_starts
from kvplan.startup_logs.reconcile import Line, Reconciliation, compare, question_of
from kvplan.startup_logs.record import keep, keep_all, record_of

__all__ = [
    "Calibration",
    "Figure",
    "Line",
    "LoggedStart",
    "Reconciliation",
    "Residual",
    "Row",
    "Start",
    "check_model",
    "compare",
    "fit_own",
    "keep",
    "keep_all",
    "log_files",
    "question_of",
    "read_log",
    "read_starts",
    "record_of",
]
