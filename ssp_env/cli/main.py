"""The ``ssp`` command: finds the sub-command that is named, has tyro read its options, and runs it.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Protocol

from ssp_env.errors import SSPError

COMMANDS = {
    "corpus build": (
        "ssp_env.cli.corpus:BuildCorpus",
        "build a corpus folder from dumps, passage files, pages or text",
    ),
    "corpus get": ("ssp_env.cli.corpus:GetCorpus", "fetch a small real corpus"),
    "index build": ("ssp_env.cli.index:BuildIndex", "plan and build the indexes of a corpus"),
    "serve": ("ssp_env.cli.serve:Serve", "serve passages and pages over HTTP"),
}
"""Where the class of each sub-command is, and a line about it."""


class Command(Protocol):
    """A sub-command with its options."""

    def run(self) -> Mapping[str, object] | None:
        """Do it, and return the report that is printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SSPError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(words: list[str]) -> int:
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None:
        return _about(words)
    module, _, attribute = COMMANDS[name][0].partition(":")
    kind: type[Command] = getattr(import_module(module), attribute)
    import tyro

    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    command = tyro.cli(kind, prog=f"ssp {name}", args=words[len(name.split()) :], config=config)
    if (report := command.run()) is not None:
        print(json.dumps(report, indent=1, ensure_ascii=False))
    return 0


def _about(words: list[str]) -> int:
    """Answer ``--version``, ``--help`` and what names no sub-command; an unfinished name lists those that begin so."""
    if words == ["--version"]:
        print(f"ssp {version('ssp-env')}")
        return 0
    asks = words[-1:] in (["-h"], ["--help"])
    begin = words[: len(words) - asks]
    found = [name for name in COMMANDS if name.split()[: len(begin)] == begin]
    out = sys.stdout if asks and found else sys.stderr
    print("usage: ssp COMMAND [OPTIONS]; ssp COMMAND --help tells the options\n", file=out)
    print("\n".join(f"  {name:14}{COMMANDS[name][1]}" for name in found or COMMANDS), file=out)
    if not found:
        print(f"\nerror: expected one of these commands, got {' '.join(begin)!r}", file=out)
    return 0 if asks and found else 2
