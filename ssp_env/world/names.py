"""Invented names: 600 pronounceable words that occur in no template and share no stem.

Small worlds name an entity with one word out of the first 300, so that a word-level vocabulary covers every small
world; larger ones combine two or three words. Names are dealt anew in each world, hence facts learned in one world
say nothing about another. Nothing is copied from any list of real names.
"""

from __future__ import annotations

from typing import Final

import numpy as np

_FIRST: Final = (
    "bel dor fen gal har jov kal lum mar nev pol ril sam tor ulm vas wen yar zel bri cas dru fro gwi hol kri lav mos "
    "nor pru"
).split()
_SECOND: Final = "adu eko ima oth uvi ano iru opa ula abo emi ink orz unt awa ebu izo ofa ugo arn".split()

WORDS: Final[tuple[str, ...]] = tuple(_FIRST[k % 30] + _SECOND[(k // 30 + k % 30) % 20] for k in range(600))
N_SINGLE: Final = 300

_POSITION: Final = {word: position for position, word in enumerate(WORDS)}


class Names:
    """A bijection between ``0 .. n - 1`` and distinct lower-case names of one to three words.

    Single-word names are dealt by a random permutation, longer ones by a random affine map modulo ``600 ** n_words``,
    so that a million names need no table.
    """

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        """Deal ``n`` names.

        Raises:
            ValueError: If ``n`` exceeds what three words can name.
        """
        self.n = n
        self.n_words = 1 if n <= N_SINGLE else 2 if n <= len(WORDS) ** 2 // 2 else 3
        self._modulus = N_SINGLE if self.n_words == 1 else len(WORDS) ** self.n_words
        if n > self._modulus:
            raise ValueError(f"expected at most {self._modulus} names, got {n!r}; make the world smaller")
        if self.n_words == 1:
            self._code = [int(c) for c in rng.permutation(N_SINGLE)]
            self._index = {code: index for index, code in enumerate(self._code)}
        else:
            # 600 = 2^3 * 3 * 5^2: 30 k + 7 is coprime to every power of it.
            self._factor = 30 * int(rng.integers(self._modulus // 60, self._modulus // 30)) + 7
            self._shift = int(rng.integers(self._modulus))
            self._inverse = pow(self._factor, -1, self._modulus)

    def name(self, index: int) -> str:
        """Return the name of an index in ``0 .. n - 1``."""
        if self.n_words == 1:
            return WORDS[self._code[index]]
        code, words = (self._factor * index + self._shift) % self._modulus, []
        for _ in range(self.n_words):
            code, digit = divmod(code, len(WORDS))
            words.append(WORDS[digit])
        return " ".join(words)

    def index(self, name: str) -> int | None:
        """Return the index of a lower-case name, or None when this world uses no such name."""
        digits = [_POSITION.get(word, -1) for word in name.split(" ")]
        if len(digits) != self.n_words or min(digits) < 0:
            return None
        if self.n_words == 1:
            index = self._index.get(digits[0], self.n)
        else:
            code = sum(digit * len(WORDS) ** place for place, digit in enumerate(digits))
            index = (code - self._shift) * self._inverse % self._modulus
        return index if index < self.n else None


def display(name: str) -> str:
    """Return a name as it is shown in text: every word with a capital. Numbers stay as they are."""
    return " ".join(word.capitalize() for word in name.split(" "))
