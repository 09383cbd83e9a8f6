"""Answers and tasks from JSON Lines: what episodes start from when the world does not provide it.

A task row is ``{id?, question, answers | golden_answers | answer, kind?}``; an answer row is ``{id?, answer |
ground_truth, aliases?, n_searches | search_turns?}``, as in the published data of Search-R1, FlashRAG and SSP. A list
of answers names equivalent forms, the first one being the answer of an answer. Other keys are ignored; a missing id
becomes the row number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn, TypeGuard, TypeVar

from ssp_env.errors import ConfigError
from ssp_env.types import Answer, Task

MAX_SEARCHES = 1000
"""The most searches that an answer may demand."""

ItemT = TypeVar("ItemT", Answer, Task)


def read_tasks(path: Path) -> list[Task]:
    """Return the tasks of a file, in order.

    Raises:
        ConfigError: If the file or a row cannot be used; the message names file and line.
    """
    return _read(path, task_from_row)


def read_answers(path: Path) -> list[Answer]:
    """Return the answers of a file, in order.

    Raises:
        ConfigError: If the file or a row cannot be used; the message names file and line.
    """
    return _read(path, answer_from_row)


def task_from_row(row: Mapping[str, object], *, default_id: str = "0") -> Task:
    """Return a task from plain JSON.

    Raises:
        ConfigError: If the question or the answers are missing, empty or of the wrong type.
    """
    question = _text(row, ("question",))
    answers = _texts(row, ("answers", "golden_answers", "answer"))
    kind = row.get("kind", "")
    if not _is_text(kind):
        raise ConfigError(f"expected a string for 'kind', got {shown(kind)}; correct it")
    return Task(id=_id(row, default_id), question=question, answers=answers, kind=kind)


def answer_from_row(row: Mapping[str, object], *, default_id: str = "0") -> Answer:
    """Return an answer from plain JSON.

    Raises:
        ConfigError: If the answer is missing, empty or of the wrong type, or it demands not 1 to 1000 searches.
    """
    answer, *others = _texts(row, ("answer", "ground_truth"))
    aliases = _texts(row, ("aliases",)) if row.get("aliases") else ()
    n_searches = row.get("n_searches", row.get("search_turns", Answer.__dataclass_fields__["n_searches"].default))
    if not isinstance(n_searches, int) or isinstance(n_searches, bool) or not 1 <= n_searches <= MAX_SEARCHES:
        got = shown(n_searches)
        raise ConfigError(f"expected a whole number of 1 to {MAX_SEARCHES} for 'n_searches', got {got}; correct it")
    return Answer(id=_id(row, default_id), text=answer, aliases=(*others, *aliases), n_searches=n_searches)


def shown(value: object) -> str:
    """Return the start of a value's ``repr``, for messages; numbers that Python refuses to write out are described."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"{type(value).__name__} with too many digits to show"


def _read(path: Path, convert: Callable[..., ItemT]) -> list[ItemT]:
    items = [_convert(row, convert, f"{path}:{number}", str(number - 1)) for number, row in _rows(path)]
    if not items:
        raise ConfigError(f"expected at least one row in {path}, got none; fill the file")
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ConfigError(f"expected distinct ids in {path}, got {item.id!r} twice; rename one")
        seen.add(item.id)
    return items


def _convert(row: object, convert: Callable[..., ItemT], where: str, default_id: str) -> ItemT:
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: expected a JSON object, got {row!r:.80}; write one object a line")
    try:
        return convert(row, default_id=default_id)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _rows(path: Path) -> Iterator[tuple[int, object]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _parse(line, f"{path}:{number}")
    except OSError as error:
        raise ConfigError(f"expected a readable file, got {str(path)!r} ({error.strerror}); check the path") from error


def _parse(line: bytes, where: str) -> object:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: expected one JSON object in UTF-8, got {line[:60]!r} ({error}); fix it") from error


def _id(row: Mapping[str, object], default: str) -> str:
    value = next((row[key] for key in ("id", "qid") if key in row), default)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 512:
        return str(value)
    if not _is_text(value) or not value:
        raise ConfigError(
            f"expected a string or a whole number of at most 512 bits for 'id', got {shown(value)}; correct it"
        )
    return value


def _text(row: Mapping[str, object], keys: tuple[str, ...]) -> str:
    return _texts(row, keys)[0] if isinstance(row.get(keys[0]), str) else _refuse(keys, row.get(keys[0]))


def _texts(row: Mapping[str, object], keys: tuple[str, ...]) -> tuple[str, ...]:
    value = next((row[key] for key in keys if key in row), None)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not values:
        _refuse(keys, value)
    return tuple(text if _is_text(text) and text.strip() else _refuse(keys, text) for text in values)


def _is_text(value: object) -> TypeGuard[str]:
    """Whether this is text that can be written down: a string without lone surrogates."""
    return isinstance(value, str) and value == value.encode("utf-8", "replace").decode()


def _refuse(keys: tuple[str, ...], value: object) -> NoReturn:
    raise ConfigError(
        f"expected non-empty text for {' or '.join(map(repr, keys))}, got {shown(value)}; fill it or drop the row"
    )
