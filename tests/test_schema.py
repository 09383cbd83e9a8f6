"""Plain JSON becomes a checked record, or one clear error: what was expected, what was got, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import pytest

from ssp_env.errors import ConfigError, CorpusError
from ssp_env.schema import (
    Count,
    FilledText,
    Finite,
    Share,
    check,
    choice,
    load,
    named,
    parse,
    plain,
    says,
    suggest,
    within,
)


@dataclass(frozen=True, slots=True)
class Part:
    heading: str
    level: Count


@dataclass(frozen=True, slots=True)
class Settings:
    n: Annotated[int, within(1, 100)] = 1
    rate: Finite = 0.0
    share: Share = 0.0
    on: bool = False
    mode: Literal["strict", "loose"] = "strict"
    names: tuple[str, ...] = ()
    texts: FilledText | Annotated[tuple[FilledText, ...], says("a list of such", min_length=1)] = "x"
    parts: tuple[Part, ...] = ()
    part: Part | None = None
    anything: object = None
    either: str | Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    low: Count = 1
    high: Count = 2

    def __post_init__(self) -> None:
        check(self, what="the limits", error=ValueError)
        if self.low > self.high:
            raise ValueError(f"expected low up to high, got {self.low}; lower it")


def refusal(value: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(Settings, value, what="the run")
    return str(caught.value)


def test_lists_serve_as_tuples_whole_numbers_as_floats_and_any_mapping_as_object() -> None:
    part = {"heading": "h", "level": 2}
    given = {"rate": 1, "names": ["a", "b"], "parts": [part], "part": part, "either": {"k": [1]}}
    assert parse(Settings, given, what="the run") == Settings(
        rate=1.0, names=("a", "b"), parts=(Part("h", 2),), part=Part("h", 2), either={"k": [1]}
    )
    assert type(parse(Settings, {"share": 1}, what="the run").share) is float
    assert parse(Settings, MappingProxyType({"names": ("a",)}), what="the run") == Settings(names=("a",))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"n": True}, "expected a whole number from 1 to 100 for 'n' of the run, got True; correct it"),
        ({"n": 101}, "expected a whole number from 1 to 100 for 'n' of the run, got 101; correct it"),
        ({"n": 2.0}, "expected a whole number from 1 to 100 for 'n' of the run, got 2.0; correct it"),
        ({"n": None}, "expected a whole number from 1 to 100 for 'n' of the run, got None; correct it"),
        ({"rate": True}, "expected a finite number for 'rate' of the run, got True; correct it"),
        ({"rate": float("nan")}, "expected a finite number for 'rate' of the run, got nan; correct it"),
        ({"rate": float("-inf")}, "expected a finite number for 'rate' of the run, got -inf; correct it"),
        ({"share": float("nan")}, "expected a number from 0 to 1 for 'share' of the run, got nan; correct it"),
        ({"share": 1.5}, "expected a number from 0 to 1 for 'share' of the run, got 1.5; correct it"),
        ({"on": 1}, "expected true or false for 'on' of the run, got 1; correct it"),
        ({"mode": "strikt"}, "expected one of ['loose', 'strict'] for 'mode' of the run, got 'strikt'; "
                             "did you mean 'strict'?"),
        ({"mode": "x"}, "expected one of ['loose', 'strict'] for 'mode' of the run, got 'x'; correct it"),
        ({"mode": []}, "expected one of ['loose', 'strict'] for 'mode' of the run, got []; correct it"),
        ({"names": "a"}, "expected a list of strings for 'names' of the run, got 'a'; correct it"),
        ({"names": Path("a")}, "expected a list of strings for 'names' of the run, got PosixPath('a'); pass str(path)"),
        ({"names": ["a", 1]}, "expected a string for 'names[1]' of the run, got 1; correct it"),
        ({"texts": []}, "expected non-empty text or a list of such for 'texts' of the run, got []; correct it"),
        ({"texts": ["a", " "]}, "expected non-empty text for 'texts[1]' of the run, got ' '; correct it"),
        ({"parts": ["a"]}, "expected an object with 'heading', 'level' for 'parts[0]' of the run, got 'a'; correct it"),
        ({"parts": [{"heading": "h", "level": 0}]},
         "expected a whole number of at least 1 for 'parts[0].level' of the run, got 0; correct it"),
        ({"parts": [{"heading": "h"}]},
         "expected a whole number of at least 1 for 'parts[0].level' of the run, got none; add it"),
        ({"part": {"headin": "h"}},
         "expected a setting of 'part' of the run, got 'headin'; did you mean 'heading'?"),
        ({"part": {"level": 1}}, "expected a string for 'part.heading' of the run, got none; add it"),
        ({"either": 3}, "expected a string or an object or None for 'either' of the run, got 3; correct it"),
        ({"nn": 1}, "expected a setting of the run, got 'nn'; did you mean 'n'?"),
        ({3: 1}, "expected a setting of the run, got 3; choose one of ['anything', "),
        ([1], "expected an object with 'n', 'rate', 'share', 'on', ... for the run, got [1]; correct it"),
        ({"n": 10**5000}, "got int with too many digits to show; correct it"),
        ({"anything": float("nan")}, "expected plain JSON, got {'anything': nan}"),
        ({"anything": object}, "pass names, numbers, and paths as str(path)"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_was_expected_got_and_to_be_done(value: object, message: str) -> None:
    assert message in refusal(value)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "", " \n\t"])
def test_text_that_is_blank_or_no_unicode_is_refused(text: str) -> None:
    assert "non-empty text" in refusal({"texts": text})
    assert parse(Settings, {"texts": "a\n\nb "}, what="the run").texts == "a\n\nb "


def test_deep_nesting_is_refused_and_does_not_overflow() -> None:
    value: object = 1
    for _ in range(5000):
        value = [value]
    assert "levels deep" in refusal({"names": value})


def test_all_keys_may_be_demanded_as_of_a_file_that_was_saved() -> None:
    with pytest.raises(ConfigError, match=r"expected all settings of the limits, got none for \['high'\]; add them"):
        parse(Checked, {"low": 1}, what="the limits", all_keys=True)
    assert parse(Checked, {"low": 1, "high": 1}, what="the limits", all_keys=True) == Checked(1, 1)


def test_the_caller_chooses_the_error() -> None:
    with pytest.raises(CorpusError, match=r"f\.jsonl:3: expected a whole number"):
        parse(Settings, {"n": "3"}, what="a row", error=lambda message: CorpusError(f"f.jsonl:3: {message}"))


def test_a_record_made_in_code_is_checked_by_its_hints_and_its_own_rules() -> None:
    with pytest.raises(ValueError, match="at least 1 for 'low' of the limits, got 0; correct it"):
        Checked(low=0)
    with pytest.raises(ValueError, match="at least 1 for 'low' of the limits, got True"):
        Checked(low=True)
    with pytest.raises(ConfigError, match="expected low up to high, got 3"):
        parse(Checked, {"low": 3}, what="the limits")


def test_a_record_becomes_the_json_it_is_made_of() -> None:
    settings = Settings(names=("a",), part=Part("h", 1))
    assert plain(settings)["names"] == ["a"]
    assert parse(Settings, plain(settings), what="the run") == settings


def read(line: bytes) -> Part:
    return load(Part, line, what="a part", error=CorpusError, broken=ConfigError)


def test_a_line_of_json_is_read_and_its_other_keys_are_ignored() -> None:
    for other in (b"NaN", b"1e999", b'"\\ud800"', b"[" * 500 + b"]" * 500, b"{}"):
        assert read(b'{"heading": "\xc3\xa9", "level": 1, "other": %s}' % other) == Part("\u00e9", 1)
    assert read(b'\xef\xbb\xbf{"heading": "h", "level": 1}\r\n') == Part("h", 1)


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (b"", ConfigError, "expected one JSON object in UTF-8, got b''"),
        (b'{"heading": "h", "level": 1', ConfigError, "expected one JSON object"),
        (b'{"heading": "h", "level": 1} {}', ConfigError, "expected one JSON object"),
        (b'{"heading": "h", "level": 1, "other": "\xff"}', ConfigError, "in UTF-8"),
        ('{"heading": "h", "level": 1}'.encode("utf-16"), ConfigError, "in UTF-8"),
        (b"[" * 100_000, ConfigError, "one JSON object"),
        (b"[1]", ConfigError, r"expected a JSON object, got \[1\]; fix it"),
        (b'{"heading": "h", "level": %s}' % (b"9" * 5000), ConfigError, "one JSON object"),
        (b'{"heading": "h"}', CorpusError, "for 'level' of a part, got none; add it"),
        (b'{"heading": "h", "level": true}', CorpusError, "for 'level' of a part, got True"),
        (b'{"heading": null, "level": 1}', CorpusError, "a string for 'heading' of a part, got None"),
    ],
)
def test_a_broken_line_and_a_wrong_value_are_told_apart(line: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(line)


def test_names_come_alone_or_with_settings() -> None:
    known = ("bm25", "dense")
    assert named("bm25", known, what="retriever") == ("bm25", {})
    assert named({"name": "dense", "k": 1}, known, what="retriever") == ("dense", {"k": 1})
    with pytest.raises(ConfigError, match=r"the name of a retriever or {'name': .*, got 3; choose one of \['bm25'"):
        named(3, known, what="retriever")
    with pytest.raises(ConfigError, match="expected a retriever, got 'bm52'; did you mean 'bm25'"):
        named({"name": "bm52"}, known, what="retriever")


def test_an_unknown_name_gets_the_closest_known_one_or_all() -> None:
    assert suggest("stirct", ["strict", "loose"]) == "did you mean 'strict'?"
    assert suggest("zzz", ["strict", "loose"]) == suggest(3, ["strict", "loose"]) == "choose one of ['loose', 'strict']"
    with pytest.raises(ConfigError, match="expected a mode, got None; choose one of"):
        choice(None, ["strict"], what="mode")
