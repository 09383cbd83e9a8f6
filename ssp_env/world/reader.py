"""A reader that is always right: it answers from the given passages alone, by reading their facts.

It is the strongest gate an experiment can have. Since more passages can only add facts, noise never changes the
answer of a question that has one answer in its world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ssp_env.types import Reading, ReadingCase
from ssp_env.world.facts import ShownFacts
from ssp_env.world.language import parse
from ssp_env.world.names import display
from ssp_env.world.oracle import answer_set

UNKNOWN = "unknown"


class OracleReader:
    """Answers what the passages prove, and ``unknown`` otherwise (a ``Reader``)."""

    def __init__(self, *, ambiguous: Literal["unknown", "first"] = "unknown") -> None:
        """Choose what happens when the passages prove several answers: none is given, or the first by name."""
        self._ambiguous = ambiguous

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        """Return one reading per case, in order."""
        return [Reading(self._answer(case)) for case in cases]

    def _answer(self, case: ReadingCase) -> str:
        question = parse(case.question)
        answers = () if question is None else answer_set(question, ShownFacts(case.passages))
        if not answers or (len(answers) > 1 and self._ambiguous == "unknown"):
            return UNKNOWN
        return display(answers[0])
