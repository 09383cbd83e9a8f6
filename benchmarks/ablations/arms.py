"""The arm file of the ablations and the cells that it asks for.

A cell is one training run: the merged settings of an arm and a seed. Its key is a hash of these and of the initial
weights, so that equal settings are run once whatever the arm is called. The code is not part of the key: a cell keeps
the commit that it was run at, and cards tell it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.card import ROOT
from ssp_env.errors import ConfigError

WEIGHTS = ROOT / "training" / "tiny" / "weights"
RULE = "game.rule."
_KEYS = {"kinds", "seeds", "base", "seed_step", "arms", "groups"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A name, what it changes (by dotted names), and whether its policy is looked at before or after training."""

    name: str
    changes: Mapping[str, object]
    at: Literal["start", "end"] = "end"


@dataclass(frozen=True, slots=True)
class Group:
    """Arms that are reported together, and which of their differences (first minus second)."""

    name: str
    title: str
    arms: tuple[str, ...]
    differences: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ArmFile:
    """A whole arm file."""

    kinds: tuple[str, ...]
    seeds: tuple[int, ...]
    base: Mapping[str, object]
    seed_step: Mapping[str, int]
    arms: Mapping[str, Arm]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One training run; ``flags`` are those of ``training/run_ssp.py`` without ``--out``."""

    key: str
    seed: int
    settings: Mapping[str, object]

    @property
    def n_rounds(self) -> int:
        """Rounds until it is complete."""
        return int(str(self.settings["n_rounds"]))

    @property
    def flags(self) -> list[str]:
        """The command line of the run."""
        rules = {name.removeprefix(RULE): v for name, v in self.settings.items() if name.startswith(RULE)}
        parts = [part for name, v in sorted(self.settings.items()) if RULE not in name for part in _flag(name, v)]
        written = [f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in sorted(rules.items())]
        return [*parts, "--game.rule", *written] if rules else parts


def read_arms(path: Path) -> ArmFile:
    """Read an arm file.

    Raises:
        ConfigError: If it cannot be read, or names an arm that it does not define.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"expected a TOML file of arms at {path}, got {error}; correct it") from error
    if set(data) != _KEYS or not data["seeds"] or not data["kinds"]:
        raise ConfigError(f"expected exactly {sorted(_KEYS)} in {path}, none of them empty, got {sorted(data)}")
    changes = {name: flat(settings) for name, settings in data["arms"].items()}
    arms = {name: _arm(name, settings, changes) for name, settings in changes.items()}
    groups = tuple(
        Group(name, group["title"], tuple(group["arms"]), tuple((a, b) for a, b in group["differences"]))
        for name, group in data["groups"].items()
    )
    for group in groups:
        known(group.arms, arms, "arm")
        known([name for pair in group.differences for name in pair], group.arms, "arm of the group")
    step = {name: int(str(value)) for name, value in flat(data["seed_step"]).items()}
    return ArmFile(tuple(data["kinds"]), tuple(data["seeds"]), flat(data["base"]), step, arms, groups)


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return nested settings by dotted names, rules one by one: ``{"game.rule.gate": True}``."""
    names: dict[str, object] = {}
    for name, value in settings.items():
        names |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return names


def known(names: Iterable[str], allowed: Collection[str], what: str) -> None:
    """Raise ``ConfigError`` for the first name that is not allowed."""
    for name in names:
        if name not in allowed:
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"name one of {sorted(allowed)}"
            raise ConfigError(f"expected an {what}, got {name!r}; {hint}")


def cell(file: ArmFile, arm: str, seed: int, *, n_rounds: int | None = None) -> Cell:
    """Return the run of an arm with a seed; ``n_rounds`` replaces the number of the file."""
    settings = {**file.base, **file.arms[arm].changes}
    for name, step in file.seed_step.items():
        settings[name] = int(str(settings[name])) + step * seed
    settings["seed"] = seed
    if n_rounds is not None:
        settings["n_rounds"] = n_rounds
    named = {"settings": settings, "model": _digest(ROOT / str(settings.get("model", WEIGHTS)))}
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]
    return Cell(key, seed, settings)


def _arm(name: str, changes: Mapping[str, object], arms: Mapping[str, Mapping[str, object]]) -> Arm:
    if "of" not in changes:
        return Arm(name, changes)
    known([str(changes["of"])], arms, "arm")
    if set(changes) != {"of", "at"} or changes["at"] != "start":
        raise ConfigError(f'expected {{of = ..., at = "start"}} for arm {name!r}, got {dict(changes)!r}; correct it')
    return Arm(name, arms[str(changes["of"])], "start")


def _flag(name: str, value: object) -> list[str]:
    group, dot, own = name.replace("_", "-").rpartition(".")
    if value is False:
        return [f"--{group}{dot}no-{own}"]
    values = [] if value is True else map(str, value) if isinstance(value, list) else [str(value)]
    return [f"--{group}{dot}{own}", *values]


def _digest(folder: Path) -> str:
    """Return a digest of the weights of a model folder."""
    digest = hashlib.sha256()
    if not (files := sorted(folder.glob("*.safetensors"))):
        raise ConfigError(f"expected a model with weights in {folder}, got none; correct the path in the arm file")
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()
