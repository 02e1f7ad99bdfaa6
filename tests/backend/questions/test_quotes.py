from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.questions import spans
from backend.questions.spans import _QuotedText

TEXT = "The cat saw the other cat.\nTHE  END of the Straße"
WORDS = st.text(st.sampled_from("abAB ß\n.😀"), min_size=1)


def found(quote: str, before: str = "", text: str = TEXT) -> list[str]:
    return [f"{start}:{text[start:end]}" for start, end in _QuotedText(text).places(quote, before)]


def test_an_exact_quotation_is_found_wherever_it_stands() -> None:
    assert found("cat") == ["4:cat", "22:cat"]


def test_the_words_before_it_tell_which_one_is_meant() -> None:
    assert found("cat", "the other") == ["22:cat"]
    assert found("cat", " THE\n") == ["4:cat"]


def test_words_before_it_that_do_not_stand_there_leave_nothing() -> None:
    assert found("cat", "black") == []


def test_words_before_it_are_not_needed_where_it_stands_only_once() -> None:
    assert found("saw", "black") == ["8:saw"]


def test_letter_case_and_white_space_are_forgiven_where_nothing_is_exact() -> None:
    assert found("the end") == ["27:THE  END"]
    assert found("STRASSE") == ["43:Straße"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("words", ["café", "Café", "tiếng Việt", "각하"])
def test_an_accent_may_be_a_character_of_its_own(words: str, written: str, form: str) -> None:
    text = unicodedata.normalize(form, "the CAFÉ, TIẾNG Việt and 각하!")
    places = _QuotedText(text).places(unicodedata.normalize(written, words))
    [quoted] = [unicodedata.normalize("NFC", text[start:end]) for start, end in places]
    assert quoted.casefold() == words.casefold()


@pytest.mark.parametrize("words", ["cafe", "CAFE", "가", "stras"])
def test_a_part_of_a_character_is_not_found(words: str) -> None:
    assert found(words, text="café, 각, Straße") == []


def test_an_exact_quotation_beats_one_in_another_letter_case() -> None:
    assert found("the") == ["12:the", "39:the"]


def test_a_quotation_inside_a_word_is_found_only_if_no_whole_word_is() -> None:
    assert found("he", text="the other: he") == ["11:he"]
    assert found("he", text="the other") == ["1:he", "6:he"]


def test_blanks_around_a_quotation_are_ignored() -> None:
    assert found("  saw\n") == ["8:saw"]


@pytest.mark.parametrize("quote", ["", " \n", "dog", "The cat sat", "cat saw the another"])
def test_anything_else_is_not_found(quote: str) -> None:
    assert found(quote) == []


@given(WORDS, WORDS, WORDS)
@settings(deadline=None)
def test_what_is_found_reads_like_the_quotation(left: str, quote: str, right: str) -> None:
    text = f"{left}{quote}{right}"
    places = _QuotedText(text).places(quote)
    assert bool(places) == bool(quote.strip())
    assert all(text[start:end] == quote.strip() for start, end in places)


@given(WORDS, WORDS, WORDS)
@settings(deadline=None)
def test_what_is_found_in_another_letter_case_reads_alike(left: str, quote: str, right: str) -> None:
    text = f"{left} {quote.swapcase()} {right}"
    places = _QuotedText(text).places(quote)
    assert bool(places) == bool(quote.strip())
    plain = " ".join(quote.split()).casefold()
    assert all(" ".join(text[start:end].split()).casefold() == plain for start, end in places)


@given(st.lists(st.sampled_from(["a", "A", " ", "\n", "ß", "b"]), max_size=12).map("".join), WORDS, WORDS)
@settings(deadline=None)
def test_the_words_before_it_are_those_that_the_folded_text_ends_with_there(
    text: str, quote: str, before: str
) -> None:
    def folded(part: str) -> str:
        return re.sub(r"\s+", " ", part).casefold()

    everywhere, context = _QuotedText(text).places(quote), folded(before).strip()
    told_apart = [place for place in everywhere if folded(text[: place[0]]).rstrip().endswith(context)]
    expected = told_apart if context and len(everywhere) > 1 else everywhere
    assert _QuotedText(text).places(quote, before) == expected


def test_a_long_quotation_does_not_overlap_itself() -> None:
    assert _QuotedText("a" * 300).places("a" * 101) == [(0, 101), (101, 202)]
    assert _QuotedText("aaa").places("aa") == [(0, 2), (1, 3)]


def test_the_places_that_an_answer_has_compared_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_ALL_PLACES", 5)
    monkeypatch.setattr(spans, "_MOST_PLACES", 2)
    quoted = _QuotedText("a, b, a, b, a, b, a, b")
    assert [start for start, _ in quoted.places("a", "b,")] == [6, 12]
    assert [start for start, _ in quoted.places("b", "a,")] == [3, 9]  # only the first two are left
