"""The configuration of a game: plain JSON, checked and completed before anything is built from it.

Every key has a default, so that ``{}`` is a whole game over the generated world. Unknown names and values of the wrong
type are refused here, so that building can only fail on what lies outside: files, packages, services.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict, TypeVar, cast

from ssp_env.errors import ConfigError
from ssp_env.game.judges import JUDGES, JudgeSettings
from ssp_env.game.prompts import KNOWN_TOOL, PROMPT_SETS, check_tools
from ssp_env.game.readers import READERS, ReaderSettings
from ssp_env.game.roles import ROLES
from ssp_env.game.rules import PRESETS, GameRules, rules
from ssp_env.game.tools import TOOLS
from ssp_env.retrieval.nested import complete_spec
from ssp_env.schema import Named, canonical, check_keys, choice, named, parse, plain, says
from ssp_env.world import WorldConfig

T = TypeVar("T")
FilePath = Annotated[str, says("a path as text", pattern=r"\A[^\0]+\Z")]

MAX_FOLDERS = 100
"""Most folders above a file or folder that is named."""


class GameConfig(TypedDict, total=False):
    """What a game is built from.

    Attributes:
        corpus: ``"world"``, ``{"world": {"seed": 0, "n_entities": 200}}``, a JSONL file, or a list of files.
        retriever: A name, or ``{"name": ..., setting: ...}``; ``cache``, ``blocklist`` and ``rerank`` wrap the
            retriever that their setting ``base`` describes in the same way.
        index_dir: Folder for indexes; default: beside the corpus.
        tools: Names of the tools that proposer and solver may call; ``"search"`` is one of them.
        rules: A preset, or ``{"preset": ..., rule: ...}``; default ``"world"`` over a world and ``"paper"`` elsewhere.
        prompt_set: ``"paper"``, ``"worked"`` or ``"compact"``; see ``ssp_env.game.prompts``.
        judge: ``"exact"``, ``{"name": "exact", "mode": ...}`` or ``{"name": "model", "agent": agent}``.
        reader: Who checks that a question can be answered: ``"oracle"`` (only over a world, the default there),
            ``{"name": "oracle", "error": 0.2}`` (which guesses in that share of cases), ``"policy"`` (the playing agent
            itself, the default elsewhere), ``{"agent": agent}``, or ``"judge"`` (the agent of a model judge: the
            default elsewhere with rules ``"code"``, as in the released code, which refuses other judges then).
        tasks: JSONL file of questions; None: the world's.
        answers: JSONL file of answers; None: the world's.

    An *agent* is a registered name, ``"module:factory"``, or ``{"name": either, "kwargs": {...}}``.
    Paths are relative to the working directory.
    """

    corpus: Annotated[
        FilePath | Annotated[Sequence[FilePath], says("", min_length=1)] | Mapping[str, object],
        says("'world', {'world': {...}}, a path or a list of paths"),
    ]
    retriever: Named
    index_dir: FilePath | None
    tools: Annotated[Sequence[str], says("a list of tools", min_length=1)]
    rules: Named
    prompt_set: str
    judge: Named
    reader: Named | None
    tasks: FilePath | None
    answers: FilePath | None


@dataclass(frozen=True, slots=True)
class _Generated:
    """A corpus that is a generated world."""

    world: WorldConfig


def complete(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration with defaults filled in, names checked and paths made absolute.

    Spellings of one game become equal: a name or an object with it, relative or absolute paths, defaults of rules,
    world, judge and reader given or left out. Settings of retrievers and agents stay as given, as only they know their
    defaults.

    Raises:
        ConfigError: If a key, name or value is unknown, or the values contradict each other.
    """
    given = json.loads(canonical(parse(GameConfig, config, what="the game")))
    corpus = _corpus(given.get("corpus", "world"))
    prompt_set = choice(given.get("prompt_set", "paper"), PROMPT_SETS, what="prompt set")
    named_rules = given.get("rules", "world" if "world" in corpus else "paper")
    judge = _completed(given.get("judge", "exact"), JUDGES, "judge")
    reader = given.get("reader")
    return {
        "corpus": corpus,
        "retriever": complete_spec(given.get("retriever", "bm25")),
        "index_dir": _path(given.get("index_dir"), "index_dir"),
        "tools": _tools(given.get("tools", (KNOWN_TOOL,)), prompt_set),
        "rules": _rules(named_rules),
        "prompt_set": prompt_set,
        "judge": judge,
        "reader": _reader(_default_reader(corpus, named_rules) if reader is None else reader, corpus, judge),
        "tasks": _path(given.get("tasks"), "tasks"),
        "answers": _path(given.get("answers"), "answers"),
    }


def game_rules(value: Mapping[str, object]) -> GameRules:
    """Return the rules of a completed configuration."""
    return parse(GameRules, value, what="the rules")


def judge_settings(full: Mapping[str, object]) -> JudgeSettings:
    """Return the settings of the judge of a completed configuration."""
    return _settings(full["judge"], JUDGES, "judge")[1]


def reader_settings(full: Mapping[str, object]) -> ReaderSettings:
    """Return the settings of the reader of a completed configuration."""
    return _settings(full["reader"], READERS, "reader")[1]


def _settings(value: object, kinds: Mapping[str, type[T]], what: str) -> tuple[str, T]:
    name, settings = named(value, kinds, what=what)
    return name, parse(kinds[name], settings, what=f"{what} {name!r}")


def _completed(value: object, kinds: Mapping[str, type[object]], what: str) -> dict[str, object]:
    """Return ``{"name": ..., setting: ...}`` for a name or such an object, with all defaults."""
    name, settings = _settings(value, kinds, what)
    return {"name": name, **plain(settings)}


def _corpus(value: object) -> dict[str, object]:
    if value == "world":
        value = {"world": {}}
    if isinstance(value, Mapping):
        return plain(parse(_Generated, value, what="the corpus"))
    paths = cast("Sequence[str]", [value] if isinstance(value, str) else value)
    return {"paths": [_path(path, "corpus") for path in paths]}


def _path(value: str | None, what: str) -> str | None:
    if value is None:
        return None
    path = Path(value).absolute()
    try:
        path = Path(value).expanduser().absolute()
        str(path).encode()  # engines want it in UTF-8
        fits = len(path.parts) <= MAX_FOLDERS and path.is_file() != (what == "index_dir")
    except (OSError, RuntimeError, UnicodeEncodeError):  # a name that is too long, or of an unknown user
        fits = False
    if not fits:
        rule = f"UTF-8, at most {MAX_FOLDERS} folders deep"
        wanted = "a folder" if what == "index_dir" else "an existing file"
        raise ConfigError(f"expected {wanted} for {what!r}, got {value!r}; check the path {str(path)!r}: {rule}")
    return str(path)


def _tools(value: Sequence[str], prompt_set: str) -> list[str]:
    for name in value:
        choice(name, TOOLS, what="tool")
    if len(set(value)) != len(value):
        raise ConfigError(f"expected different tools, got {list(value)!r}; name each once")
    if KNOWN_TOOL not in value:
        raise ConfigError(
            f"expected {KNOWN_TOOL!r} among the tools, got {list(value)!r}; add it, as prompts tell of it"
        )
    for role in ROLES.values():
        if role.uses_tools:
            check_tools(prompt_set, role.name, value)
    return list(value)


def _default_reader(corpus: Mapping[str, object], named_rules: object) -> str:
    if "world" in corpus:
        return "oracle"
    preset = named_rules.get("preset") if isinstance(named_rules, Mapping) else named_rules
    return "judge" if preset == "code" else "policy"


def _reader(value: object, corpus: Mapping[str, object], judge: Mapping[str, object]) -> dict[str, object]:
    if isinstance(value, Mapping) and "agent" in value:
        value = {"name": "agent", **value}
    reader = _completed(value, READERS, "reader")
    if reader["name"] == "oracle" and "world" not in corpus:
        raise ConfigError(
            "expected a reader that knows the corpus, got 'oracle', which only knows generated worlds; "
            "use 'policy' or {'agent': ...}"
        )
    if reader["name"] == "judge" and "agent" not in judge:
        raise ConfigError(
            f"expected a judge with an agent for reader 'judge', the default with rules='code', got judge {judge!r}; "
            "use judge={'name': 'model', 'agent': ...}, or another reader: reader='policy' or reader={'agent': ...}"
        )
    return reader


def _rules(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        check_keys(value, ["preset", *GameRules.__dataclass_fields__], what="the rules")
    preset, changes = named(value, PRESETS, what="preset", key="preset")
    return plain(rules(preset, **changes))
