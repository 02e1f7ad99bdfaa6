from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.stages.rule import is_certain
from camvo.stages.stopping import Stopping
from camvo.state.vote_patterns import SILENT, UNASKED, canonical

ARMS = 4


def walk(rule, row, weights, stages):
    """How many arms a round with all votes known is asked, by the rule alone."""
    length = rule.first
    for stage in range(stages - 1):
        if length == len(row) or is_certain(row[:length], weights):
            return length
        upto = rule.after(stage, row[:length], len(row))
        if upto == length:
            return length
        length = upto
    return length


def cost(ends, rows, costs):
    paid = np.cumsum(costs)
    return sum(count * paid[end - 1] for end, count in zip(ends, rows.values(), strict=True))


def cheapest_certain(rows, weights, costs, stages):
    """By trying every rule: where to begin, and for every prefix and stage where to go on to."""
    prefixes = sorted({row[:length] for row in rows for length in range(1, ARMS)})
    best = np.inf
    open_ = [seen for seen in prefixes if not is_certain(seen, weights)]
    for first in range(1, ARMS + 1):
        for jumps in product(*[range(len(seen) + 1, ARMS + 1) for seen in open_] * (stages - 2)):
            ends = []
            for row in rows:
                length = first
                for stage in range(stages - 1):
                    if length == ARMS or is_certain(row[:length], weights):
                        break
                    at = open_.index(row[:length])
                    length = ARMS if stage == stages - 2 else jumps[stage * len(open_) + at]
                ends.append(length)
            best = min(best, cost(ends, rows, costs))
    return best


rows_of = st.dictionaries(
    st.lists(st.sampled_from(["x", "y"]), min_size=ARMS, max_size=ARMS).map(canonical),
    st.integers(1, 30),
    min_size=1,
)
floats_of = st.lists(st.floats(0.1, 1.0), min_size=ARMS, max_size=ARMS).map(np.array)


@settings(max_examples=40, deadline=None)
@given(rows_of, floats_of, floats_of, st.sampled_from([2, 3]))
def test_a_certain_rule_is_the_cheapest_of_all(rows, weights, costs, stages):
    costs = np.sort(costs) / costs.sum()
    rule = Stopping(rows, weights, costs).certain(stages, 1)
    found = cost([walk(rule, row, weights, stages) for row in rows], rows, costs)
    assert found == pytest.approx(cheapest_certain(rows, weights, costs, stages))


@settings(max_examples=40, deadline=None)
@given(rows_of, floats_of, st.integers(1, 4))
def test_a_certain_rule_names_the_label_of_all(rows, weights, stages):
    rule = Stopping(rows, weights, np.full(ARMS, 1 / ARMS)).certain(stages, 2)
    for row in product(range(2), repeat=ARMS):
        end = walk(rule, canonical(row), weights, stages)
        assert end == ARMS or is_certain(canonical(row)[:end], weights)


UNANIMOUS, LATE = (0, 0, 0, 0, 0), (0, 0, 1, 1, 1)
WEIGHTS, COSTS = np.full(5, 1.0), np.array([0.02, 0.03, 0.15, 0.3, 0.5])


@pytest.mark.parametrize(("rounds", "learns"), [(60, False), (250, False), (320, True)])
def test_99_percent_takes_about_300_rounds_without_an_error(rounds, learns):
    rule = Stopping({UNANIMOUS: rounds}, WEIGHTS, COSTS).learned(3, 0.99)
    assert (rule is not None and walk(rule, UNANIMOUS, WEIGHTS, 3) < 3) == learns


def test_a_learned_rule_asks_on_where_stopping_was_often_wrong():
    split = (0, 1, 1, 1, 1)
    rule = Stopping({UNANIMOUS: 900, split: 100}, WEIGHTS, COSTS).learned(3, 0.99)
    assert walk(rule, UNANIMOUS, WEIGHTS, 3) == 2
    assert walk(rule, split, WEIGHTS, 3) > 2


@pytest.mark.parametrize("agreement", [0.9, 0.97, 0.99])
def test_what_a_learned_rule_gets_wrong_fits_the_budget(agreement):
    rows = {UNANIMOUS: 1800, LATE: 60, (0, 1, 1, 1, 1): 80, (0, 1, 0, 1, 0): 40, (0, 0, 1, 0, 0): 90}
    rule = Stopping(rows, WEIGHTS, COSTS).learned(3, agreement)
    wrong = 0
    for row, count in rows.items():
        end = walk(rule, row, WEIGHTS, 3)
        early, final = (np.bincount(row[:upto], WEIGHTS[:upto]).argmax() for upto in (end, 5))
        wrong += count * (early != final)
    total = sum(rows.values())
    assert wrong / total <= rule.error <= 1.0 - agreement


def test_less_agreement_is_never_dearer():
    rows = {UNANIMOUS: 1800, LATE: 60, (0, 1, 1, 1, 1): 80, (0, 1, 0, 1, 0): 40, (0, 0, 1, 0, 0): 90}
    stopping = Stopping(rows, WEIGHTS, COSTS)
    spent = [
        cost([walk(stopping.learned(3, agreement), row, WEIGHTS, 3) for row in rows], rows, COSTS)
        for agreement in (0.8, 0.9, 0.97, 0.99)
    ]
    assert spent == sorted(spent)


def test_a_round_that_ended_certain_says_as_much_as_one_that_asked_everyone():
    ended = (0, 0, 0, UNASKED, UNASKED)
    whole, early = (
        Stopping({row: 800, LATE: 4}, WEIGHTS, COSTS).learned(3, 0.98) for row in (UNANIMOUS, ended)
    )
    assert (whole.first, whole.moves, whole.error) == (early.first, early.moves, early.error)


def test_without_evidence_nothing_is_learned_and_a_certain_rule_begins_where_it_is_told():
    stopping = Stopping({}, WEIGHTS, COSTS)
    assert stopping.learned(3, 0.5) is None
    assert stopping.certain(3, 3).first == 3
    assert stopping.certain(1, 3).first == 5


def test_silent_models_are_patterns_too():
    rule = Stopping({(0, SILENT, 0, 0, SILENT): 50, UNANIMOUS: 50}, WEIGHTS, COSTS).certain(3, 3)
    assert walk(rule, (0, SILENT, 0, 0, 0), WEIGHTS, 3) >= 4
