"""Comparing texts: two normalisations of short answers, exact match, the search for a leaked answer, and titles.

``normalize_paper`` is the SQuAD form that SSP and its peers use (ASCII only); ``normalize_unicode`` also folds
accents, dashes, typographic quotes, full-width digits and letter case of any script. Neither ever empties a text that
has content: a step that would leave nothing is skipped, so that "A", "The" and "!!!" stay different answers.
Not covered: synonyms, number words, units, look-alike letters of different alphabets.

Search-R1 and FlashRAG publish passages as ``{id, contents}``: the title in quotes (inner quotes doubled), a newline,
and the text.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

Normalizer = Callable[[str], str]

_ARTICLES = ("a", "an", "the")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIACRITIC = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_MEANT = re.compile("(^[-\u2013\u2212](?=[.]?[0-9])|(?<=[0-9])[.](?=[0-9])|(?<=[a-z])#)")
"""Punctuation that makes another answer: a minus, a decimal point, and the sharp of a name."""
_LETTERS = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"}
)
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_LEAST_GLUED = 6
"""Letters from which on an answer of several words is also looked for inside of longer words."""
_FILLERS = "\u115f\u1160"  # letters by category, yet invisible; U+3164 and U+FFA0 become the second
_UNTRACEABLE = frozenset((*_ARTICLES, "yes", "no", "true", "false"))
_COMMON_WORDS = frozenset(("who", "what", "which", "it", "them", "they", "her", "him", "this", "that", "one", "all"))


def normalize_paper(text: str) -> str:
    """Return the SQuAD form: lower case, no ASCII punctuation, no English articles, single spaces."""
    text = _spaced(text.lower())
    text = _spaced(text.translate(_ASCII_PUNCTUATION)) or text
    return _spaced(_ARTICLE.sub(" ", text)) or text


def normalize_unicode(text: str) -> str:
    """Return the Unicode form: compatibility forms, case, accents and digits folded, punctuation and articles gone.

    Dashes and slashes of any kind separate words; all other punctuation is deleted, as are invisible characters. What
    stays is a minus before a text that is a number, a point between digits, and "#" after a letter ("C#").
    Accents are folded only where they are separate marks of the European kind: Indic, Thai and kana signs stay.
    """
    text = _spaced(fold_marks(text).casefold()) or _spaced("".join(map(_plain_character, text)))
    parts = _MEANT.split(text)  # every second one is what is meant
    parts[::2] = ["".join(map(_without_punctuation, part)) for part in parts[::2]]
    text = _spaced("".join(parts).replace("\u2013", "-").replace("\u2212", "-")) or text
    return _spaced(_ARTICLE.sub(" ", text)) or text


def fold_marks(text: str) -> str:
    """Return the text with compatibility forms, accents and decimal digits folded and invisible characters gone."""
    text = unicodedata.normalize("NFKD", text).translate(_LETTERS)
    text = unicodedata.normalize("NFKC", _DIACRITIC.sub("", text))
    return "".join(map(_plain_character, text))


def _plain_character(char: str) -> str:
    if char.isascii():
        return char
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return "" if unicodedata.category(char) == "Cf" or char in _FILLERS else char


def _without_punctuation(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Pd" or char in "/\\\u2212":
        return " "
    return "" if category.startswith("P") or category == "Sk" else char


def _spaced(text: str) -> str:
    return " ".join(text.split())


def exact_match(response: str, answers: Sequence[str], normalize: Normalizer) -> bool:
    """Return whether the response equals one of the answers after normalisation; an empty response never does.

    Raises:
        TypeError: If ``answers`` is one string, whose characters would be taken for the answers.
    """
    if isinstance(answers, str):
        raise TypeError(f"expected a sequence of answers, got the string {answers!r}; wrap it in a tuple")
    said = normalize(response)
    return bool(said) and any(said == normalize(answer) for answer in answers)


def leaks(question: str, answers: Sequence[str], mode: Literal["substring", "normalized"] = "normalized") -> bool:
    """Return whether the question gives an answer away.

    ``substring`` is the released SSP code: the first answer occurs in the question, whatever the case. ``normalized``
    looks for every answer as a run of whole words, with case, accents, punctuation, hyphenation and articles folded
    ("Beyoncé's" leaks "Beyonce", "new-york" leaks "New York", "used" does not leak "US").

    Three kinds of answer would reject honest questions and are treated apart: yes, no, true, false and bare articles
    never leak; answers of one or two letters and common words ("US", "It") must occur in their own case; "The Who"
    must occur with its article. Scripts without spaces between words, and answers of several words, are searched for
    as substrings with all spaces left out ("xLake Tarns" leaks "Lake Tarn").

    Raises:
        TypeError: If ``answers`` is one string.
    """
    if isinstance(answers, str):
        raise TypeError(f"expected a sequence of answers, got the string {answers!r}; wrap it in a tuple")
    if mode == "substring":
        return any(answer.strip() and answer.strip().lower() in question.lower() for answer in answers[:1])
    words = _words(question)
    return any(_occurs(_words(answer), words) for answer in answers)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", fold_marks(text))


def _occurs(answer: list[str], question: list[str]) -> bool:
    folded = [word.casefold() for word in answer]
    if not answer or (len(folded) == 1 and folded[0] in _UNTRACEABLE):
        return False
    asked = [word.casefold() for word in question]
    content = [word for word in folded if word not in _ARTICLES]
    name = "".join(content or folded)
    spoken = [word for word in asked if word not in _ARTICLES]
    if _NO_SPACES.search(name) or (len(content) > 1 and len(name) >= _LEAST_GLUED):
        return name in "".join(spoken) or name in "".join(asked)
    if name in _COMMON_WORDS or (len(name) <= 2 and name.isalpha()):
        return _is_run(answer[0], question) if len(answer) == 1 else _is_run("".join(folded), asked)
    return _is_run(name, spoken) or _is_run(name, asked) or _is_run("".join(folded), asked)


def _is_run(name: str, words: Sequence[str]) -> bool:
    """Whether some consecutive words, written together, are the name."""
    for start in range(len(words)):
        run = ""
        for word in words[start:]:
            run += word
            if len(run) >= len(name):
                break
        if run == name:
            return True
    return False


def title_key(title: str) -> str:
    """Return what two spellings of one title share: case, width, underscores and spacing do not count."""
    return " ".join(unicodedata.normalize("NFKC", title).casefold().replace("_", " ").split())


def join_contents(title: str, text: str) -> str:
    r"""Return the field ``contents``; line breaks in a title become spaces, for the first one ends it.

    >>> join_contents('The "A" Team', "A series.")
    '"The ""A"" Team"\nA series.'
    """
    quoted = " ".join(title.split("\n")).replace('"', '""')
    return f'"{quoted}"\n{text}'


def split_contents(contents: str) -> tuple[str, str]:
    """Return title and text; contents of a single line are text without a title."""
    first, newline, rest = contents.partition("\n")
    if not newline:
        return "", contents
    if len(first) >= 2 and first[0] == first[-1] == '"':
        first = first[1:-1].replace('""', '"')
    return first, rest
