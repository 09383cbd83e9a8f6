"""How much memory a process has, as Linux tells it."""

from __future__ import annotations

import re
from pathlib import Path


def memory_mib(name: str, pid: int | str = "self") -> float:
    """Return a figure of ``/proc/PID/status``: ``VmRSS`` is resident now, ``VmHWM`` at the peak; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = re.search(rf"{name}:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0
