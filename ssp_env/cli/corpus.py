"""``ssp corpus build`` and ``ssp corpus get``: a corpus folder from what people have, or a small real one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from ssp_env.build.ingest import BuildOptions, build_corpus, get_vital
from ssp_env.cli.arguments import Paths


@dataclass(frozen=True)
class BuildCorpus:
    """Build a corpus folder from dumps, passage files, pages or text."""

    sources: Positional[Paths]
    """Files, or a folder of text files."""
    out: Path
    """The corpus folder."""
    format: str | None = None
    """Format of all sources; by default it is told from their content."""
    workers: int = 2
    """Processes; 0: all work in this one."""
    words: int = 100
    """Words a passage."""
    on_clash: Literal["refuse", "keep-first"] = "refuse"
    """What to do when different pages have one id."""
    rebuild: bool = False
    """Replace a corpus that was made from something else."""

    def run(self) -> dict[str, object]:
        """Build it; see ``build_corpus``."""
        options = BuildOptions(
            format=self.format,
            n_workers=self.workers,
            n_words=self.words,
            on_clash=self.on_clash,
            rebuild=self.rebuild,
        )
        return build_corpus(self.sources, self.out, options=options, progress=sys.stderr)


@dataclass(frozen=True)
class GetCorpus:
    """Fetch a small real corpus."""

    name: Positional[Literal["vital"]]
    """Vital: leads of 10,033 English Wikipedia articles."""
    out: Path
    """The corpus folder."""

    def run(self) -> dict[str, object]:
        """Fetch it; see ``get_vital``."""
        return get_vital(self.out)
