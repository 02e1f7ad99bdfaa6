from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from camvo.student import _FEATURES, _LONGEST, TaughtText, _numbers_in, hashed_ngrams


@given(st.text())
def test_features_are_different_numbers_in_order(text: str) -> None:
    numbers = _numbers_in(hashed_ngrams(text)).tolist()
    assert numbers == sorted(set(numbers))
    assert all(0 <= number < _FEATURES for number in numbers)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_every_feature_of_a_part_between_blanks_is_one_of_the_whole(one: str, other: str) -> None:
    if len(one) + len(other) < _LONGEST // 4:  # a character may become three in lower case
        whole = set(_numbers_in(hashed_ngrams(f"{one} {other}")).tolist())
        assert set(_numbers_in(hashed_ngrams(one)).tolist()) - whole == set() or not one.strip()


def test_they_are_the_same_on_every_machine() -> None:
    assert _numbers_in(hashed_ngrams("Oui.")).tolist() == SAME


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert hashed_ngrams("soup " * _LONGEST) == hashed_ngrams("soup " * _LONGEST + "cold")


@given(st.text())
def test_features_come_back_from_json(text: str) -> None:
    taught = TaughtText(hashed_ngrams(text), "soup")
    assert TaughtText.from_list(taught.to_list()) == taught


def test_no_features_are_none_in_both_forms() -> None:
    assert TaughtText.from_list(TaughtText(b"", "soup").to_list()).ngrams == b""
    assert np.array_equal(_numbers_in(b""), [])


def test_features_take_less_than_half_of_what_plain_numbers_would() -> None:
    ngrams = hashed_ngrams(LONG[:200])
    in_base64 = 2 * len(_numbers_in(ngrams)) * 4 / 3
    as_json, _ = TaughtText(ngrams, "soup").to_list()
    assert len(as_json) < 0.5 * in_base64
    assert len(hashed_ngrams(LONG[:200])) < 512


def test_two_kilobytes_hold_the_features_of_any_long_text_of_words() -> None:
    assert len(hashed_ngrams(LONG)) < 2048


LONG = " ".join(chr(97 + n * n % 26) + chr(97 + n * 7 % 25) + chr(97 + n // 9 % 26) for n in range(300))

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
