"""The judge: is a response one of the accepted answers?

Rules come first and a model is asked only about what they leave open. Cases are built with keywords, so response and
answers cannot change places unnoticed. A new judge is one file here, one line in ``JUDGES`` and one in its contract
test.
"""

from __future__ import annotations

from collections.abc import Callable

from ssp_env.game.judges.exact import ExactJudge, ExactMode, make_exact
from ssp_env.game.judges.model import ModelJudge, make_model, parse_verdict
from ssp_env.protocols import AgentOf, Judge

JudgeFactory = Callable[..., Callable[[AgentOf], Judge]]

JUDGES: dict[str, JudgeFactory] = {"exact": make_exact, "model": make_model}
"""Name to factory. A factory takes the settings as keywords, refuses wrong ones with ``ConfigError``, ``TypeError`` or
``ValueError`` before anything is loaded, and returns what makes the judge."""

__all__ = ["JUDGES", "ExactJudge", "ExactMode", "JudgeFactory", "ModelJudge", "parse_verdict"]
