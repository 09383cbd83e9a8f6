"""Questions and answers drawn from a world: every task has exactly one answer and a known depth.

A k-hop task chains k facts out of k different passages. Which end of a fact is asked for, and which facts, is drawn
uniformly over the kinds of fact, so that rare shapes appear as often as common ones. Answers never appear in their
question.

A game over a world offers tasks and answers that are drawn when they are first asked for: drawing takes about a
second, and who only solves needs no answers, who only proposes no tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar, overload

import numpy as np

from ssp_env.types import Answer, Task
from ssp_env.world.language import Clause, Comparison, Description, Name, Noun, Question, render
from ssp_env.world.names import display
from ssp_env.world.oracle import answer_set, leaves, n_clauses, proofs
from ssp_env.world.relations import ENTITY_SHARES, RELATIONS, VALUES, Sought

if TYPE_CHECKING:
    from ssp_env.world.world import World

KINDS: Final = ("1-hop", "2-hop", "3-hop", "4-hop", "intersection", "comparison")
TASKS_PER_KIND = 30
N_ANSWERS = 200

ItemT = TypeVar("ItemT")

_MAX_MISSES: Final = 5000
"""Draws without a new result after which a world counts as exhausted."""
_MAX_REPEATS: Final = 100
"""Answers that were drawn before, one after the other, after which one of them is taken."""

_STEPS: Final[dict[str, tuple[tuple[str, Sought, str], ...]]] = {
    kind: tuple((r.name, "object", r.object) for r in RELATIONS if r.subject == kind)
    + tuple((r.name, "subject", r.subject) for r in RELATIONS if r.object == kind)
    for kind in (*ENTITY_SHARES, *VALUES)
}
"""Per type what can be asked about a thing of it: relation, sought end, type of what is found."""

Walk = tuple[str, str, Noun]
"""Where a chain of facts has arrived: type, lower-case name, and the noun that says it."""


def sample_tasks(world: World, kind: str, n: int, rng: np.random.Generator) -> list[Task]:
    """Return ``n`` tasks of one kind, each with exactly one answer; none asks the same in other words.

    Raises:
        ValueError: If the kind is unknown, or the world does not hold that many such questions.
    """
    if kind not in KINDS:
        raise ValueError(f"expected a kind out of {KINDS}, got {kind!r}")
    tasks: dict[Question, Task] = {}
    misses = 0
    while len(tasks) < n and misses < _MAX_MISSES:
        misses += 1
        question = _draw(world, kind, rng)
        if question is None or question in tasks or not (answer := _answer(world, question, kind)):
            continue
        tasks[question] = _task(world, render(question, rng), answer, kind)
        misses = 0
    if len(tasks) < n:
        raise ValueError(f"expected {n} distinct {kind} tasks, found {len(tasks)}; ask for fewer or enlarge the world")
    return list(tasks.values())


def sample_answers(world: World, n: int, rng: np.random.Generator, *, n_searches: Sequence[int] = (2,)) -> list[Answer]:
    """Return ``n`` answers, each with a demanded number of searches (1 .. 4) drawn from ``n_searches``.

    Answers are entities, and for each at least one question exists that needs exactly that many passages. Answers
    repeat only when the world is too small for ``n`` distinct ones.
    """
    if not n_searches or not set(n_searches) <= {1, 2, 3, 4}:
        raise ValueError(f"expected numbers of searches out of 1 .. 4, got {tuple(n_searches)!r}")
    depths = rng.choice(np.array(n_searches), size=n).tolist()
    answers: list[Answer] = []
    used: set[str] = set()
    misses = repeats = 0
    while len(answers) < n and misses < _MAX_MISSES:
        misses += 1
        depth = int(depths[len(answers)])
        question = _draw(world, f"{depth}-hop", rng)
        answer = None if question is None else _answer(world, question, f"{depth}-hop")
        if answer is None or world.index_of(answer) is None:
            continue
        if answer in used and repeats < _MAX_REPEATS:
            repeats += 1
            continue
        misses = repeats = 0
        used.add(answer)
        first, *others = _names(world, answer)
        name = f"w{world.config.seed}-answer-{len(answers)}-{answer.replace(' ', '_')}"
        answers.append(Answer(name, first, tuple(others), depth))
    if len(answers) < n:
        raise ValueError(f"expected {n} answers, found {len(answers)}; enlarge the world")
    return answers


def _draw(world: World, kind: str, rng: np.random.Generator) -> Question | None:
    if kind == "comparison":
        return _comparison(world, rng)
    if kind == "intersection":
        return _intersection(world, rng)
    walk = _walk(world, int(kind[0]), rng)
    return walk[2] if walk is not None and isinstance(walk[2], Description) else None


def _answer(world: World, question: Question, kind: str) -> str | None:
    """Return the one answer if the question is what its kind promises."""
    found = proofs(question, world)
    if len(found) != 1:
        return None
    ((answer, sets),) = found.items()
    n_hops = min(len(proof) for proof in sets)
    if answer in {world.resolve(name) for name in leaves(question)}:
        return None
    if kind.endswith("-hop") and n_hops != n_clauses(question):
        return None
    if kind == "intersection" and isinstance(question, Description) and not _needs_both(world, question):
        return None
    return answer


def _needs_both(world: World, question: Description) -> bool:
    """Return whether neither condition alone has only one answer."""
    return all(len(answer_set(Description(question.type, (clause,)), world)) > 1 for clause in question.clauses)


def _start(world: World, rng: np.random.Generator) -> Walk:
    """Return a leaf: an entity of a random type, by one of its names; one leaf in eight is a number."""
    if rng.integers(8) == 0:
        kind = sorted(VALUES)[int(rng.integers(len(VALUES)))]
        name = VALUES[kind][int(rng.integers(len(VALUES[kind])))]
        return kind, name, Name(name)
    index = int(rng.integers(len(world)))
    names = world.names_of(index)
    return world.type_of(index), names[0], Name(names[int(rng.integers(len(names)))])


def _step(world: World, walk: Walk, rng: np.random.Generator) -> Walk | None:
    """Follow one random kind of fact; None when it leads nowhere or to several things."""
    kind, name, noun = walk
    relation, sought, next_kind = _STEPS[kind][int(rng.integers(len(_STEPS[kind])))]
    found = world.find(relation, sought, name)
    if len(found) != 1:
        return None
    return next_kind, found[0], Description(next_kind, (Clause(relation, sought, noun),))


def _walk(world: World, n_steps: int, rng: np.random.Generator) -> Walk | None:
    walk: Walk | None = _start(world, rng)
    for _ in range(n_steps):
        walk = None if walk is None else _step(world, walk, rng)
    return walk


def _intersection(world: World, rng: np.random.Generator) -> Description | None:
    """Draw an answer, then two of its facts as conditions; one of them is made a chain in half of the cases."""
    kind, answer, _ = _start(world, rng)
    if kind in VALUES:
        return None
    clauses: list[Clause] = []
    for pick in rng.permutation(len(_STEPS[kind]))[:2]:
        relation, sought, other_kind = _STEPS[kind][int(pick)]
        others = world.find(relation, sought, answer)
        if not others:
            return None
        noun: Noun = Name(others[0])
        if not clauses and rng.integers(2):
            noun = _describe(world, other_kind, others[0], rng) or noun
        clauses.append(Clause(relation, "subject" if sought == "object" else "object", noun))
    return Description(kind, tuple(clauses))


def _describe(world: World, kind: str, name: str, rng: np.random.Generator) -> Description | None:
    """Return a description by one fact that fits only this thing, or None when the drawn one fits others."""
    relation, sought, _ = _STEPS[kind][int(rng.integers(len(_STEPS[kind])))]
    others = world.find(relation, sought, name)
    if not others:
        return None
    clause = Clause(relation, "subject" if sought == "object" else "object", Name(others[0]))
    description = Description(kind, (clause,))
    return description if answer_set(description, world) == (name,) else None


def _comparison(world: World, rng: np.random.Generator) -> Comparison | None:
    """Draw two things of one type and describe each by a fact of its own."""
    numeric = [relation for relation in RELATIONS if relation.comparatives]
    relation = numeric[int(rng.integers(len(numeric)))]
    kind = relation.subject
    candidates = [walk for walk in (_walk(world, 1, rng) for _ in range(40)) if walk is not None and walk[0] == kind]
    if len(candidates) < 2:
        return None
    return Comparison(relation.name, bool(rng.integers(2)), candidates[0][2], candidates[1][2])


def _task(world: World, question: str, answer: str, kind: str) -> Task:
    digest = blake2b(question.encode(), digest_size=6).hexdigest()
    return Task(f"w{world.config.seed}-{kind}-{digest}", question, _names(world, answer), kind)


def _names(world: World, answer: str) -> tuple[str, ...]:
    """Return all names of an answer as they are shown."""
    index = world.index_of(answer)
    return tuple(display(name) for name in ((answer,) if index is None else world.names_of(index)))


class Drawn(Sequence[ItemT]):
    """A sequence whose items come from one call of ``draw``, made at the first look at them."""

    def __init__(self, draw: Callable[[], Sequence[ItemT]]) -> None:
        """Keep how to draw; ``draw`` must give the same items whenever it is called, and be picklable."""
        self._draw = draw

    @cached_property
    def _items(self) -> tuple[ItemT, ...]:
        return tuple(self._draw())

    @overload
    def __getitem__(self, index: int) -> ItemT: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ItemT, ...]: ...

    def __getitem__(self, index: int | slice) -> ItemT | tuple[ItemT, ...]:
        """Return one item, or a tuple of some."""
        return self._items[index]

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)


def world_tasks(world: World) -> Sequence[Task]:
    """Return 30 tasks of each kind, the same for every world of these settings."""
    return Drawn(partial(_tasks, world))


def world_answers(world: World) -> Sequence[Answer]:
    """Return 200 answers that demand one to three searches, the same for every world of these settings."""
    return Drawn(partial(_answers, world))


def _tasks(world: World) -> list[Task]:
    rng = np.random.default_rng([world.config.seed, 1])
    return [task for kind in KINDS for task in sample_tasks(world, kind, TASKS_PER_KIND, rng)]


def _answers(world: World) -> list[Answer]:
    return sample_answers(world, N_ANSWERS, np.random.default_rng([world.config.seed, 2]), n_searches=(1, 2, 3))
