"""Search self-play: environments in which one agent sets and solves search questions.

Importing this package registers ``SearchSolver-v0``, ``SearchProposer-v0`` and ``SearchSelfPlay-v0`` with Gymnasium and
loads nothing heavy: retrievers, models and servers come with their first use.
"""

from ssp_env.corpus import MemoryCorpus, open_corpus
from ssp_env.envs import register_envs
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

__version__ = "0.1.0"
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


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)


register_envs()
