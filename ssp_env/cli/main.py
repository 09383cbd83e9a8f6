"""The ``ssp`` command. Sub-commands are functions in a literal dict and import what they need when they run.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ssp_env.errors import SSPError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="ssp", description="Corpora, indexes and servers for search self-play.")
    groups = parser.add_subparsers(dest="command", required=True)
    for name, (help_text, add) in COMMANDS.items():
        add(groups.add_parser(name, help=help_text, description=help_text))
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = parsed.run
    try:
        run(parsed)
    except (SSPError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    build = actions.add_parser("build", help="build a corpus folder from dumps, passage files, pages or text")
    build.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="a file, or a folder of text files")
    build.add_argument("--out", required=True, type=Path, help="the corpus folder")
    build.add_argument("--format", help="format of all sources; default: told from their content")
    build.add_argument(
        "--workers", type=int, default=2, help="processes; 0: all work in this one (default: %(default)s)"
    )
    build.add_argument("--words", type=int, default=100, help="words a passage (default: %(default)s)")
    build.add_argument("--on-clash", choices=("refuse", "keep-first"), default="refuse", help="different pages, one id")
    build.add_argument("--rebuild", action="store_true", help="replace a corpus that was made from something else")
    build.set_defaults(run=_build_corpus)
    get = actions.add_parser("get", help="fetch a small real corpus")
    get.add_argument("name", choices=("vital",), help="vital: leads of 10,033 English Wikipedia articles")
    get.add_argument("--out", required=True, type=Path, help="the corpus folder")
    get.set_defaults(run=_get_corpus)


def _build_corpus(parsed: argparse.Namespace) -> None:
    from ssp_env.build.ingest import BuildOptions, build_corpus

    options = BuildOptions(
        format=parsed.format,
        n_workers=parsed.workers,
        n_words=parsed.words,
        on_clash=parsed.on_clash,
        rebuild=parsed.rebuild,
    )
    _print(build_corpus(parsed.sources, parsed.out, options=options, progress=sys.stderr))


def _get_corpus(parsed: argparse.Namespace) -> None:
    from ssp_env.build.ingest import get_vital

    _print(get_vital(parsed.out))


def _add_index(parser: argparse.ArgumentParser) -> None:
    from ssp_env.cli.index import add_arguments

    actions = parser.add_subparsers(dest="action", required=True)
    help_text = "plan and build the indexes of a corpus"
    build = actions.add_parser("build", help=help_text, description=help_text)
    add_arguments(build)
    build.set_defaults(run=_build_index)


def _build_index(parsed: argparse.Namespace) -> None:
    from ssp_env.cli.index import run

    _print(run(parsed))


def _add_serve(parser: argparse.ArgumentParser) -> None:
    from ssp_env.cli.serve import add_arguments

    add_arguments(parser)


def _print(report: dict[str, object]) -> None:
    print(json.dumps(report, indent=1, ensure_ascii=False))


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "corpus": ("build or fetch a corpus", _add_corpus),
    "index": ("build the indexes of a corpus", _add_index),
    "serve": ("serve passages and pages over HTTP", _add_serve),
}
