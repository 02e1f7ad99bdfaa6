"""How many more blind labels a certificate is expected to need."""

from __future__ import annotations

import pytest

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import Guarantee, labels_to_certify

HIGH = [(0.99, 500.0)]


def test_that_many_labels_of_the_expected_kind_certify_and_one_fewer_does_not() -> None:
    so_far = [(0.99, 1.0)] * 20
    needed = labels_to_certify(so_far, HIGH, 0.9, most=500)
    assert needed is not None
    for more, certifies in ((needed + 1, True), (needed - 2, False)):  # a little less than all right
        guarantee = Guarantee(target=0.9)
        guarantee.update([*so_far, *[(0.99, 1.0)] * more])
        assert (guarantee.certified() is not None) is certifies


def test_none_is_needed_once_the_labels_certify() -> None:
    assert labels_to_certify([(0.99, 1.0)] * 300, HIGH, 0.97, most=500) == 0


def test_labels_that_are_often_wrong_never_certify() -> None:
    audits = [(0.99, 1.0)] * 30 + [(0.99, 0.0)] * 30
    assert labels_to_certify(audits, HIGH, 0.97, most=100_000) is None


def test_a_higher_target_needs_more() -> None:
    needed = [labels_to_certify([], HIGH, target, most=5000) for target in (0.8, 0.9, 0.95)]
    assert needed[0] < needed[1] < needed[2]  # type: ignore[operator]


def test_a_project_without_labels_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="no label"):
        labels_to_certify([], [], 0.9, most=10)
