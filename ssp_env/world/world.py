"""The generated encyclopedia: a seeded world of entities and facts, one passage per entity.

Needs nothing from outside, and no language model can know it, so that closed-book guessing is worthless. Everything
is drawn from one PCG64 generator as 64-bit integers: a seed gives the same bytes on every platform. Sizes reach from
200 to 1,000,000 passages; large worlds are written as a stream and never held as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ssp_env.schema import Natural, Share, check, within
from ssp_env.storage import replacing
from ssp_env.types import Answer, Passage, Task
from ssp_env.world.names import Names, display
from ssp_env.world.oracle import Oracle
from ssp_env.world.relations import ALIASES, BY_SUBJECT, ENTITY_SHARES, INTROS, RELATION, RELATIONS, VALUES, Sought
from ssp_env.world.sampling import sample_answers, sample_tasks

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WorldConfig:
    """What defines a world.

    ``one_to_one`` is the share of facts whose object no other subject of the relation shares (as far as there are
    enough objects); the rest are drawn freely, so that ambiguous questions exist. ``aliases`` is the share of entities
    with a second name.
    """

    seed: Natural = 0
    n_entities: Annotated[int, within(100, 10_000_000)] = 200
    one_to_one: Share = 0.8
    aliases: Share = 0.1

    def __post_init__(self) -> None:
        """Check the ranges; raises ``ValueError`` if a value is out of range."""
        check(self, what="the world", error=ValueError)


class World:
    """Entities ``0 .. n - 1``, the facts between them, and their passages. Serves as a ``FactBase``."""

    def __init__(self, config: WorldConfig | None = None) -> None:
        """Draw a world; about 2 s per million entities."""
        self.config = config or WorldConfig()
        rng = np.random.Generator(np.random.PCG64(self.config.seed))
        n = self.config.n_entities
        self._counts = _counts(n)
        ends = np.cumsum(list(self._counts.values())).tolist()
        self._start = dict(zip(self._counts, [0, *ends[:-1]], strict=True))
        self._objects = {r.name: self._draw(r.subject, r.object, rng) for r in RELATIONS}
        self._seat_capitals(rng)
        self._style = rng.integers(0, 2**62, size=n, dtype=np.int64)
        self._with_alias = np.flatnonzero(rng.integers(0, 1_000_000, size=n) < self.config.aliases * 1_000_000)
        self._names = Names(n + len(self._with_alias), rng)

    def _draw(self, subject: str, object_: str, rng: np.random.Generator) -> Ints:
        """Return the object's index within its type for every subject of the type; nothing is its own object."""
        n = self._counts[subject]
        n_objects = len(VALUES[object_]) if object_ in VALUES else self._counts[object_]
        turns = [rng.permutation(n_objects) for _ in range(-(-n // n_objects))]
        objects = np.concatenate(turns)[:n].astype(np.int64)
        free = rng.integers(0, 1_000_000, size=n) >= self.config.one_to_one * 1_000_000
        objects[free] = rng.integers(0, n_objects, size=n, dtype=np.int64)[free]
        if subject == object_:
            own = objects == np.arange(n)
            objects[own] = (objects[own] + 1) % n
        return objects

    def _seat_capitals(self, rng: np.random.Generator) -> None:
        """Put every capital into its own country."""
        seats = rng.permutation(self._counts["city"])[: self._counts["country"]].astype(np.int64)
        self._objects["capital"] = seats
        self._objects["lies"][seats] = np.arange(len(seats))

    def __len__(self) -> int:
        """Return the number of entities, which is the number of passages."""
        return self.config.n_entities

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """All passages in order, held in memory; for large worlds iterate over the world instead."""
        return tuple(self)

    @property
    def oracle(self) -> Oracle:
        """Exact truths about questions in this world."""
        return Oracle(self)

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages one by one."""
        return (self.passage(index) for index in range(len(self)))

    def passage(self, index: int) -> Passage:
        """Return the passage of one entity: an introduction, then its facts and alias in an order of its own."""
        kind, name = self.type_of(index), display(self._names.name(index))
        style = int(self._style[index])
        style, intro = divmod(style, len(INTROS))
        local = index - self._start[kind]
        said = [(r.sentences, self._object_name(r.object, int(self._objects[r.name][local]))) for r in BY_SUBJECT[kind]]
        said += [(ALIASES, alias) for alias in self._aliases_of(index)]
        style, order = divmod(style, factorial(len(said)))
        sentences = [INTROS[intro].format(s=name, t=kind)]
        while said:
            order, k = divmod(order, len(said))
            templates, object_ = said.pop(k)
            style, wording = divmod(style, len(templates))
            sentence = templates[wording].format(s=name, o=display(object_))
            sentences.append(sentence[0].upper() + sentence[1:])
        return Passage(f"w{self.config.seed}-{index:07d}", name, ". ".join(sentences) + ".")

    def write_jsonl(self, path: Path) -> None:
        """Write all passages, one JSON object a line (id, title, text); the file appears only when it is whole."""
        with replacing(path) as file:
            for passage in self:
                row = {"id": passage.id, "title": passage.title, "text": passage.text}
                file.write(json.dumps(row).encode() + b"\n")

    def tasks(self, kind: str, n: int, rng: np.random.Generator) -> list[Task]:
        """Return ``n`` different tasks of one of ``sampling.KINDS``, each with exactly one answer."""
        return sample_tasks(self, kind, n, rng)

    def answers(self, n: int, rng: np.random.Generator, *, n_searches: Sequence[int] = (2,)) -> list[Answer]:
        """Return ``n`` seed answers, each with a demanded number of searches (1 .. 4) drawn from ``n_searches``."""
        return sample_answers(self, n, rng, n_searches=n_searches)

    def type_of(self, index: int) -> str:
        """Return the type of an entity."""
        return next(kind for kind in reversed(self._start) if self._start[kind] <= index)

    def names_of(self, index: int) -> tuple[str, ...]:
        """Return the lower-case names of an entity, the main name first."""
        return (self._names.name(index), *self._aliases_of(index))

    def index_of(self, name: str) -> int | None:
        """Return the entity with this lower-case name or alias, or None."""
        index = self._names.index(name)
        return index if index is None or index < len(self) else int(self._with_alias[index - len(self)])

    def resolve(self, name: str) -> str:
        """Return the main name for a lower-case name or alias; an unknown name stays as it is."""
        index = self.index_of(name)
        return name if index is None else self._names.name(index)

    def find(self, relation: str, sought: Sought, name: str) -> tuple[str, ...]:
        """Return all lower-case names at the sought end of a relation whose other end is ``name``, sorted."""
        spec = RELATION[relation]
        local = self._local(spec.subject if sought == "object" else spec.object, name)
        if local is None:
            return ()
        if sought == "object":
            return (self._object_name(spec.object, int(self._objects[relation][local])),)
        order, values = self._inverse[relation]
        low, high = np.searchsorted(values, [local, local + 1]).tolist()
        return tuple(sorted(self._names.name(self._start[spec.subject] + int(s)) for s in order[low:high]))

    @cached_property
    def _inverse(self) -> dict[str, tuple[Ints, Ints]]:
        """Per relation its subjects ordered by object, and the objects in that order."""
        orders = {name: np.argsort(objects, kind="stable") for name, objects in self._objects.items()}
        return {name: (order, self._objects[name][order]) for name, order in orders.items()}

    def _local(self, kind: str, name: str) -> int | None:
        """Return the index of a name within a type, or None when it names nothing of that type."""
        if kind in VALUES:
            return VALUES[kind].index(name) if name in VALUES[kind] else None
        index = self.index_of(name)
        local = -1 if index is None else index - self._start[kind]
        return local if 0 <= local < self._counts[kind] else None

    def _object_name(self, kind: str, local: int) -> str:
        return VALUES[kind][local] if kind in VALUES else self._names.name(self._start[kind] + local)

    def _aliases_of(self, index: int) -> tuple[str, ...]:
        position = int(np.searchsorted(self._with_alias, index))
        if position < len(self._with_alias) and self._with_alias[position] == index:
            return (self._names.name(len(self) + position),)
        return ()


def _counts(n: int) -> dict[str, int]:
    """Return the number of entities of each type; what rounding leaves over becomes people."""
    total = sum(ENTITY_SHARES.values())
    counts = {kind: n * share // total for kind, share in ENTITY_SHARES.items()}
    counts["person"] += n - sum(counts.values())
    return counts
