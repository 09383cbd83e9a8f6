"""Search self-play: environments in which one agent sets and solves search questions.

Importing this package registers ``SearchSolver-v0``, ``SearchProposer-v0`` and ``SearchSelfPlay-v0`` with Gymnasium.
The names below are loaded when they are first used, so that the import stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ssp_env.envs import register_envs

if TYPE_CHECKING:
    from ssp_env.corpus import MemoryCorpus, open_corpus
    from ssp_env.envs.recording import RecordEpisodes
    from ssp_env.errors import SSPError
    from ssp_env.game.game import Game
    from ssp_env.game.rollout import rollout
    from ssp_env.game.rules import PRESETS, GameRules
    from ssp_env.game.selfplay import run_rounds
    from ssp_env.protocols import Agent
    from ssp_env.registry import build_game, register_agent
    from ssp_env.retrieval import make_retriever
    from ssp_env.spaces import FreeText
    from ssp_env.types import Answer, Completion, Conversation, Passage, Sampling, Task

_HOMES = {
    "Agent": "protocols",
    "Answer": "types",
    "Completion": "types",
    "Conversation": "types",
    "FreeText": "spaces",
    "Game": "game.game",
    "GameRules": "game.rules",
    "MemoryCorpus": "corpus",
    "PRESETS": "game.rules",
    "Passage": "types",
    "RecordEpisodes": "envs.recording",
    "SSPError": "errors",
    "Sampling": "types",
    "Task": "types",
    "build_game": "registry",
    "make_retriever": "retrieval",
    "open_corpus": "corpus",
    "register_agent": "registry",
    "rollout": "game.rollout",
    "run_rounds": "game.selfplay",
}

__all__ = [
    "PRESETS",
    "Agent",
    "Answer",
    "Completion",
    "Conversation",
    "FreeText",
    "Game",
    "GameRules",
    "MemoryCorpus",
    "Passage",
    "RecordEpisodes",
    "SSPError",
    "Sampling",
    "Task",
    "build_game",
    "make_retriever",
    "open_corpus",
    "register_agent",
    "rollout",
    "run_rounds",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ssp_env' has no attribute {name!r}")
    return getattr(import_module(f"ssp_env.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)


register_envs()
