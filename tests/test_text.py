"""Normalisation, exact match and the leak check."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ssp_env.text import exact_match, leaks, normalize_paper, normalize_unicode


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Lake, Tarn!", "lake tarn"),
        ("U.S.", "us"),
        ("a", "a"),
        ("A.", "a"),
        ("The", "the"),
        ("!!!", "!!!"),
        ("the an", "the an"),
        ("  ", ""),
        ("theatre", "theatre"),
    ],
)
def test_paper_form_is_squad_but_never_empties_a_text(text: str, normal: str) -> None:
    assert normalize_paper(text) == normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1939\u20131945", "1939-1945"),
        ("1939\u22121945", "1939\u20141945"),
        (unicodedata.normalize("NFD", "Beyoncé"), unicodedata.normalize("NFC", "Beyoncé")),
        ("Beyoncé", "Beyonce"),
        ("O\u2019Brien", "O'Brien"),
        ("\uff11\uff19\uff13\uff19", "1939"),
        ("\u0661\u0669\u0663\u0669", "1939"),
        ("Straße", "STRASSE"),
        ("\u201cThe Wall\u201d", "wall"),
        ("Jean\u2011Luc", "jean luc"),
        ("Lake\u200bTarn", "laketarn"),
        ("Malmø Łódź", "Malmo Lodz"),
        ("Ёлка", "елка"),
        ("\u300aWolf\u300b", "Wolf"),
        ("İstanbul", "Istanbul"),
        ("\u22125", "-5"),
        ("\u20131.5 m.", "-1.5 m"),
        ("#1", "1"),
        ("- Tarn", "Tarn"),
        ("1,500", "1500"),
    ],
)
def test_unicode_form_equates_spellings(one: str, other: str) -> None:
    assert normalize_unicode(one) == normalize_unicode(other)
    assert exact_match(one, (other,), normalize_unicode)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("かき", "がき"),
        ("C++", "C"),
        ("C#", "C"),
        ("1.5", "15"),
        ("-5", "5"),
        ("-.5", ".5"),
        ("3.14", "314"),
        ("का", "की"),
        ("!!!", "???"),
        ("A", "The"),
    ],
)
def test_unicode_form_keeps_what_differs(one: str, other: str) -> None:
    assert normalize_unicode(one) != normalize_unicode(other)


@given(st.text(max_size=40))
@example("\u00a8")  # decomposes into a space and a mark
def test_normal_forms_are_empty_only_for_blank_texts(text: str) -> None:
    assert bool(normalize_paper(text)) == bool(text.split())
    fillers = "\u115f\u1160\u3164\uffa0"
    visible = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn") and c not in fillers)
    if visible.split():
        assert normalize_unicode(text)


@pytest.mark.parametrize("normalize", [normalize_paper, normalize_unicode])
@pytest.mark.parametrize(
    ("response", "answers", "match"),
    [
        ("", ("",), False),
        ("   ", ("A",), False),
        ("The", ("A",), False),
        ("!!!", ("The",), False),
        ("A", ("A",), True),
        ("the lake tarn.", ("Tarn Lake", "Lake Tarn"), True),
        ("Lake Tarn or Lake Mere", ("Lake Tarn",), False),
        ("x", (), False),
    ],
)
def test_exact_match(normalize, response: str, answers: tuple[str, ...], match: bool) -> None:
    assert exact_match(response, answers, normalize) is match


def test_one_string_is_refused_as_answers() -> None:
    with pytest.raises(TypeError, match="wrap it in a tuple"):
        exact_match("P", "Paris", normalize_paper)
    with pytest.raises(TypeError, match="wrap it in a tuple"):
        leaks("P", "Paris")


LEAKS = [
    ("who founded paris on the seine?", ("Paris",), True),
    ("Where is Beyoncé's house?", ("Beyonce",), True),
    ("Where is Beyonce from?", ("Beyoncé",), True),
    ("What is the Big Apple known for?", ("New York City", "Big Apple"), True),
    ("What lies in new-york?", ("New York",), True),
    ("Is P.a.r.i.s in France?", ("Paris",), True),
    ("Is Par\u200bis in France?", ("Paris",), True),
    ("Which members did Beatles have?", ("The Beatles",), True),
    ("Which beetles live here?", ("The Beatles",), False),
    ("What did they use?", ("US",), False),
    ("Tell us the state", ("US",), False),
    ("Which U.S. state is it?", ("US",), True),
    ("What is a city, the capital?", ("A",), False),
    ("Is there no answer, yes or no?", ("Yes",), False),
    ("Who sang this?", ("The Who",), False),
    ("When did The Who sing?", ("The Who",), True),
    ("Is it raining?", ("It",), False),
    ("Who wrote the novel It in 1986?", ("It",), True),
    ("Which of the 7 hills?", ("7",), True),
    ("Which of the 17 hills?", ("7",), False),
    ("How many of 1,000 men?", ("1000",), True),
    ("北京是哪个国家的首都", ("北京",), True),
    ("南京是哪个国家的首都", ("北京",), False),
    ("Parisian customs in Europe?", ("Paris",), False),
    ("Which river feeds xLake Tarns?", ("Lake Tarn",), True),
    ("Which song has the words ofabox?", ("A Fab Ox",), False),
    ("Which Dutch city is spelled H-a-g-u-e on maps?", ("The Hague",), True),
    ("Which town is spelled C-o-r-u-n-a on maps?", ("A Coruña",), True),
    ("Who plays at a tar pit?", ("The Art",), False),
    ("Anything at all?", ("", "???"), False),
]


@pytest.mark.parametrize(("question", "answers", "leak"), LEAKS)
def test_normalized_leak(question: str, answers: tuple[str, ...], leak: bool) -> None:
    assert leaks(question, answers) is leak


@pytest.mark.parametrize(
    ("question", "leak"),
    [("In PARIS?", True), ("Parisian?", True), ("In Lutetia?", False), ("Beyoncé?", False)],
)
def test_substring_leak_sees_only_the_first_answer_whatever_the_case(question: str, leak: bool) -> None:
    assert leaks(question, ("Paris", "Lutetia"), "substring") is leak


@given(st.text(max_size=60), st.text(max_size=12))
def test_leak_check_takes_any_text(question: str, answer: str) -> None:
    assert leaks(question, (answer,)) in (True, False)
