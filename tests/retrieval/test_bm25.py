from __future__ import annotations

import math
import os
import random
import unicodedata

import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus
from ssp_env.retrieval.bm25 import MAX_QUERY_TERMS, Bm25Retriever, Bm25Settings
from ssp_env.types import Passage
from tests.retrieval_fakes import small_corpus


def found(corpus: Corpus, query: str, k: int = 20, *, language: str = "english") -> list[str]:
    (results,) = Bm25Retriever(corpus, Bm25Settings(language=language)).search([query], k)
    return [result.passage.id for result in results]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("cafe muller", "p-cafe"),
        ("CAFÉ MÜLLER", "p-cafe"),
        (unicodedata.normalize("NFD", "Müller"), "p-cafe"),
        ("ＭＵＬＬＥＲ", "p-cafe"),
        ("towers of iron lattices", "p-eiffel"),
        ("flowing into channels", "p-seine"),
        ("東京", "p-tokyo"),
        ("電波塔", "p-tokyo"),
        ("москва", "p-moscow"),
        ('"newcomers" (film): 2000', "p-movie"),
    ],
)
def test_case_accents_inflection_and_scripts_do_not_hide_a_passage(query: str, first: str) -> None:
    assert found(small_corpus(), query)[0] == first


def test_stop_words_alone_find_nothing() -> None:
    assert found(small_corpus(), "the of and is in") == []


def test_a_passage_about_a_thing_ranks_above_one_that_mentions_it() -> None:
    about = Passage("z-about", "Vienna", "A city on the Danube with many parks and old houses.")
    mention = Passage("a-mention", "Danube", "A river on which Vienna lies, with many parks.")
    assert found(MemoryCorpus([mention, about]), "Vienna") == ["z-about", "a-mention"]


def test_scores_are_those_of_the_bm25_formula() -> None:
    """Lengths stay below 40 words, up to which the engine keeps them exactly."""
    rng = random.Random(0)
    words = [f"w{n}" for n in range(30)]
    bags = [[rng.choice(words) for _ in range(rng.randint(3, 30))] for _ in range(200)]
    corpus = MemoryCorpus(Passage(str(n), "", " ".join(bag)) for n, bag in enumerate(bags))
    average = sum(map(len, bags)) / len(bags)

    def score(bag: list[str], query: list[str]) -> float:
        total = 0.0
        for word in query:
            n = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
            count = bag.count(word)
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(bag) / average))
        return total

    query = ["w3", "w7", "w11", "w29"]
    (results,) = Bm25Retriever(corpus).search([" ".join(query)], 200)
    assert len(results) == sum(not set(query).isdisjoint(bag) for bag in bags)
    for result in results:
        assert result.score == pytest.approx(score(bags[int(result.passage.id)], query), abs=2e-4)


def test_repeated_words_count_once_and_long_queries_are_cut() -> None:
    retriever = Bm25Retriever(small_corpus())
    assert retriever.search(["paris paris seine"], 9) == retriever.search(["paris seine"], 9)
    filler = " ".join(f"w{n}" for n in range(MAX_QUERY_TERMS))
    assert retriever.search([f"{filler} paris"], 9) == [[]]
    assert retriever.search([f"paris {filler}"], 9) == retriever.search(["paris"], 9)


def test_threads_change_nothing() -> None:
    queries = ["paris river", "lighthouse", "", "cafe"] * 10
    single = Bm25Retriever(small_corpus()).search(queries, 5)
    assert Bm25Retriever(small_corpus(), Bm25Settings(n_threads=4)).search(queries, 5) == single


def test_another_language_has_its_own_stemmer_and_an_unknown_one_is_refused() -> None:
    corpus = MemoryCorpus([Passage("a", "Häuser", "Die alten Häuser der Stadt.")])
    assert found(corpus, "Haus", language="german") == ["a"]
    assert found(corpus, "die der", language="german") == []
    with pytest.raises(ConfigError, match="got 'klingon'"):
        found(corpus, "Haus", language="klingon")


def test_a_forked_process_searches_the_same_index() -> None:
    retriever = Bm25Retriever(small_corpus(), Bm25Settings(n_threads=2))
    expected = retriever.search(["paris", "lighthouse"], 5)
    child = os.fork()
    if child == 0:
        os._exit(retriever.search(["paris", "lighthouse"], 5) != expected)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_passages_of_strange_text_are_indexed() -> None:
    corpus = MemoryCorpus([Passage("a", "\x00", "\u200b😀"), Passage("b", "", "x" * 200_000 + " needle")])
    assert found(corpus, "needle") == ["b"]
