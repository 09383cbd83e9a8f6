"""The command line of ``run_ssp.py``: defaults, a preset, a file, flags; each changes what came before."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from ssp_env.errors import ConfigError
from ssp_env.schema import choice, parse
from training.config import PRESETS, Preset, RunConfig, resolved, to_json
from training.run_folder import read_config


@dataclass(frozen=True, slots=True)
class Command:
    """Train one language model by search self-play: it sets itself questions over a corpus and learns to solve them.

    With no flags the small shipped policy plays in generated worlds and learns within minutes on two processor cores.
    For a model of your own: run_ssp.py --model DIR --corpus PASSAGES.jsonl --preset paper --out runs/real
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig()
    resume: bool = False
    """Continue the run in --out from its last checkpoint; flags not given keep the values of that run."""
    config: str | None = None
    """TOML file of settings ('n_rounds = 9', '[solver]', 'beta = 0.01'), or config.json of a run; flags override it."""
    preset: Preset | None = None
    """What the flags of proposer, solver and optimizer start from: world (for the shipped policies), or paper or code
    (after the paper or its released code)."""


def read_command(arguments: Sequence[str] | None = None) -> Command:
    """Return the command with its resolved configuration; a resumed run's flags default to those of the run.

    Raises:
        ConfigError: If a flag is given twice, or a file or a value cannot be used.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    _refuse_repeated(arguments)
    asked = tyro.cli(Command, args=arguments)
    command = tyro.cli(Command, args=arguments, default=replace(asked, run=_started(asked, RunConfig())))
    if command.resume:
        saved = from_json(read_config(Path(command.run.out).expanduser()))
        command = tyro.cli(Command, args=arguments, default=replace(asked, run=_started(asked, saved)))
    return replace(command, run=resolved(command.run))


def from_json(values: Mapping[str, object]) -> RunConfig:
    """Return the record of ``training.config.to_json``.

    Raises:
        ConfigError: If fields are missing, unknown or of the wrong type.
    """
    return parse(RunConfig, values, what="a saved run", all_keys=True, error=_no_saved_run)


def _no_saved_run(message: str) -> ConfigError:
    problem = message.partition(";")[0]
    return ConfigError(f"{problem}; restore its config.json, or use the version that made it")


def _started(asked: Command, config: RunConfig) -> RunConfig:
    """Return what the flags change: a configuration, the preset that is asked for, then the file."""
    values = _read_file(Path(asked.config).expanduser()) if asked.config else {}
    of_file = values.pop("preset", None)
    if name := asked.preset or of_file:
        preset = PRESETS[choice(name, PRESETS, what="preset")]
        config = replace(config, proposer=preset.proposer, solver=preset.solver, optimizer=preset.optimizer)
    return with_values(config, values, what=f"the training in {asked.config}") if values else config


def _read_file(path: Path) -> dict[str, object]:
    try:
        text = path.read_text("utf-8")
        values: object = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        if isinstance(values, dict):
            return values
        problem = f"{type(values).__name__} and no object"
    except (OSError, ValueError) as error:
        problem = str(error)
    raise ConfigError(f"expected settings in TOML, or the config.json of a run, got {path} ({problem}); correct it")


def with_values(config: RunConfig, values: Mapping[str, object], *, what: str) -> RunConfig:
    """Return a configuration with the values of a file; ``what`` names the file in errors.

    Raises:
        ConfigError: If a name is unknown or a value is of the wrong type.
    """
    merged = to_json(config)
    for name, value in values.items():
        group = merged.get(name)
        if isinstance(group, dict) and isinstance(value, dict):
            merged[name] = {**group, **{own: _as_flag(own, v) for own, v in value.items()}}
        else:
            merged[name] = value
    return parse(RunConfig, merged, what=what)


def _as_flag(name: str, value: object) -> object:
    """Return a table of a file as a flag has it: rules as ``name=value``, a reader or a judge as JSON."""
    if not isinstance(value, Mapping):
        return value
    if name != "rule":
        return json.dumps(value)
    return [f"{rule}={v if isinstance(v, str) else json.dumps(v)}" for rule, v in value.items()]


def _refuse_repeated(arguments: Sequence[str]) -> None:
    """Refuse a flag given twice, of which only the last would count; ``--no-x`` is ``--x``."""
    flags = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    for flag, n_times in Counter(re.sub(r"(--|\.)no-", r"\1", flag) for flag in flags).items():
        if n_times > 1:
            of_make = '; make run gives it itself: make run RUN= ARGS="..." leaves that to you'
            remedy = "keep one, and give all its values after one flag" + of_make * (flag == "--config")
            raise ConfigError(f"expected {flag} once, got it {n_times} times; {remedy}")
