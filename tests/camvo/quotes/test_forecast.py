"""Forecasts: what the rest of a project costs, from rounds that asked everyone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.joint.votes import Rows, renumber
from camvo.policies.joint import FIRST, Joint
from camvo.quotes import (
    _WIDEST,
    KEPT_FROM,
    Forecast,
    JointProject,
    KnownVotes,
    _interval,
    documented_share,
    forecast,
)
from camvo.replays.replay import VotesTable, replay
from camvo.state.exploration import UNASKED

ARMS = ("cheap", "dear", "middle")
LABELS = ("a", "b", "c")
PRICES = np.array([1.0, 20.0, 4.0])


def made_up(tasks: int, seed: int, accuracies: tuple[float, ...] = (0.8, 0.95, 0.85)) -> Rows:
    """Votes of arms that err independently; position of the label, shape (tasks, 3)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=(tasks, 1))
    wrong = (truth + rng.integers(1, 3, size=(tasks, 3))) % 3
    return np.where(rng.random((tasks, 3)) < accuracies, truth, wrong)


def known(rounds: int = 200, seed: int = 0, **accuracies: Any) -> KnownVotes:
    return KnownVotes(LABELS, ARMS, PRICES, made_up(rounds, seed, **accuracies))


def quoted(votes: KnownVotes, tasks: int = 600, replays: int = 3) -> Forecast:
    return forecast(votes, tasks, 10.0, np.random.default_rng(1), replays=replays)


def test_the_same_rounds_and_seed_give_the_same_forecast() -> None:
    assert quoted(known()).likely == quoted(known()).likely


def test_the_ends_stand_around_what_is_likely_and_never_exceed_asking_everyone() -> None:
    one = quoted(known())
    assert 0.0 < one.low < one.likely <= one.high <= one.free <= 1.0


def test_the_interval_that_a_run_keeps_to_is_at_most_a_fifth_of_its_middle_to_each_side() -> None:
    low, _, high, _ = _interval(np.array([0.2, 0.5, 0.1]))
    middle = (low + high) / 2.0
    assert high - middle <= 0.2 * middle * (1.0 + 1e-12)


def test_with_few_rounds_no_run_keeps_to_the_forecast_and_its_end_is_the_free_one() -> None:
    few = quoted(known(KEPT_FROM - 1))
    assert few.high == few.free


def test_replays_that_differ_more_give_a_wider_interval() -> None:
    alike, different = _interval(np.array([0.3, 0.31, 0.29])), _interval(np.array([0.2, 0.45, 0.3]))
    assert different[3] / different[0] > alike[3] / alike[0]


def test_models_that_always_agree_cost_little_more_than_the_cheapest_and_give_everyones_labels() -> None:
    same = np.repeat(made_up(200, 0)[:, :1], 3, axis=1)
    one = quoted(KnownVotes(LABELS, ARMS, PRICES, same), tasks=4000)
    assert one.likely < 0.35
    assert one.agreement > 0.97


def test_a_forecast_needs_the_rounds_of_a_first_plan() -> None:
    with pytest.raises(InvalidParameterError):
        quoted(known(FIRST - 1))
    assert quoted(known(FIRST)).likely > 0.0


def test_names_that_are_not_sorted_are_refused() -> None:
    with pytest.raises(InvalidParameterError):
        KnownVotes(LABELS, ("dear", "cheap", "middle"), PRICES, made_up(3, 0))


@pytest.mark.parametrize("silent", [0.0, 0.3])
def test_the_quick_project_costs_what_a_replay_of_the_policy_itself_costs(silent: float) -> None:
    tasks, seed = 1500, 3
    rows = made_up(tasks, seed)
    rows[np.random.default_rng(seed).random(tasks) < silent, 0] = -1
    votes = KnownVotes(LABELS, ARMS, PRICES, rows[:36])
    quick = JointProject(votes, renumber(rows[36:]), 10.0, np.random.default_rng(0), growth=1.2).run()
    table = VotesTable(
        LABELS,
        dict(zip(ARMS, PRICES.tolist(), strict=True)),
        np.random.default_rng(0).normal(size=(tasks, 1)) * 1e-9,
        rows,
        np.full(tasks, -1),
    )
    trace = replay(Joint(), table, window=64)
    itself = trace.costs[36:].mean() / PRICES.sum()
    assert quick.share == pytest.approx(itself, rel=0.1)


def test_a_project_keeps_to_what_it_may_cost() -> None:
    votes, rows = known(), renumber(made_up(1500, 9))
    free = JointProject(votes, rows, 10.0, np.random.default_rng(0)).run().share
    aim = 0.7 * free
    kept = JointProject(votes, rows, 10.0, np.random.default_rng(0), aim=aim * len(rows)).run().share
    assert kept <= aim * 1.02


def test_an_aim_above_the_bill_changes_it_little() -> None:
    votes, rows = known(), renumber(made_up(1500, 9))
    free = JointProject(votes, rows, 10.0, np.random.default_rng(0)).run().share
    kept = (
        JointProject(votes, rows, 10.0, np.random.default_rng(0), aim=free * _WIDEST * len(rows)).run().share
    )
    assert kept == pytest.approx(free, rel=0.05)


def test_votes_that_are_drawn_agree_as_often_as_the_rounds_they_are_drawn_from() -> None:
    votes = known(2000)
    drawn = votes.draw(20_000, 10.0, np.random.default_rng(0))
    agreed = [(rows[:, 0] == rows[:, 1]).mean() for rows in (votes.rows, drawn)]
    assert agreed[1] == pytest.approx(agreed[0], abs=0.04)


@pytest.mark.parametrize("labels", [("a", "b"), LABELS])
def test_a_row_in_which_nobody_who_was_asked_voted_has_no_label(labels: tuple[str, ...]) -> None:
    rows = made_up(200, 0) % len(labels)
    votes = KnownVotes(labels, ARMS, PRICES, rows)
    project = JointProject(votes, votes.canonical, 10.0, np.random.default_rng(0)).run()
    assert project.fit is not None
    further = np.array([[0, 0, 0], [0, -1, 0], [-1, -1, -1]])
    asked = np.array([[True, True, True], [False, True, False], [True, True, True]])
    leaders, _ = project.fit.leaders(np.where(asked, further, UNASKED))
    assert leaders.tolist() == [0, -1, -1]


def test_silent_arms_stay_as_silent() -> None:
    rows = made_up(500, 0)
    rows[::4, 1] = -1
    drawn = KnownVotes(LABELS, ARMS, PRICES, rows).draw(10_000, 10.0, np.random.default_rng(0))
    assert (drawn[:, 1] < 0).mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("agreement", [False, True])
def test_without_rounds_small_projects_ask_everyone_and_large_ones_less(agreement: bool) -> None:
    assert documented_share("joint", 30, [1.0, 2.0], agreement=agreement) == (1.0, 1.0)
    low, high = documented_share("joint", 5000, [1.0, 2.0, 20.0], agreement=agreement)
    assert 0.0 < low < high < 1.0


def test_without_rounds_everyone_is_asked_ever_more_rarely() -> None:
    """After the first F tasks, n of them ask everyone about √(F² + p (n − F)) times, with p from 10 to 36.

    F is 36. With an agreement F is 200, and p 36.
    """
    for tasks, agreement, fewest, most in (
        (72, False, 40.69, 36 * 2**0.5),
        (5000, False, 225.69, 424.26),
        (600, True, 233.24, 233.24),
    ):
        lowest, highest = (0.15, 0.9) if agreement else (0.1, 0.6)
        low, high = documented_share("joint", tasks, [1.0, 1.0, 20.0], agreement=agreement)
        assert low == pytest.approx(fewest / tasks * (1.0 - lowest) + lowest, abs=1e-4)
        assert high == pytest.approx(most / tasks * (1.0 - highest) + highest, abs=1e-4)


def test_without_rounds_two_models_may_cost_as_much_as_everyone() -> None:
    low, high = documented_share("joint", 5000, [1.0, 20.0])
    assert low < 0.2
    assert high == 1.0


def test_without_rounds_a_share_never_exceeds_asking_everyone_nor_falls_with_fewer_tasks() -> None:
    shares = [documented_share("joint", tasks, [1.0, 20.0]) for tasks in range(1, 400)]
    assert all(0.0 < low <= high <= 1.0 for low, high in shares)
    assert shares == sorted(shares, reverse=True)


def test_policies_that_ask_everyone_cost_what_everyone_costs() -> None:
    assert documented_share("majority", 5000, [1.0, 2.0]) == (1.0, 1.0)


def test_the_papers_policy_costs_at_least_its_cheapest_models() -> None:
    assert documented_share("camvo", 5000, [1.0, 1.0, 2.0], 2) == (0.5, 1.0)


def test_with_a_student_the_documented_range_begins_lower_but_not_below_the_rounds_that_ask_everyone() -> (
    None
):
    (low, high), (without, same) = (
        documented_share("joint", 5000, [1.0, 2.0, 20.0], student=on) for on in (True, False)
    )
    assert (low, high) == (0.12, same)
    assert low < without
    assert documented_share("joint", 500, [1.0, 20.0], student=True)[0] > 0.15
    assert documented_share("joint", 30, [1.0, 2.0], student=True) == (1.0, 1.0)


def test_a_range_never_ends_below_its_beginning() -> None:
    low, high = documented_share("joint", 5000, [1.0])
    assert low == high == 1.0
