"""The judge: is a response one of the accepted answers?

Rules come first and a model is asked only about what they leave open. Cases are built with keywords, so response and
answers cannot change places unnoticed. A new judge is one file here, one line in ``JUDGES`` and one in its contract
test.
"""

from __future__ import annotations

from typing import Protocol

from ssp_env.game.judges.exact import ExactJudge, ExactMode, ExactSettings
from ssp_env.game.judges.model import ModelJudge, ModelSettings, parse_verdict
from ssp_env.protocols import AgentOf, Judge


class JudgeSettings(Protocol):
    """A frozen dataclass whose fields are what a configuration may set; see ``schema.parse``."""

    def build(self, agent_of: AgentOf) -> Judge:
        """Return the judge."""
        ...


JUDGES: dict[str, type[JudgeSettings]] = {"exact": ExactSettings, "model": ModelSettings}
"""Name to settings."""

__all__ = ["JUDGES", "ExactJudge", "ExactMode", "JudgeSettings", "ModelJudge", "parse_verdict"]
