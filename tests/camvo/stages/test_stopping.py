from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.stages.stopping import StoppingProblem
from camvo.stages.stopping_rule import is_certain
from camvo.state.vote_patterns import SILENT, UNASKED, canonical

ARMS = 4


def walk(rule, row, weights, stages):
    """How many arms the rule asks in a round whose votes are all known."""
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
    """The smallest cost over all rules: every start, and every move from each prefix in each stage."""
    prefixes = sorted({row[:length] for row in rows for length in range(1, ARMS)})
    best = np.inf
    uncertain = [prefix for prefix in prefixes if not is_certain(prefix, weights)]
    for first in range(1, ARMS + 1):
        for jumps in product(*[range(len(prefix) + 1, ARMS + 1) for prefix in uncertain] * (stages - 2)):
            ends = []
            for row in rows:
                length = first
                for stage in range(stages - 1):
                    if length == ARMS or is_certain(row[:length], weights):
                        break
                    at = uncertain.index(row[:length])
                    length = ARMS if stage == stages - 2 else jumps[stage * len(uncertain) + at]
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
def test_a_certain_rule_is_the_cheapest_one_there_is(rows, weights, costs, stages):
    costs = np.sort(costs) / costs.sum()
    rule = StoppingProblem(rows, weights, costs).certain_rule(stages, 1)
    spent = cost([walk(rule, row, weights, stages) for row in rows], rows, costs)
    assert spent == pytest.approx(cheapest_certain(rows, weights, costs, stages))


@settings(max_examples=40, deadline=None)
@given(rows_of, floats_of, st.integers(1, 4))
def test_a_certain_rule_stops_only_at_certain_labels(rows, weights, stages):
    rule = StoppingProblem(rows, weights, np.full(ARMS, 1 / ARMS)).certain_rule(stages, 2)
    for row in product(range(2), repeat=ARMS):
        end = walk(rule, canonical(row), weights, stages)
        assert end == ARMS or is_certain(canonical(row)[:end], weights)


UNANIMOUS, LATE = (0, 0, 0, 0, 0), (0, 0, 1, 1, 1)
WEIGHTS, COSTS = np.full(5, 1.0), np.array([0.02, 0.03, 0.15, 0.3, 0.5])


@pytest.mark.parametrize(("rounds", "learns"), [(60, False), (150, False), (170, True)])
def test_an_agreement_of_99_percent_takes_161_rounds_without_an_error(rounds, learns):
    rule = StoppingProblem({UNANIMOUS: rounds}, WEIGHTS, COSTS).learned_rule(3, 0.99)
    assert (rule is not None and walk(rule, UNANIMOUS, WEIGHTS, 3) < 3) == learns


def test_a_learned_rule_asks_on_where_stopping_was_often_wrong():
    split = (0, 1, 1, 1, 1)
    rule = StoppingProblem({UNANIMOUS: 900, split: 100}, WEIGHTS, COSTS).learned_rule(3, 0.99)
    assert walk(rule, UNANIMOUS, WEIGHTS, 3) == 2
    assert walk(rule, split, WEIGHTS, 3) > 2


def errors(rule, row, weights):
    """Whether the rule gives another label than all arms."""
    end = walk(rule, row, weights, 3)
    early, final = (np.bincount(row[:upto], weights[:upto]).argmax() for upto in (end, len(row)))
    return early != final


@pytest.mark.parametrize("agreement", [0.9, 0.97, 0.99])
def test_the_errors_of_a_learned_rule_fit_the_budget(agreement):
    rows = {UNANIMOUS: 1800, LATE: 60, (0, 1, 1, 1, 1): 80, (0, 1, 0, 1, 0): 40, (0, 0, 1, 0, 0): 90}
    rule = StoppingProblem(rows, WEIGHTS, COSTS).learned_rule(3, agreement)
    wrong = sum(count * errors(rule, row, WEIGHTS) for row, count in rows.items())
    assert wrong / sum(rows.values()) <= 1.0 - agreement
    assert rule.error <= 1.0 - agreement


def test_many_rare_patterns_do_not_hide_their_errors():
    """15 arms on four labels: every pattern is rare, and seems safe in the rounds that chose the rule."""
    rng, weights, share = np.random.default_rng(0), np.linspace(1.5, 2.5, 15), np.full(15, 1 / 15)

    def drawn(n):
        right = rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, 15)) > -0.8
        return [canonical(row) for row in np.where(right, 0, rng.integers(1, 4, right.shape)).tolist()]

    wrong = []
    for _ in range(4):
        rule = StoppingProblem(Counter(drawn(500)), weights, share).learned_rule(3, 0.97)
        wrong += [] if rule is None else [errors(rule, row, weights) for row in drawn(1500)]
    assert len(wrong) > 1500
    assert np.mean(wrong) <= 0.03


def test_less_agreement_is_never_dearer():
    rows = {UNANIMOUS: 1800, LATE: 60, (0, 1, 1, 1, 1): 80, (0, 1, 0, 1, 0): 40, (0, 0, 1, 0, 0): 90}
    problem = StoppingProblem(rows, WEIGHTS, COSTS)
    spent = [
        cost([walk(problem.learned_rule(3, agreement), row, WEIGHTS, 3) for row in rows], rows, COSTS)
        for agreement in (0.8, 0.9, 0.97, 0.99)
    ]
    assert spent == sorted(spent)


def test_a_round_that_ended_certain_teaches_as_much_as_one_that_asked_all_arms():
    ended = (0, 0, 0, UNASKED, UNASKED)
    whole, early = (
        StoppingProblem({row: 800, LATE: 4}, WEIGHTS, COSTS).learned_rule(3, 0.98)
        for row in (UNANIMOUS, ended)
    )
    assert (whole.first, whole.moves, whole.error) == (early.first, early.moves, early.error)


def test_without_evidence_there_is_no_learned_rule_and_a_certain_rule_starts_as_given():
    problem = StoppingProblem({}, WEIGHTS, COSTS)
    assert problem.learned_rule(3, 0.5) is None
    assert problem.certain_rule(3, 3).first == 3
    assert problem.certain_rule(1, 3).first == 5


def test_silence_is_part_of_a_pattern():
    rule = StoppingProblem({(0, SILENT, 0, 0, SILENT): 50, UNANIMOUS: 50}, WEIGHTS, COSTS).certain_rule(3, 3)
    assert walk(rule, (0, SILENT, 0, 0, 0), WEIGHTS, 3) >= 4
