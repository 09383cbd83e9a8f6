"""Batches: what is asked of several parts, each of which is asked once for all that concerns it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from ssp_env.protocols import Judge
from ssp_env.types import JudgeCase, Verdict

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_groups(
    items: Sequence[ItemT], key: Callable[[ItemT], Hashable], ask: Callable[[list[ItemT]], Sequence[ResultT]]
) -> list[ResultT]:
    """Return one result per item, in order: ``ask`` is called once per key, in order of first sight.

    Keys of parts are their ``id``: two parts that are equal may still be two services.
    """
    groups: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    if len(groups) == 1:  # the case of every single environment, whose steps are counted in microseconds
        return list(ask(list(items)))
    results: dict[int, ResultT] = {}
    for members in groups.values():
        results.update(zip(members, ask([items[i] for i in members]), strict=True))
    return [results[i] for i in range(len(items))]


def judge_all(cases: Sequence[tuple[Judge, JudgeCase]]) -> list[Verdict]:
    """Return the verdict of its judge on each case, in order."""
    return in_groups(cases, lambda case: id(case[0]), lambda group: group[0][0].judge([case for _, case in group]))
