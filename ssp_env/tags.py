"""The tag grammar: what counts as an action, and how results are shown.

A model writes ``<think>`` (free, never read), one action block (a tool's tag, ``<question>`` or ``<answer>``), and the
environment replies with ``<information>``. The first block to be *completed* counts, which is also what a sampler sees
that stops at the first closing tag. A model's own ``<information>`` is plain text: evidence comes from the log.
Tags inside passages and questions are neutralised before a model sees them. Source: SSP section 3 and appendix D.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ssp_env.types import Action, Final, Invalid, InvalidReason, SearchResult, ToolCall

FINAL_TAGS = ("question", "answer")
"""The tags that end the episodes of our roles."""
RESERVED_TAGS = ("think", "search", "information", "browse", "python", "memory", *FINAL_TAGS)
"""Tags that are neutralised in every text; those of further tools and roles only in the episodes that use them."""


def _tag_of(names: Collection[str]) -> str:
    return r"\s{0,4}/?\s{0,4}(?:" + "|".join(map(re.escape, names)) + r")\b[^<>]{0,200}"


_MODEL_TAGS = ("s", "bos", "eos", "pad", "unk", "start_of_turn", "end_of_turn")
_SQUARE_TAGS = ("INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS")
_BARRED = r"\|[^<>|]{0,200}\||\uff5c[^<>\uff5c]{0,200}\uff5c"
_MARKUP = re.compile(
    rf"<(?:{_tag_of((*RESERVED_TAGS, *_MODEL_TAGS))}|{_BARRED}|</?SYS>)>|\[/?(?:{'|'.join(_SQUARE_TAGS)})\]",
    re.IGNORECASE,
)
_HARMLESS = {"<": str.maketrans("<>", "‹›"), "[": str.maketrans("[]", "‹›")}


def closing_tags(tools: Collection[str], final: str) -> tuple[str, ...]:
    """Return the stop strings of a role: the closing tag of each tool and of its final block."""
    return tuple(f"</{name}>" for name in (*tools, final))


def first_block(text: str, tags: Collection[str]) -> tuple[str, str, int] | None:
    """Return tag, content and end position of the first completed block, or None.

    Of nested openings the innermost counts. The scan is linear in the length of the text.
    """
    opened: dict[str, int] = {}
    for match in re.finditer(r"<(/?)(" + "|".join(map(re.escape, tags)) + r")>", text):
        slash, tag = match.groups()
        if not slash:
            opened[tag] = match.end()
        elif tag in opened:
            return tag, text[opened[tag] : match.start()], match.end()
    return None


def parse_action(text: str, *, tools: Collection[str], final: str, max_chars: int) -> tuple[Action, int]:
    """Parse one completion into an action and the position where the action ends.

    Args:
        text: The completion.
        tools: Names of the tools that are enabled.
        final: The tag that ends the episode.
        max_chars: Longest completion that is read at all, in characters.
    """
    if len(text) > max_chars:
        return Invalid("too_long"), max_chars
    found = first_block(text, (*tools, final))
    if found is None:
        return Invalid(_why_invalid(text, (*tools, final))), len(text)
    tag, content, end = found
    content = content.strip()
    if tag == final:
        return Final(content), end
    if not content:
        return Invalid("empty_argument"), end
    return ToolCall(tag, content), end


def _why_invalid(text: str, allowed: Collection[str]) -> InvalidReason:
    if any(f"<{tag}>" in text for tag in allowed):
        return "unclosed"
    others = [tag for tag in RESERVED_TAGS if tag not in (*allowed, "think", "information")]
    return "not_allowed" if first_block(text, others) else "no_action"


def neutralise(text: str) -> str:
    """Return the text with role tags and chat markers made harmless: their brackets become ``‹`` and ``›``."""
    return _MARKUP.sub(lambda m: m.group().translate(_HARMLESS[m.group()[0]]), text)


def neutralise_tags(text: str, tags: Collection[str]) -> str:
    """Return the text with these tags, at least one, made harmless in the same way."""
    return re.sub(f"<({_tag_of(tags)})>", r"‹\1›", text, flags=re.IGNORECASE)


def holds_tag(text: str, tags: Collection[str]) -> bool:
    """Return whether the text has one of these tags, also with spaces, attributes or capitals in it."""
    return re.search(f"<{_tag_of(tags)}>", text, flags=re.IGNORECASE) is not None


def strip_tags(text: str) -> str:
    """Return the text without role tags and chat markers, in single spaces; what nests too deep is neutralised."""
    text = " ".join(text.split())
    for _ in range(8):
        stripped = _MARKUP.sub("", text)
        if stripped == text:
            break
        text = stripped
    return " ".join(neutralise(text).split())


def information(text: str) -> str:
    """Wrap what the environment shows in its ``<information>`` block."""
    return f"\n<information>\n{text}\n</information>\n\n"


def neutralise_output(text: str, tags: Collection[str]) -> str:
    """Return what a tool shows with these tags, role tags and chat markers made harmless, all but its own block."""
    block = re.fullmatch(r"(\s*<information>)(.*)(</information>\s*)", text, re.DOTALL)
    start, shown, end = block.groups() if block else ("", text, "")
    return start + neutralise_tags(neutralise(shown), tags) + end


def render_results(results: Sequence[SearchResult], max_chars: int) -> str:
    """Render passages as numbered lines; a text over ``max_chars`` characters is cut and marked ``[...]``."""
    return "\n".join(
        f"Doc {i} (Title: {_shown(r.passage.title, 300)}) {_shown(r.passage.text, max_chars)}"
        for i, r in enumerate(results, start=1)
    )


def _shown(text: str, max_chars: int) -> str:
    text = neutralise(" ".join(text.split()))
    return text if len(text) <= max_chars else text[:max_chars] + " [...]"


def explain_invalid(action: Invalid, *, tools: Collection[str], final: str) -> str:
    """Tell a model what was wrong with its completion and what it may write."""
    said = {
        "no_action": "no action was found",
        "unclosed": "the action was not closed",
        "empty_argument": "the action was empty",
        "not_allowed": "this action is not allowed here",
        "too_long": "the reply was too long",
    }[action.reason]
    options = [f"<{name}> ... </{name}>" for name in (*tools, final)]
    return information(f"Invalid: {said}. Write {' or '.join(options)}.")
