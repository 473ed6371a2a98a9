"""Modes of files that hold for whoever runs the tests: root, who may read and write everything, puts that down."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION, _OVERRIDE = 0x20080522, 0b110  # linux/capability.h: _LINUX_CAPABILITY_VERSION_3; CAP_DAC_OVERRIDE = 1, CAP_DAC_READ_SEARCH = 2


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Data(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@contextmanager
def modes_hold() -> Iterator[None]:
    """Inside, what a file's mode forbids is forbidden to this thread, root's too."""
    if os.geteuid() or not sys.platform.startswith("linux"):
        yield
        return
    libc, header, data = ctypes.CDLL(None, use_errno=True), _Header(_VERSION, 0), (_Data * 2)()
    assert libc.capget(ctypes.byref(header), data) == 0
    before = data[0].effective
    data[0].effective = before & ~_OVERRIDE
    assert libc.capset(ctypes.byref(header), data) == 0
    try:
        yield
    finally:
        data[0].effective = before
        assert libc.capset(ctypes.byref(header), data) == 0
