"""The texts that teach: added, taken back, stored."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from camvo.student import (
    _MOST_TEXTS,
    StudiedText,
    TaughtText,
    TaughtTexts,
    _is_sealed,
    _numbers_in,
    hashed_ngrams,
    sealed,
)

TEXTS = st.builds(TaughtText, st.sampled_from([b"\x01\x00", b"\x02\x00", b""]), st.sampled_from("xy"))


def taught(*texts: TaughtText) -> TaughtTexts:
    kept = TaughtTexts()
    for text in texts:
        kept.add(text)
    return kept


def text(number: int, label: str = "x") -> TaughtText:
    return TaughtText(number.to_bytes(2, "little"), label)


def test_no_further_text_should_teach_once_the_most_are_there() -> None:
    assert TaughtTexts([text(1)] * _MOST_TEXTS).full
    assert not TaughtTexts([text(1)] * (_MOST_TEXTS - 1)).full


@given(st.lists(TEXTS), st.lists(TEXTS))
def test_taking_texts_back_leaves_the_others(stay: list[TaughtText], go: list[TaughtText]) -> None:
    kept = taught(*stay, *go)
    for each in go:
        kept.remove(each)
    assert sorted(kept.texts) == sorted(stay)
    assert not kept.owed


@given(st.lists(TEXTS))
def test_a_text_removed_before_it_is_added_never_teaches(texts: list[TaughtText]) -> None:
    kept = TaughtTexts()
    for each in texts:
        kept.remove(each)
    for each in texts:
        kept.add(each)
    assert (kept.texts, +kept.owed) == ([], {})


def test_lessons_lag_behind_by_a_fifth_at_most() -> None:
    kept = TaughtTexts()
    for number in range(200):
        kept.add(text(number))
        assert 0.8 * len(kept.texts) <= len(kept.lessons.texts) <= len(kept.texts)


def test_lessons_stay_the_same_object_until_they_are_renewed() -> None:
    kept = taught(*map(text, range(100)))
    before = kept.lessons
    kept.add(text(100))
    assert kept.lessons is before


def test_a_text_that_is_taken_back_is_forgotten_at_once() -> None:
    kept = taught(*map(text, range(100)))
    known = kept.lessons.texts
    kept.remove(text(3))
    assert kept.lessons.texts == tuple(each for each in known if each != text(3))


STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), TEXTS))
"""Each adds a text or takes one back, with its features or with their seal."""


@given(STEPS)
def test_the_seals_alone_decide_which_lessons_are_left(steps: list[tuple[bool, bool, TaughtText]]) -> None:
    known, one, other = TaughtTexts(), TaughtTexts(), TaughtTexts()
    for adds, seals, each in steps:
        for kept, said in ((known, each), (one, each.sealed if seals else each), (other, each.sealed)):
            (kept.add if adds else kept.remove)(said)
    assert [each.sealed for each in known.texts] == [each.sealed for each in one.texts] == other.texts
    assert known.owed == one.owed == other.owed
    assert len(known.lessons.texts) == len(one.lessons.texts)
    for kept in (known, one, other):
        assert list(kept.lessons.texts) == kept.texts[: len(kept.lessons.texts)]


@given(st.lists(st.tuples(st.booleans(), TEXTS)), st.randoms(use_true_random=False))
def test_what_forgets_a_text_equals_what_never_knew_its_features(
    texts: list[tuple[bool, TaughtText]], chance: Random
) -> None:
    gone = [each for goes, each in texts if goes]
    knew = taught(*(each for _, each in texts))
    never = taught(*(each.sealed if goes else each for goes, each in texts))
    chance.shuffle(gone)
    for each in gone:
        knew.remove(each.sealed)
        never.remove(each.sealed)
    assert (knew.texts, knew.lessons.texts) == (never.texts, never.lessons.texts)
    assert sorted(knew.texts) == sorted(each for goes, each in texts if not goes)
    assert not any(_is_sealed(each.ngrams) for each in knew.texts)


def test_a_seal_is_short_and_says_nothing_of_the_features() -> None:
    seal = sealed(SOUP)
    assert (len(seal), sealed(seal), list(_numbers_in(seal))) == (10, seal, [])
    assert not _is_sealed(SOUP)
    assert sealed(hashed_ngrams("The soup was hot")) != seal


def test_texts_read_back_are_the_same() -> None:
    kept = taught(*map(text, range(9)))
    kept.remove(text(50))
    again = TaughtTexts.from_list(json.loads(json.dumps(kept.to_list())))
    assert again == kept
    assert again.lessons.texts == kept.lessons.texts


SOUP = hashed_ngrams("The soup was cold")


def test_a_plan_says_only_what_the_others_voted_for() -> None:
    studied = StudiedText(SOUP, "x")
    assert studied.to_list() == ["x"]
    assert StudiedText.from_list(studied.to_list(), SOUP) == studied
