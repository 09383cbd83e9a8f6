"""The judge that compares after normalisation, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ssp_env.protocols import AgentOf
from ssp_env.schema import choice
from ssp_env.text import exact_match, normalize_paper, normalize_unicode
from ssp_env.types import JudgeCase, Verdict

ExactMode = Literal["both", "paper", "unicode"]

_NORMALIZERS = {
    "both": (("exact", normalize_paper), ("unicode", normalize_unicode)),
    "paper": (("exact", normalize_paper),),
    "unicode": (("unicode", normalize_unicode),),
}


class ExactJudge:
    """Compares after normalisation.

    The paper's form deletes all ASCII punctuation, and so takes "15" for "1.5", "5" for "-5" and "C#" for "C++"; mode
    ``unicode`` alone tells these apart.

    The verdict's method is ``exact`` when the paper's form decides, ``unicode`` when only the Unicode form does, and
    ``empty`` for a wrong response without a letter or digit.
    """

    def __init__(self, mode: ExactMode = "both") -> None:
        """Choose the normalisations: the paper's, the Unicode one, or either (``both``).

        Raises:
            ConfigError: If the mode is unknown.
        """
        self._normalizers = _NORMALIZERS[choice(mode, _NORMALIZERS, what="mode")]

    def judge(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        """Return one verdict per case; never ``error``."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: JudgeCase) -> Verdict:
        for method, normalize in self._normalizers:
            if exact_match(case.response, case.answers, normalize):
                return Verdict("correct", method)
        if not any(map(str.isalnum, case.response)):
            return Verdict("wrong", "empty")
        return Verdict("wrong", self._normalizers[0][0])


@dataclass(frozen=True, slots=True)
class ExactSettings:
    """Settings of judge ``exact``."""

    mode: ExactMode = "both"

    def build(self, agent_of: AgentOf) -> ExactJudge:
        """Return the judge; it asks no agent."""
        return ExactJudge(self.mode)
