"""A reader that is always right, or wrong in a chosen share of cases: it reads the facts of the given passages alone.

Without errors it is the strongest gate an experiment can have. Since more passages can only add facts, distractors
never change the answer of a question that has one answer in its world. With errors it stands for a weaker reader whose
strength is known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import numpy as np

from ssp_env.types import Reading, ReadingCase
from ssp_env.world.facts import ShownFacts
from ssp_env.world.language import parse
from ssp_env.world.names import display
from ssp_env.world.oracle import answer_set

UNKNOWN = "unknown"


class OracleReader:
    """Answers what the passages prove, and ``unknown`` otherwise (a ``Reader``)."""

    def __init__(
        self, *, ambiguous: Literal["unknown", "first"] = "unknown", error: float = 0.0, seed: int = 0
    ) -> None:
        """Choose a reader.

        Args:
            ambiguous: What happens when the passages prove several answers: none is given, or the first by name.
            error: Share of cases in 0 .. 1 in which a random name out of the passages is given instead, whatever they
                prove. Question and passages, in any order, decide which cases these are.
            seed: Another seed, other cases.

        Raises:
            ValueError: If ``error`` is out of range.
        """
        if not 0.0 <= error <= 1.0:
            raise ValueError(f"expected an error rate in 0 .. 1, got {error!r}")
        self._ambiguous = ambiguous
        self._error = error
        self._seed = seed

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        """Return one reading per case, in order."""
        return [Reading(self._answer(case)) for case in cases]

    def _answer(self, case: ReadingCase) -> str:
        shown = ShownFacts(case.passages)
        if self._error:
            key = repr((self._seed, case.question, case.ask_for_all, sorted(p.id for p in case.passages)))
            rng = np.random.default_rng(list(blake2b(key.encode(errors="replace"), digest_size=16).digest()))
            if rng.random() < self._error:
                return _guess(shown, rng)
        question = parse(case.question)
        answers = () if question is None else answer_set(question, shown)
        if case.ask_for_all and answers:
            return "; ".join(map(display, answers))
        if not answers or (len(answers) > 1 and self._ambiguous == "unknown"):
            return UNKNOWN
        return display(answers[0])


def _guess(shown: ShownFacts, rng: np.random.Generator) -> str:
    facts = [fact for entity in shown.entities.values() for fact in entity.facts]
    names = sorted({*shown.entities, *(fact.object for fact in facts)})
    return display(names[int(rng.integers(len(names)))]) if names else UNKNOWN
