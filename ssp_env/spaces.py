"""A text space for natural language: bounded by length only, cheap, and loud where Gymnasium would corrupt it.

``gymnasium.spaces.Text`` tests every character against a charset, so that spaces, accents, CJK or emoji each need a
larger set; a full Unicode charset takes seconds to build. ``FreeText`` accepts every string whose length fits and that
can be encoded as UTF-8. It has no character set, masks or flattened form.
"""

from __future__ import annotations

from multiprocessing.context import BaseContext
from typing import NoReturn

import gymnasium.vector.utils
import numpy as np
from gymnasium.spaces import Space

from ssp_env.errors import SpaceError

_TAGS = ("search", "question", "answer", "think", "information")
_RANGES = (
    (0x20, 0x7E),  # printable ASCII
    (0x20, 0x7E),
    (0x09, 0x0A),  # tab, newline
    (0xC0, 0x17F),  # Latin with accents
    (0x391, 0x3C9),  # Greek
    (0x410, 0x44F),  # Cyrillic
    (0x5D0, 0x5EA),  # Hebrew, right to left
    (0x300, 0x30F),  # combining marks
    (0x200B, 0x200F),  # zero-width characters
    (0x4E00, 0x9FA5),  # CJK
    (0x1F300, 0x1F64F),  # emoji
)
_COMMON_LENGTH = 120
_LONGEST_SAMPLE = 40_000


class FreeText(Space[str]):
    """All strings of ``min_length`` to ``max_length`` characters without lone surrogates."""

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None) -> None:
        """Make the space; both bounds are inclusive and counted in characters.

        Raises:
            ValueError: If the bounds are negative or in the wrong order.
        """
        if not 0 <= min_length <= max_length:
            raise ValueError(f"expected 0 <= min_length <= max_length, got {min_length!r} and {max_length!r}")
        self.min_length = int(min_length)
        self.max_length = int(max_length)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Always False: text has no useful numeric form."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return a random text: words of many scripts, now and then in well-formed tags.

        Most samples are short; one in fifty is up to 40,000 characters long where the bounds allow it.

        Raises:
            ValueError: If a mask or probabilities are given.
        """
        if mask is not None or probability is not None:
            raise ValueError("expected no mask and no probability for free text; leave them out")
        rng = self.np_random
        longest = _LONGEST_SAMPLE if rng.random() < 0.02 else _COMMON_LENGTH
        high = max(self.min_length, min(self.max_length, longest))
        length = int(rng.integers(self.min_length, high + 1))
        text = self._characters(length)
        if rng.random() < 0.5:
            tag = _TAGS[rng.integers(len(_TAGS))]
            marked = f"<{tag}>{text}</{tag}>"
            text = marked if len(marked) <= self.max_length else text
        return text

    def _characters(self, length: int) -> str:
        rng = self.np_random
        text = ""
        while len(text) < length:
            low, high = _RANGES[rng.integers(len(_RANGES))]
            n = min(int(rng.integers(1, 2 + length // 8)), length - len(text))
            text += "".join(map(chr, rng.integers(low, high + 1, size=n)))
        return text

    def contains(self, x: object) -> bool:
        """Return whether ``x`` is a string of fitting length without lone surrogates."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length and is_encodable(x)

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"FreeText({self.max_length}, min_length={self.min_length})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a free text space of the same bounds."""
        return (
            isinstance(other, FreeText) and self.min_length == other.min_length and self.max_length == other.max_length
        )


def is_encodable(text: str) -> bool:
    """Return whether the text has no lone surrogate, so that files, sockets and tokenizers can take it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@gymnasium.vector.utils.create_shared_memory.register(FreeText)
def _refuse_shared_memory(space: FreeText, n: int = 1, ctx: BaseContext | None = None) -> NoReturn:
    raise SpaceError(
        f"expected an asynchronous vector environment without shared memory, got shared_memory=True for {space!r}, "
        "which would return wrong text; pass vector_kwargs={'shared_memory': False}, or call gymnasium.make_vec "
        "without a vectorization_mode"
    )
