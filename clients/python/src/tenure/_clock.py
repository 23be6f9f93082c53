"""The one file that reads clocks."""

from __future__ import annotations

import os
import time
from typing import Optional

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime_ns() -> int:
    """Time since boot, suspended or not, where the system has such a clock."""
    return time.clock_gettime_ns(_CLOCK)


def timeline() -> Optional[str]:
    """Names the line of that clock, as the agent does: none where nothing does."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        return None
    try:
        # A kernel without time namespaces has one line.
        namespace = os.stat("/proc/self/ns/time").st_ino
    except OSError:
        namespace = 0
    return f"{boot}/{namespace}"
