"""What benchmarks share: the real data, and result cards, figures together with what produces them again.

A card is one JSON file: the figures, the command, the commit, the seeds, the machine and the versions of what matters.
"""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ssp_env.storage import write_json

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "numpy",
    "gymnasium",
    "tantivy",
    "faiss-cpu",
    "faiss-gpu",
    "sentence-transformers",
    "torch",
    "transformers",
    "trl",
)


def write_card(
    path: Path,
    figures: Mapping[str, object],
    *,
    command: str,
    seeds: Sequence[int],
    settings: Mapping[str, object] | None = None,
) -> None:
    """Write a card, whole or not at all.

    Args:
        path: The JSON file; its folder is made as needed.
        figures: What was measured, as JSON values, units in the names.
        command: What a reader types to measure it again, from the root of the repository.
        seeds: Every seed used.
        settings: What was measured: data fingerprints, retrievers, k, models.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    card = {
        "figures": dict(figures),
        "settings": dict(settings or {}),
        "command": command,
        "seeds": list(seeds),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": _machine(),
        "versions": _versions(),
    }
    write_json(path, card)


def command_line() -> str:
    """Return the command that runs now as a reader types it: paths of this machine become relative to the root."""
    words = [os.path.relpath(word, ROOT) if Path(word).is_absolute() else word for word in sys.argv]
    return shlex.join(["python", *words])


def data_folder() -> Path:
    """Return the folder of real passages: $SSP_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SSP_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        raise SystemExit(f"expected a folder of real passages, got {folder}; set SSP_DATA to one")
    return folder


def commit() -> str:
    """Return the commit, marked when files that are tracked differ from it."""
    try:
        head = _git("rev-parse", "HEAD")
        return f"{head}, changed" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _machine() -> dict[str, object]:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_gib = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    system = f"{platform.system()} {platform.machine()}"
    return {"system": system, "cpu": _cpu_name(), "cpus": cpus, "memory_gib": memory_gib}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
