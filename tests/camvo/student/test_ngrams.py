from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from camvo.student.ngrams import FEATURES, LONGEST, hashed_ngrams, numbers_in


@given(st.text())
def test_features_are_different_numbers_in_order(text: str) -> None:
    numbers = numbers_in(hashed_ngrams(text)).tolist()
    assert numbers == sorted(set(numbers))
    assert all(0 <= number < FEATURES for number in numbers)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_every_feature_of_a_part_between_blanks_is_one_of_the_whole(one: str, other: str) -> None:
    if len(one) + len(other) < LONGEST // 4:  # a character may become three in lower case
        whole = set(numbers_in(hashed_ngrams(f"{one} {other}")).tolist())
        assert set(numbers_in(hashed_ngrams(one)).tolist()) - whole == set() or not one.strip()


def test_they_are_the_same_on_every_machine() -> None:
    assert numbers_in(hashed_ngrams("Oui.")).tolist() == SAME


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert hashed_ngrams("soup " * LONGEST) == hashed_ngrams("soup " * LONGEST + "cold")


def test_a_kilobyte_holds_the_features_of_a_short_text() -> None:
    assert len(hashed_ngrams("The waiter brought the soup, and it was cold again. " * 4)) < 1024


SAME = [
    144,
    1351,
    5375,
    7476,
    8198,
    9622,
    11053,
    11555,
    14459,
    18972,
    20957,
    21252,
    24080,
    24124,
    27652,
    28463,
    32175,
]
