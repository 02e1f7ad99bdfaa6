"""The test that unpacks an arm: at most one false alarm in twenty, and quick where packing changes votes."""

from __future__ import annotations

import numpy as np

from camvo.twins import _LEVEL, _MOST_DISAGREEMENT, judge_pack


def test_the_share_that_differed_is_reported() -> None:
    verdict = judge_pack([True] * 30 + [False] * 3)
    assert (verdict.compared, verdict.differed, verdict.unpacked) == (33, 3, False)
    assert verdict.share == 3 / 33
    assert judge_pack([]).share is None


def test_arms_that_differ_as_often_as_allowed_are_hardly_ever_unpacked() -> None:
    rng = np.random.default_rng(0)
    looks = rng.random((400, 400)) >= _MOST_DISAGREEMENT
    assert np.mean([judge_pack(row.tolist()).unpacked for row in looks]) <= _LEVEL + 0.02


def test_arms_that_differ_in_half_of_the_tasks_are_unpacked_soon() -> None:
    rng = np.random.default_rng(1)
    looks = rng.random((200, 60)) >= 0.5
    assert np.mean([judge_pack(row.tolist()).unpacked for row in looks]) > 0.95


def test_an_arm_stays_unpacked() -> None:
    assert judge_pack([False] * 20 + [True] * 2000).unpacked
