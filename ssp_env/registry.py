"""Games and agents by configuration, built once per process.

Environments are configured with plain JSON, so that ``env.spec`` can be written down and rebuilt anywhere; indexes and
models, which cannot, live here. Both tables keep the 32 entries used last. They are safe to use from threads and after
a fork. When a file that a game names has changed on disk, the game is built anew.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Generic, TypeVar, cast

from ssp_env.config import GameConfig, complete, game_rules, judge_settings, reader_settings
from ssp_env.corpus import MemoryCorpus, open_corpus
from ssp_env.datasets import read_answers, read_tasks
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.tools import TOOLS
from ssp_env.protocols import Agent, Corpus
from ssp_env.retrieval import make_retriever
from ssp_env.schema import canonical, parse, suggest
from ssp_env.types import Answer, Task
from ssp_env.world import World, WorldConfig, world_answers, world_tasks

__all__ = ["GameConfig", "build_agent", "build_game", "clear", "register_agent"]

ValueT = TypeVar("ValueT")
AgentFactory = Callable[..., Agent]

MAX_ENTRIES = 32

AGENTS: dict[str, str | Agent | AgentFactory] = {"world-expert": "ssp_env.world.experts:ExpertAgent"}
"""Name to an agent, to what makes one, or to where either is (``module:name``)."""


@dataclass(frozen=True, slots=True)
class _AgentSpec:
    """How an agent is described."""

    name: str
    kwargs: dict[str, object] = field(default_factory=dict)


class _Table(Generic[ValueT]):
    """Values by canonical JSON, each built once, the least recently used dropped.

    All tables share one lock: a game may build its agents, and an agent its games.
    """

    _lock = threading.RLock()

    def __init__(self) -> None:
        self._values: OrderedDict[str, ValueT] = OrderedDict()

    def get(self, key: str, build: Callable[[], ValueT]) -> ValueT:
        with self._lock:
            if key not in self._values:
                self._values[key] = build()
                while len(self._values) > MAX_ENTRIES:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    @classmethod
    def renew_lock(cls) -> None:
        """Replace a lock that a thread of the parent process may have held at the fork."""
        cls._lock = threading.RLock()


_games: _Table[Game] = _Table()
_agents: _Table[Agent] = _Table()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Table.renew_lock)


def build_game(config: GameConfig | Mapping[str, object]) -> Game:
    """Return the game of a configuration; equal ones share a game in a process, as long as their files are the same.

    Raises:
        ConfigError: If the configuration cannot be used.
        CorpusError: If a corpus file cannot be read.
        StaleIndexError: If a saved index belongs to another corpus.
        ImportError: If an optional package is missing.
    """
    full = complete(config)
    stamps = [(path, (found := os.stat(path)).st_size, found.st_mtime_ns) for path in sorted(set(_files(full)))]
    return _games.get(canonical([full, stamps]), lambda: _build(full))


def _files(value: object) -> Iterator[str]:
    """Yield the files that a completed configuration names, at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _files(part)
    elif isinstance(value, str) and os.path.isabs(value) and os.path.isfile(value):
        yield value


def register_agent(name: str, agent: Agent | AgentFactory) -> None:
    """Make an agent available by name in this process; other processes need ``"module:name"``.

    Args:
        name: What configurations call it.
        agent: An agent, or what makes one. A function from ``Conversation`` to text becomes an agent by
            ``ssp_agents.scripted.FunctionAgent``.

    Raises:
        ConfigError: If the name is taken by another agent or contains a colon.
    """
    if ":" in name or AGENTS.get(name, agent) is not agent:
        raise ConfigError(f"expected a new name without a colon for an agent, got {name!r}; choose another")
    AGENTS[name] = agent


def build_agent(spec: object) -> Agent:
    """Return the agent of a name, ``"module:name"`` or ``{"name": either, "kwargs": {...}}``, built once.

    What is named is an agent or makes one, such as ``"ssp_agents.hf:HFAgent.from_path"``.

    Raises:
        ConfigError: If there is no such agent, its arguments do not fit, or what it makes is no agent.
    """
    given = parse(_AgentSpec, spec if isinstance(spec, Mapping) else {"name": spec}, what="an agent")
    key = canonical([given.name, given.kwargs])
    return _agents.get(key, lambda: _make_agent(given.name, given.kwargs))


def clear() -> None:
    """Forget all games and agents built so far; those in use stay as they are."""
    _games.clear()
    _agents.clear()


def _make_agent(name: str, arguments: dict[str, object]) -> Agent:
    found = _find_agent(name)
    if not arguments and isinstance(found, Agent) and not isinstance(found, type):
        return found
    try:
        agent = cast("AgentFactory", found)(**arguments)
    except TypeError as error:
        raise ConfigError(
            f"expected arguments that agent {name!r} takes, got {arguments!r} ({error}); correct them, or wrap a "
            "function that replies in ssp_agents.scripted.FunctionAgent"
        ) from error
    if not isinstance(agent, Agent):
        raise ConfigError(f"expected agent {name!r} to have a method 'complete', got {type(agent).__name__}; add it")
    return agent


def _find_agent(name: str) -> object:
    entry = AGENTS.get(name, name)
    if not isinstance(entry, str):
        return entry
    module, colon, attribute = entry.partition(":")
    if not colon:
        raise ConfigError(f"expected an agent or 'module:name', got {name!r}; {suggest(name, list(AGENTS))}")
    try:
        return attrgetter(attribute)(import_module(module))
    except (ModuleNotFoundError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"expected an importable agent, got {entry!r} ({error}); check module and name") from error


def _build(full: Mapping[str, object]) -> Game:
    spec = cast("Mapping[str, Mapping[str, object]]", full)
    rules = game_rules(spec["rules"])
    index_dir = None if full["index_dir"] is None else Path(str(full["index_dir"]))
    corpus, world = _corpus(spec["corpus"], index_dir)
    settings = {key: value for key, value in spec["retriever"].items() if key != "name"}
    retriever = make_retriever(str(spec["retriever"]["name"]), corpus, settings, index_dir=index_dir)
    return Game(
        corpus=corpus,
        tools={name: TOOLS[name](corpus, retriever, rules.top_k) for name in spec["tools"]},
        judge=judge_settings(full).build(build_agent),
        reader=reader_settings(full).build(build_agent, full),
        rules=rules,
        prompt_set=str(full["prompt_set"]),
        answers=_answers(full["answers"], world),
        tasks=_tasks(full["tasks"], world),
        retriever=retriever,
    )


def _corpus(spec: Mapping[str, object], index_dir: Path | None) -> tuple[Corpus, World | None]:
    if "paths" in spec:
        paths = [Path(path) for path in cast("Sequence[str]", spec["paths"])]
        return open_corpus(paths, index_dir=index_dir), None
    world = World(parse(WorldConfig, spec["world"], what="the world"))
    return MemoryCorpus(world.passages), world


def _tasks(path: object, world: World | None) -> Sequence[Task]:
    if path is not None:
        return tuple(read_tasks(Path(str(path))))
    return () if world is None else world_tasks(world)


def _answers(path: object, world: World | None) -> Sequence[Answer]:
    if path is not None:
        return tuple(read_answers(Path(str(path))))
    return () if world is None else world_answers(world)
