"""Plain JSON to checked records, and the one voice in which a wrong value is refused.

For example ``parse(Rules, {"n_solve": 3}, what="the rules")`` says "expected a setting of the rules, got 'n_solve'; did
you mean 'n_solves'?". The type hints of a record are its schema: ``parse`` takes a value out of a configuration,
``load`` a line of JSON, ``check`` a record that somebody made in code. Whole numbers serve as floats and lists as
tuples; true and false are never numbers, and no number is NaN or infinite.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, ValuesView
from functools import cache
from os import PathLike
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from ssp_env.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Refuse = Callable[[str], Exception]
"""Makes the error to raise from its message."""

MAX_DEPTH = 32
"""Deepest nesting of settings."""

_PROBLEM = re.compile(r"(?:.*required field `(\w+)`)?.*?(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", NoneType: "None"}


def says(description: str, *, pattern: str | None = None, min_length: int | None = None) -> msgspec.Meta:
    """Describe a type in the words that a message uses, and limit its text or length."""
    return msgspec.Meta(description=description, pattern=pattern, min_length=min_length)


def within(low: float, high: float | None = None) -> msgspec.Meta:
    """Limit a number to ``low .. high``."""
    return msgspec.Meta(ge=low, le=high)


Count = Annotated[int, within(1)]
Natural = Annotated[int, within(0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, within(0, 1)]
Finite = Annotated[float, says("a finite number"), within(-sys.float_info.max, sys.float_info.max)]
Text = Annotated[str, says("text in Unicode", pattern=r"\A[^\ud800-\udfff]*\Z")]
"""A string that can be written as UTF-8: one without lone surrogates."""
FilledText = Annotated[str, says("non-empty text", pattern=r"\A(?=[\s\S]*\S)[^\ud800-\udfff]*\Z")]
"""Such a string that is not blank."""
Named = Annotated[str | Mapping[str, object], says("a name or {'name': ..., setting: ...}")]


def parse(kind: type[T], value: object, *, what: str, error: Refuse = ConfigError, all_keys: bool = False) -> T:
    """Return the record that a mapping describes.

    Args:
        kind: A dataclass or a ``TypedDict``; its hints may hold further ones.
        value: Plain JSON; tuples and other mappings may stand for lists and objects.
        what: What is described, for messages: ``"the rules"``.
        error: Makes the error of a message.
        all_keys: Whether also fields with a default must be given.

    Raises:
        Exception: What ``error`` makes, if a key is unknown or missing, or a value does not fit.
    """
    check_depth(value, error=error)
    if isinstance(value, Mapping):
        _check_keys(kind, value, what, error, all_keys=all_keys)
    record = _convert(kind, value, what, error)
    canonical(value, error=error)
    return record


def load(kind: type[T], data: bytes, *, what: str, error: Refuse, broken: Refuse | None = None) -> T:
    """Return the record that one JSON object describes; other keys are ignored.

    Raises:
        Exception: What ``broken`` makes (default: ``error``) if this is no JSON object in UTF-8, and what ``error``
            makes if a value is missing or does not fit.
    """
    try:
        record: T = _decoder(kind).decode(data.decode())  # type: ignore[arg-type]
        return record
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Slower, and with the whole row at hand for the message; also reads what only the standard library takes.
        return _convert(kind, load_object(data, broken or error), what, error)


def load_object(data: bytes, error: Refuse) -> dict[str, object]:
    """Return one JSON object; raises what ``error`` makes if this is none."""
    try:
        row = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as problem:
        raise error(f"expected one JSON object in UTF-8, got {shown(data[:60])} ({problem}); fix it") from problem
    if not isinstance(row, dict):
        raise error(f"expected a JSON object, got {shown(row)}; fix it")
    return row


def check(record: DataclassInstance, *, what: str, error: Refuse = ConfigError) -> None:
    """Refuse a record whose fields do not fit their hints; for ``__post_init__``."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    _convert(_shape(type(record)), values, what, error)


def check_keys(keys: Collection[object], known: Collection[str], *, what: str, error: Refuse = ConfigError) -> None:
    """Refuse an unknown key, with the closest known one."""
    for key in keys:
        if key not in known:
            raise error(f"expected a setting of {what}, got {key!r}; {suggest(key, known)}")


def choice(value: object, known: Collection[str], *, what: str, error: Refuse = ConfigError) -> str:
    """Return a name that is known; an unknown one is refused with the closest."""
    if not isinstance(value, str) or value not in known:
        raise error(f"expected a {what}, got {shown(value)}; {suggest(value, known)}")
    return value


def named(value: object, known: Collection[str], *, what: str, key: str = "name") -> tuple[str, dict[str, object]]:
    """Return a known name and its settings, for a name or ``{"name": ..., setting: ...}``."""
    spec = {key: value} if isinstance(value, str) else value
    if not isinstance(spec, Mapping) or not isinstance(spec.get(key), str):
        wanted = f"the name of a {what} or {{{key!r}: ..., setting: ...}}"
        raise ConfigError(f"expected {wanted}, got {shown(value)}; choose one of {sorted(known)!r}")
    return choice(spec[key], known, what=what), {str(name): spec[name] for name in spec if name != key}


def canonical(value: object, *, error: Refuse = ConfigError) -> str:
    """Return a value as canonical JSON; raises what ``error`` makes if it is not plain JSON, or nested too deep."""
    check_depth(value, error=error)
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, default=_listed)
    except (TypeError, ValueError) as problem:
        raise error(
            f"expected plain JSON, got {shown(value)} ({problem}); pass names, numbers, and paths as str(path)"
        ) from problem


def plain(record: object) -> dict[str, object]:
    """Return a record as plain JSON: what ``parse`` makes it from."""
    return dict(json.loads(canonical(msgspec.to_builtins(record))))


def check_depth(value: object, *, error: Refuse = ConfigError) -> None:
    """Refuse settings nested so deep that they cannot even be shown."""
    level = [value]
    for _ in range(MAX_DEPTH):
        nested = [part.values() if isinstance(part, Mapping) else part for part in level]
        level = [inner for part in nested if isinstance(part, ValuesView | list | tuple) for inner in part]
    if level:
        raise error(f"expected settings at most {MAX_DEPTH} levels deep, got more; nest fewer")


def suggest(name: object, known: Collection[str]) -> str:
    """Return a remedy for an unknown name: the closest known one, or all of them."""
    return _did_you_mean(name, known) or f"choose one of {sorted(known)!r}"


def shown(value: object) -> str:
    """Return the start of a value's ``repr``, for messages; numbers that Python refuses to write out are described."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"{type(value).__name__} with too many digits to show"


def _did_you_mean(name: object, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else ()
    return f"did you mean {close[0]!r}?" if close else ""


def _listed(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not plain JSON")


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind, include_extras=True)


_decoder = cache(msgspec.json.Decoder)


@cache
def _shape(kind: type) -> type:
    """Return the fields of a dataclass as a type that has no ``__post_init__``."""
    return TypedDict(kind.__name__, _hints(kind))  # type: ignore[operator, no-any-return]


def _check_keys(kind: type, value: Mapping[str, object], what: str, error: Refuse, *, all_keys: bool) -> None:
    """Check the keys of a record and of those inside of it."""
    hints = _hints(kind)
    check_keys(value, hints, what=what, error=error)
    if all_keys and (missing := sorted(set(hints) - set(value))):
        raise error(f"expected all settings of {what}, got none for {missing}; add them")
    for name, inner in value.items():
        for part in _parts(hints[name]):
            if isinstance(part, type) and dataclasses.is_dataclass(part) and isinstance(inner, Mapping):
                _check_keys(part, inner, f"{name!r} of {what}", error, all_keys=all_keys)


def _convert(kind: type[T], value: object, what: str, error: Refuse) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        if isinstance(problem.__cause__, ValueError | TypeError):  # of a __post_init__
            raise error(str(problem.__cause__)) from problem
        raise error(_explain(kind, value, what, str(problem))) from problem


def _explain(hint: object, value: object, what: str, problem: str) -> str:
    """Say in our words what msgspec says in its own: it tells where a value is wrong, the hint there what is right."""
    missing, path = _PROBLEM.fullmatch(problem).groups(default="")  # type: ignore[union-attr]
    for name, index in _STEP.findall(path):
        hint, value = _inner(hint, name), value[name or int(index)]  # type: ignore[index]
    if missing:
        where = f"{path}.{missing}"[1:]
        return f"expected {_describe(_inner(hint, missing))} for {where!r} of {what}, got none; add it"
    place = f"{path[1:]!r} of {what}" if path else what
    options = [option for part in _parts(hint) if get_origin(part) is Literal for option in get_args(part)]
    remedy = _did_you_mean(value, options) or ("pass str(path)" if isinstance(value, PathLike) else "correct it")
    return f"expected {_describe(hint)} for {place}, got {shown(value)}; {remedy}"


def _parts(hint: object) -> Iterator[object]:
    """Yield the alternatives of a hint, without their limits."""
    if get_origin(hint) is Annotated:
        yield from _parts(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint


def _inner(hint: object, name: str) -> object:
    """Return the hint of a field, or without a name that of the entries of a list."""
    for part in _parts(hint):
        if name and isinstance(part, type) and name in _hints(part):
            return _hints(part)[name]
        if not name and get_args(part):
            return get_args(part)[0]
    return object


def _describe(hint: object) -> str:
    """Say what a hint expects: "a whole number from 1 to 100", "a string or a list of strings"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described = next((limit.description for limit in arguments[1:] if limit.description), None)
        return described or _describe(arguments[0]) + "".join(map(_span, arguments[1:]))
    if origin in (Union, UnionType):
        return " or ".join(map(_describe, arguments))
    if origin is Literal:
        return f"one of {sorted(arguments)!r}"
    if origin in (tuple, list, Sequence):
        return f"a list of {re.sub('^an? ', '', _describe(arguments[0]))}s"
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        names = [field.name for field in dataclasses.fields(hint)]
        return f"an object with {', '.join(map(repr, names[:4]))}{', ...' if len(names) > 4 else ''}"
    return _WORDS.get(hint, "an object")  # type: ignore[call-overload, no-any-return]


def _span(limit: msgspec.Meta) -> str:
    if limit.le is not None:
        return f" from {limit.ge} to {limit.le}"
    if limit.gt is not None:
        return f" above {limit.gt}"
    return "" if limit.ge is None else f" of at least {limit.ge}"
