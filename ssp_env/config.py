"""The configuration of a game: plain JSON, checked and completed before anything is built from it.

Every key has a default, so that ``{}`` is a whole game over the generated world. Unknown names and values of the wrong
type are refused here, so that building can only fail on what lies outside: files, packages, services.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence, ValuesView
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict, TypeVar, cast

from ssp_env.errors import ConfigError
from ssp_env.game.judges import JUDGES
from ssp_env.game.prompts import KNOWN_TOOL, PROMPT_SETS, check_tools
from ssp_env.game.readers import READERS
from ssp_env.game.roles import ROLES
from ssp_env.game.rules import PRESETS, GameRules, rules
from ssp_env.game.tools import TOOLS
from ssp_env.protocols import AgentOf, Judge, Reader
from ssp_env.retrieval.nested import complete_spec
from ssp_env.retrieval.ranking import suggest
from ssp_env.world import WorldConfig

PartT = TypeVar("PartT")

MAX_DEPTH = 32
"""Deepest nesting of settings."""
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

    corpus: str | Sequence[str] | Mapping[str, object]
    retriever: str | Mapping[str, object]
    index_dir: str | None
    tools: Sequence[str]
    rules: str | Mapping[str, object]
    prompt_set: str
    judge: str | Mapping[str, object]
    reader: str | Mapping[str, object] | None
    tasks: str | None
    answers: str | None


def complete(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration with defaults filled in, names checked and paths made absolute.

    Spellings of one game become equal: a name or an object with it, relative or absolute paths, defaults of rules,
    world, judge and reader given or left out. Settings of retrievers and agents stay as given, as only they know their
    defaults.

    Raises:
        ConfigError: If a key, name or value is unknown, or the values contradict each other.
    """
    check_depth(config)
    for key in config:
        if key not in GameConfig.__annotations__:
            known = list(GameConfig.__annotations__)
            raise ConfigError(f"expected a setting of the game, got {key!r}; {suggest(str(key), known)}")
    corpus = _corpus(config.get("corpus", "world"))
    reader = config.get("reader")
    prompt_set = _choice(config.get("prompt_set", "paper"), PROMPT_SETS, "prompt set")
    named_rules = config.get("rules", "world" if "world" in corpus else "paper")
    full: dict[str, object] = {
        "corpus": corpus,
        "retriever": _retriever(config.get("retriever", "bm25")),
        "index_dir": _path(config.get("index_dir"), "index_dir"),
        "tools": _tools(config.get("tools", (KNOWN_TOOL,)), prompt_set),
        "rules": _rules(named_rules),
        "prompt_set": prompt_set,
        "judge": named(config.get("judge", "exact"), JUDGES, "judge"),
        "reader": _reader(_default_reader(corpus, named_rules) if reader is None else reader),
        "tasks": _path(config.get("tasks"), "tasks"),
        "answers": _path(config.get("answers"), "answers"),
    }
    judge_maker(full)
    reader_maker(full)
    return full


def check_depth(value: object) -> None:
    """Refuse settings nested so deep that they cannot even be shown.

    Raises:
        ConfigError: If there are more than ``MAX_DEPTH`` levels.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        nested = [part.values() if isinstance(part, Mapping) else part for part in level]
        level = [inner for part in nested if isinstance(part, ValuesView | list | tuple) for inner in part]
    if level:
        raise ConfigError(f"expected settings at most {MAX_DEPTH} levels deep, got more; nest fewer")


def canonical(value: object) -> str:
    """Return a value as canonical JSON.

    Raises:
        ConfigError: If it is not plain JSON, or nested too deep.
    """
    check_depth(value)
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"expected plain JSON, got {value!r:.200} ({error}); pass names, paths and numbers"
        ) from error


def game_rules(value: Mapping[str, object]) -> GameRules:
    """Return the rules of a completed configuration."""
    return GameRules(**value)  # type: ignore[arg-type]


def judge_maker(full: Mapping[str, object]) -> Callable[[AgentOf], Judge]:
    """Return what makes the judge of a completed configuration; raises ``ConfigError`` if its settings do not fit."""
    return _maker(JUDGES, full, "judge", ())


def reader_maker(full: Mapping[str, object]) -> Callable[[AgentOf], Reader | None]:
    """Return what makes the reader of a completed configuration; raises ``ConfigError`` if its settings do not fit."""
    return _maker(READERS, full, "reader", (full,))


def named(value: object, factories: Mapping[str, Callable[..., object]], what: str) -> dict[str, object]:
    """Return ``{"name": ..., setting: ...}`` for a name or such a mapping, with the defaults of its factory.

    Raises:
        ConfigError: If it is neither, or the name is unknown.
    """
    spec = {"name": value} if isinstance(value, str) else value
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ConfigError(f"expected a name or {{'name': ..., ...}} for the {what}, got {value!r}; write one of these")
    name = _choice(spec["name"], factories, what)
    parameters = inspect.signature(factories[name]).parameters.values()
    return _filled(spec, {p.name: p.default for p in parameters if p.default is not p.empty})


def _filled(given: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """Return settings as plain JSON with defaults filled in; a whole number becomes a float where the default is."""
    full: dict[str, object] = {**defaults, **json.loads(canonical(dict(given)))}
    for name, default in defaults.items():
        value = full[name]
        if isinstance(default, float) and type(value) is int and abs(value) < 2**53:
            full[name] = float(value)
    return full


def _maker(
    factories: Mapping[str, Callable[..., PartT]], full: Mapping[str, object], what: str, known: Sequence[object]
) -> PartT:
    settings = dict(cast("Mapping[str, object]", full[what]))
    name = str(settings.pop("name"))
    try:
        return factories[name](*known, **settings)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"expected {name!r} with settings of its own as {what}, got {settings!r} ({error}); correct them"
        ) from error


def _choice(value: object, known: Collection[str], what: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"expected a {what}, got {value!r}; {suggest(str(value), list(known))}")
    return value


def _corpus(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        if set(value) != {"world"} or not isinstance(value["world"], Mapping):
            raise ConfigError(f"expected {{'world': {{...}}}} for the corpus, got {value!r}; or pass a path")
        return {"world": _filled(value["world"], asdict(WorldConfig()))}
    if value == "world":
        return {"world": asdict(WorldConfig())}
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, Sequence) or not paths:
        raise ConfigError(
            f"expected 'world', a path or a list of paths for the corpus, got {value!r}; pass one, as str(path)"
        )
    return {"paths": [_path(path, "corpus", required=True) for path in paths]}


def _path(value: object, what: str, *, required: bool = False) -> str | None:
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"expected a path as text for {what!r}, got {value!r}; pass str(path)")
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


def _retriever(value: object) -> dict[str, object]:
    return dict(json.loads(canonical(complete_spec(value))))


def _tools(value: object, prompt_set: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ConfigError(f"expected a list of tools, got {value!r}; name some of {sorted(TOOLS)}")
    for name in value:
        _choice(name, TOOLS, "tool")
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


def _reader(value: object) -> dict[str, object]:
    if isinstance(value, Mapping) and "agent" in value:
        value = {"name": "agent", **value}
    return named(value, READERS, "reader")


def _rules(value: object) -> dict[str, object]:
    spec = {"preset": value} if isinstance(value, str) else value
    if not isinstance(spec, Mapping) or not isinstance(spec.get("preset"), str):
        raise ConfigError(f"expected a preset out of {sorted(PRESETS)} or {{'preset': ...}}, got {value!r}; write that")
    changes = {str(name): change for name, change in spec.items() if name != "preset"}
    if not all(isinstance(value, str | int | float) for value in changes.values()):
        raise ConfigError(f"expected text, numbers or true and false as rules, got {changes!r}; correct them")
    full = asdict(rules(str(spec["preset"]), **changes))
    full["invalid_reward"] = float(full["invalid_reward"])
    return full
