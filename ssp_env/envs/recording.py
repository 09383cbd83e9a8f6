"""Recording: every ended episode of an environment as one line of JSON, whole after a kill at any moment.

A line has the shape of ``ssp_env.game.records``: all that was said, asked, found, judged and paid.
"""

from __future__ import annotations

import fcntl
import json
import os
from io import FileIO
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from ssp_env.envs.base import TextEnv
from ssp_env.envs.state import State
from ssp_env.errors import ConfigError
from ssp_env.game.records import SCHEMA, plain, trajectory_record

_HEADS = tuple(f'{{"schema": {schema}, "env": '.encode() for schema in range(1, SCHEMA + 1))
"""How a line of this and of earlier versions begins."""
_BLOCK_BYTES = 65_536


class RecordEpisodes(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Appends every ended episode to a JSON Lines file; one that is reset before its end is not written.

    Several environments and processes of one machine may share a file. Before the next line is written, a half line
    that a kill left is cut off, and a whole one without its line feed is given one.

    ```python
    env = ssp_env.RecordEpisodes(gymnasium.make("SearchSelfPlay-v0"), "episodes.jsonl")
    ```
    """

    def __init__(
        self, env: gymnasium.Env[str, str], path: str | os.PathLike[str], *, with_prompts: bool = False
    ) -> None:
        """Wrap one of this library's environments.

        Args:
            env: The environment, itself wrapped or not.
            path: The file, made if it is not there; its folder must exist.
            with_prompts: Whether each role's prompt is written too.

        Raises:
            ConfigError: If the environment is another one, or lines cannot be appended to the file.
        """
        if not isinstance(env.unwrapped, TextEnv):
            raise ConfigError(f"expected an environment of this library, got {env.unwrapped!r:.80}; wrap one of these")
        self._path = _text(path)
        RecordConstructorArgs.__init__(self, path=self._path, with_prompts=with_prompts)
        gymnasium.Wrapper.__init__(self, env)
        self._with_prompts = with_prompts
        self._inner = env.unwrapped
        _append(self._path, b"")

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Take one completion, and write the episode down if this ended it.

        Raises:
            ConfigError: If the line could not be written; the episode is over all the same.
        """
        reply = self.env.step(action)
        if reply[2] or reply[3]:
            spec = self._inner.spec
            record = episode_record(self._inner.state, with_prompts=self._with_prompts)
            head = {"schema": SCHEMA, "env": spec and spec.id, "terminated": reply[2], "truncated": reply[3]}
            line = json.dumps(head | record, ensure_ascii=False, allow_nan=False)
            _append(self._path, line.encode("utf-8", "replace") + b"\n")
        return reply


def episode_record(state: State, *, with_prompts: bool = False) -> dict[str, object]:
    """Return what happened in an environment's episode as plain JSON.

    ``episodes`` are those of all roles in order, with their rewards and the solves with their verdicts; ``validation``
    is None where nothing was proposed, and ``task`` where nothing was accepted. A running role's episode is included.
    """
    verdicts = iter(state.verdicts)
    running = [state.episode.record()] if state.episode.running else []
    episodes = [trajectory_record(trajectory, with_prompt=with_prompts) for trajectory in (*state.ended, *running)]
    for episode in episodes:
        if episode["role"] == "solver" and (verdict := next(verdicts, None)):
            episode["verdict"] = plain(verdict)
    return {
        "item": plain(state.item),
        "task": plain(state.task),
        "validation": plain(state.validation),
        "episodes": episodes,
    }


def _text(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str) or not text:
        raise ConfigError(f"expected a path as text, got {path!r:.80}; name a file")
    return text


def _append(path: str, line: bytes) -> None:
    """Mend the end of the file and append a whole line, or nothing, while no other process does so."""
    try:
        with open(path, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = _end(file)
            file.seek(end)
            head = file.read(len(_HEADS[0]))
            if not any(known.startswith(head) for known in _HEADS):
                raise ConfigError(
                    f"expected lines of recorded episodes in {path!r}, got an unfinished line of something else; "
                    "end it with a line feed, or name another file"
                )
            if _is_json(head + file.read()):
                _write(file, b"\n" + line)
            else:
                file.truncate(end)
                _write(file, line)
    except (OSError, ValueError) as error:
        got, remedy = f"{path!r} ({error})", "make room or its folder, or name another"
        raise ConfigError(f"expected a file to append to, got {got}; {remedy}") from error


def _write(file: FileIO, data: bytes) -> None:
    """Append all of the data; where that fails, cut the file back."""
    end = file.seek(0, os.SEEK_END)
    try:
        while data:
            data = data[file.write(data) :]
    except OSError:
        file.truncate(end)
        raise


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _end(file: FileIO) -> int:
    """Return where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = file.seek(max(0, end - _BLOCK_BYTES))
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0
