"""Shares from answers, and answers that are unknown."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.shares import answer_shares, label_shares

A, B, BOTH, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()


def test_the_counts_are_those_of_models_and_people():
    sample = [(A, A)] * 57 + [(A, B)] * 3 + [(B, A)] * 6 + [(B, B)] * 234
    (a, b) = answer_shares(["a", "b"], {A: 1000, B: 4000}, sample)
    expected = label_shares(1000, 5000, 60, 300, 57, 6)
    assert (a.predicted, a.share, a.low, a.high) == (0.2, expected.share, expected.low, expected.high)
    assert (a.share + b.share, a.low + b.high) == (pytest.approx(1.0), pytest.approx(1.0))


def test_an_answer_may_hold_several_labels_or_none():
    sample = [(A, A)] * 40 + [(BOTH, BOTH)] * 30 + [(NONE, NONE)] * 30
    a, b = answer_shares(["a", "b"], {A: 400, BOTH: 300, NONE: 300}, sample)
    assert (a.share, b.share) == (pytest.approx(0.7), pytest.approx(0.3))


def test_unknown_answers_widen_the_interval_on_both_sides():
    known = [(A, A)] * 100 + [(B, B)] * 100
    (full, _) = answer_shares(["a", "b"], {A: 1000, B: 1000}, known)
    (less, _) = answer_shares(["a", "b"], {A: 1000, B: 1000}, [*known[:-10], *[(B, None)] * 10])
    assert less.low <= full.low
    assert less.high > full.high


def test_the_interval_holds_for_whatever_an_unknown_answer_may_be():
    draw = np.random.default_rng(3)
    held = 0
    for _ in range(60):
        truth = draw.random(1000) < 0.3
        models = np.where(draw.random(1000) < 0.9, truth, ~truth)
        chosen = draw.choice(1000, 150, replace=False)
        # only tasks with the label are skipped, the worst for an estimate that ignores them
        sample = [
            (A if models[task] else B, None if truth[task] and at < 40 else A if truth[task] else B)
            for at, task in enumerate(chosen)
        ]
        (share, _) = answer_shares(["a", "b"], {A: int(models.sum()), B: int((~models).sum())}, sample)
        held += share.low <= truth.mean() <= share.high
    assert held >= 57


def test_without_a_known_answer_there_are_no_shares():
    assert answer_shares(["a"], {A: 10}, []) == []
    assert answer_shares(["a"], {A: 10}, [(A, None)]) == []
