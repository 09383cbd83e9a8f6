"""What stop strings do to a completion, for agents that work on text.

A stop string ends a completion and stays in its text (``ssp_env.types.Sampling``). Endpoints cut it off instead, so it
has to be put back. Agents that see token ids do their own matching.
"""

from __future__ import annotations

from collections.abc import Sequence


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """Return the text up to and including the first stop string, and whether there was one."""
    ends = [position + len(s) for s in stop if s and (position := text.find(s)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def missing_stop(text: str, stop: Sequence[str]) -> str:
    """Return the closing tag that a server has cut off: that of the tag opened last, or "" when none is open.

    Only stop strings of the form ``</name>`` are considered, and the text must not contain any stop string.
    """
    opened = [(text.rfind("<" + s[2:]), s) for s in stop if s.startswith("</")]
    position, closing = max(opened, default=(-1, ""))
    return closing if position >= 0 else ""
