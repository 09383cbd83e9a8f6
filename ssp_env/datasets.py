"""Answers and tasks from JSON Lines: what episodes start from when the world does not provide it.

A task row is ``{id?, question, answers | golden_answers | answer, kind?}``; an answer row is ``{id?, answer |
ground_truth, aliases?, n_searches | search_turns?}``, as in the published data of Search-R1, FlashRAG and SSP. A list
of answers names equivalent forms, the first one being the answer of an answer. Other keys are ignored; a missing id
becomes the row number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from ssp_env.errors import ConfigError
from ssp_env.schema import FilledText, Text, load_object, parse, says, within
from ssp_env.types import Answer, Task

MAX_SEARCHES = 1000
"""The most searches that an answer may demand."""

Texts = FilledText | Annotated[tuple[FilledText, ...], says("a list of such", min_length=1)]
_TASK_KEYS = {
    "id": ("id", "qid"),
    "question": ("question",),
    "answers": ("answers", "golden_answers", "answer"),
    "kind": ("kind",),
}
_ANSWER_KEYS = {
    "id": ("id", "qid"),
    "answer": ("answer", "ground_truth"),
    "n_searches": ("n_searches", "search_turns"),
}
"""The spellings of a field, the first one first."""
ItemT = TypeVar("ItemT", Answer, Task)


@dataclass(frozen=True, slots=True)
class _TaskRow:
    id: FilledText | int
    question: FilledText
    answers: Texts
    kind: Text = ""


@dataclass(frozen=True, slots=True)
class _AnswerRow:
    id: FilledText | int
    answer: Texts
    aliases: FilledText | tuple[FilledText, ...] = ()
    n_searches: Annotated[int, within(1, MAX_SEARCHES)] = Answer("", "").n_searches


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
    shape = "a row {id?, question, answers | golden_answers | answer, kind?}"
    given = parse(_TaskRow, {"id": default_id, **_first(row, _TASK_KEYS)}, what=shape)
    return Task(id=str(given.id), question=given.question, answers=_tuple(given.answers), kind=given.kind)


def answer_from_row(row: Mapping[str, object], *, default_id: str = "0") -> Answer:
    """Return an answer from plain JSON.

    Raises:
        ConfigError: If the answer is missing, empty or of the wrong type, or it demands not 1 to 1000 searches.
    """
    shape = "a row {id?, answer | ground_truth, aliases?, n_searches | search_turns?}"
    values = {"id": default_id, **_first(row, _ANSWER_KEYS), "aliases": row.get("aliases") or ()}
    given = parse(_AnswerRow, values, what=shape)
    text, *others = _tuple(given.answer)
    return Answer(str(given.id), text, (*others, *_tuple(given.aliases)), given.n_searches)


def _first(row: Mapping[str, object], known: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    """Return the values of a row by name, each under the first of its spellings that is there."""
    found = {name: [row[key] for key in spellings if key in row] for name, spellings in known.items()}
    return {name: values[0] for name, values in found.items() if values}


def _tuple(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts


def _read(path: Path, convert: Callable[..., ItemT]) -> list[ItemT]:
    items: list[ItemT] = []
    for number, line in _lines(path):
        try:
            items.append(convert(load_object(line, ConfigError), default_id=str(number - 1)))
        except ConfigError as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
    if not items:
        raise ConfigError(f"expected at least one row in {path}, got none; fill the file")
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ConfigError(f"expected distinct ids in {path}, got {item.id!r} twice; rename one")
        seen.add(item.id)
    return items


def _lines(path: Path) -> list[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            return [(number, line) for number, line in enumerate(file, start=1) if line.strip()]
    except OSError as error:
        raise ConfigError(f"expected a readable file, got {str(path)!r} ({error.strerror}); check the path") from error
