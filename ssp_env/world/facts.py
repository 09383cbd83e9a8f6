"""Facts read back out of passages: the inverse of how a world writes them.

Works on passages of any generated world and on what experts copy out of prompts; other text simply holds no facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Protocol

from ssp_env.types import Passage
from ssp_env.world.names import WORDS
from ssp_env.world.relations import ALIASES, BY_SUBJECT, ENTITY_SHARES, INTROS, Sought


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; names are lower-case."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class PassageFacts:
    """What one passage says: its entity, the entity's type, the facts, and its other names."""

    subject: str
    type: str
    facts: tuple[Fact, ...]
    aliases: tuple[str, ...]


class FactBase(Protocol):
    """Where questions are answered: a whole world, or what some passages say."""

    def resolve(self, name: str) -> str:
        """Return the main name for a lower-case name or alias; an unknown name stays as it is."""
        ...

    def find(self, relation: str, sought: Sought, name: str) -> tuple[str, ...]:
        """Return all lower-case names at the sought end of a relation whose other end is ``name``, sorted."""
        ...


_WORD: Final = f"(?:{'|'.join(WORDS)})"
_NAME: Final = rf"{_WORD}(?: {_WORD}){{0,2}}|\d+"


def _pattern(templates: Iterable[str], types: str = "") -> re.Pattern[str]:
    """Return one pattern for some sentence templates; groups ``s``, ``o`` and ``t`` are numbered by template."""
    slots = {"s": _NAME, "o": _NAME, "t": types}
    parts = [re.sub(r"\{(\w)\}", lambda m, k=k: f"(?P<{m[1]}{k}>{slots[m[1]]})", t) for k, t in enumerate(templates)]  # type: ignore[misc]
    return re.compile("|".join(parts))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], dict[str, list[tuple[str, re.Pattern[str]]]]]:
    """Return the patterns of introductions, of aliases and of the relations by type; compiling them takes a second."""
    sentences = {kind: [(r.name, _pattern(r.sentences)) for r in relations] for kind, relations in BY_SUBJECT.items()}
    return _pattern(INTROS, "|".join(ENTITY_SHARES)), _pattern(ALIASES), sentences


def _group(match: re.Match[str], letter: str) -> str:
    return next((value for key, value in match.groupdict().items() if key[0] == letter and value is not None), "")


@lru_cache(maxsize=8192)
def read_passage(text: str) -> PassageFacts | None:
    """Return what a passage text says, or None when it is no passage of a generated world.

    The entity is the subject of the first sentence; sentences that are not understood are skipped. Case and spacing
    do not matter.
    """
    sentences = [" ".join(part.split()) for part in text.lower().split(".")]
    intro_pattern, alias_pattern, relation_patterns = _patterns()
    intro = intro_pattern.fullmatch(sentences[0])
    if intro is None:
        return None
    subject, kind = _group(intro, "s"), _group(intro, "t")
    facts, aliases = [], []
    for sentence in sentences[1:]:
        if match := alias_pattern.fullmatch(sentence):
            aliases.append(_group(match, "o"))
            continue
        for relation, pattern in relation_patterns[kind]:
            if (match := pattern.fullmatch(sentence)) and _group(match, "s") == subject:
                facts.append(Fact(subject, relation, _group(match, "o")))
                break
    return PassageFacts(subject, kind, tuple(facts), tuple(aliases))


class ShownFacts:
    """The facts that some passages state, as a ``FactBase``."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        """Read the passages; those of no generated world are ignored."""
        self.entities: dict[str, PassageFacts] = {}
        self._alias: dict[str, str] = {}
        self._found: dict[tuple[str, Sought, str], set[str]] = {}
        for passage in passages:
            said = read_passage(passage.text)
            if said is None:
                continue
            self.entities[said.subject] = said
            self._alias.update(dict.fromkeys(said.aliases, said.subject))
            for fact in said.facts:
                self._found.setdefault((fact.relation, "object", fact.subject), set()).add(fact.object)
                self._found.setdefault((fact.relation, "subject", fact.object), set()).add(fact.subject)

    def resolve(self, name: str) -> str:
        """Return the main name when a shown passage gives ``name`` as an alias."""
        return self._alias.get(name, name)

    def find(self, relation: str, sought: Sought, name: str) -> tuple[str, ...]:
        """Return the names at the sought end, sorted."""
        return tuple(sorted(self._found.get((relation, sought, name), ())))
