"""Readers: who answers the validator's question from given passages alone.

A new reader is one file here, one line in ``READERS`` and one in its contract test.
"""

from __future__ import annotations

from collections.abc import Callable

from ssp_env.protocols import AgentOf, Reader
from ssp_env.readers.agent import AgentReader, make_agent, make_judge, make_policy, read_with, reading
from ssp_env.readers.oracle import make_oracle

ReaderFactory = Callable[..., Callable[[AgentOf], Reader | None]]

READERS: dict[str, ReaderFactory] = {
    "agent": make_agent,
    "judge": make_judge,
    "oracle": make_oracle,
    "policy": make_policy,
}
"""Name to factory. A factory takes the completed configuration of the game, and the settings as keywords; it refuses
wrong ones with ``ConfigError``, ``TypeError`` or ``ValueError`` before anything is loaded, and returns what makes the
reader, or None where the policy itself reads."""

__all__ = ["READERS", "AgentReader", "ReaderFactory", "read_with", "reading"]
