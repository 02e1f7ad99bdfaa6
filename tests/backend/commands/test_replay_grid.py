from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from synthetic_votes import SyntheticModel, draw_votes_table

from backend.commands.replay.inputs import HumanLabels, Shuffle
from backend.commands.replay.runs import (
    _AVERAGED,
    HIGHEST,
    LOWEST,
    MEDIAN,
    ReplayRow,
    ReplayRun,
    ReplaySetting,
    Summary,
)
from backend.commands.replay.study import Experiment
from backend.errors import ReplayError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Majority, Random
from camvo.policies.joint import Joint
from camvo.policies.rivals import Cascade
from camvo.replays.measures import calibration_error
from camvo.replays.replay import Trace, VotesTable, calibrated_scores, replay

MODELS = {"a": SyntheticModel(0.9, 10.0), "b": SyntheticModel(0.8, 2.0), "c": SyntheticModel(0.7, 1.0)}
LABELS = ("no", "yes", "perhaps")
NOBODY = HumanLabels()


@pytest.fixture(scope="module")
def table() -> VotesTable:
    return draw_votes_table(MODELS, items=120, labels=LABELS, seed=1, dimension=4)


def chosen(
    *names: str,
    deltas: Sequence[float] = (0.9,),
    k_mins: Sequence[int] = (1,),
    agreements: Sequence[float] = (0.99,),
) -> list[ReplaySetting]:
    return ReplaySetting.every(names, deltas, k_mins, agreements, {"n0": 3}, models=tuple(MODELS))


def done(table: VotesTable, chosen: Sequence[ReplaySetting], **options: Any) -> list[ReplayRun]:
    """The runs of two shuffles."""
    shuffles = {seed: Shuffle.draw(table.truth, seed, None, HumanLabels("random", 0.2)) for seed in (5, 6)}
    return list(Experiment(table, shuffles, **options).replay(chosen, 1, int))


def timeless(run: ReplayRun) -> dict[str, Any]:
    return {**asdict(run.row), "rounds_per_second": None}


# which policies


def test_delta_and_k_min_multiply_only_what_has_them() -> None:
    found = chosen("camvo", "majority", "ccamvo", deltas=(0.9, 0.8), k_mins=(1, 3))
    points = [(0.9, 1), (0.9, 3), (0.8, 1), (0.8, 3)]
    assert [(one.name, one.delta, one.k_min) for one in found] == [
        *(("camvo", *point) for point in points),
        ("majority", None, None),
        *(("ccamvo", *point) for point in points),
    ]


def test_agreement_multiplies_only_what_has_it() -> None:
    found = chosen("camvo", "joint", deltas=(0.9, 0.8), agreements=(0.99, 0.98))
    assert [(one.name, one.delta, one.k_min, one.agreement) for one in found] == [
        ("camvo", 0.9, 1, None),
        ("camvo", 0.8, 1, None),
        ("joint", None, None, 0.99),
        ("joint", None, None, 0.98),
    ]


def test_nothing_is_replayed_twice() -> None:
    twice = chosen("camvo", "camvo", "joint", deltas=(0.9, 0.9), k_mins=(1, 1), agreements=(0.9, 0.9))
    assert len(twice) == 2


def test_a_policy_has_the_parameters_that_were_given() -> None:
    shared = {"alpha": 0.7, "lambda_r": 5.0, "n0": 2, "confidence": "exact", "estimator": "mle"}
    (one,) = ReplaySetting.every(["camvo"], [0.8], [2], [0.99], shared, models=tuple(MODELS))
    assert one.policy == CaMVo(
        alpha=0.7, lambda_r=5.0, n0=2, confidence="exact", estimator="mle", delta=0.8, k_min=2
    )


@pytest.mark.parametrize(("agreements", "agreement"), [((), None), ((0.95,), 0.95)])
def test_the_joint_policy_has_the_worth_and_the_agreement_that_were_given(
    agreements: tuple[float, ...], agreement: float | None
) -> None:
    shared = {"alpha": 0.7, "lambda_r": 5.0, "estimator": "mle", "worth": 50.0}
    (one,) = ReplaySetting.every(["joint"], [0.8], [2], agreements, shared, models=tuple(MODELS))
    assert one.policy == Joint(alpha=0.7, lambda_r=5.0, estimator="mle", worth=50.0, agreement=agreement)


def test_a_share_and_a_threshold_stand_in_the_name() -> None:
    found = chosen("random:0.3", "random:0.5", "cascade:0.9")
    assert [one.name for one in found] == ["random:0.3", "random:0.5", "cascade:0.9"]
    assert [one.policy for one in found] == [Random(share=0.3), Random(share=0.5), Cascade(threshold=0.9)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "best",
            "--policy best: there is no such policy (known: camvo, ccamvo, joint, baseline,",
        ),
        ("single", "--policy single: there is no such policy"),
        ("camvo:a", "--policy camvo:a: there is no such policy"),
        ("single:d", "--policy single:d: 'd' is not a model of the table (known: a, b, c)"),
        ("subset:a+d", "--policy subset:a+d: 'd' is not a model of the table (known: a, b, c)"),
        ("subset:", "--policy subset:: '' is not a model of the table"),
        ("random", "--policy random: there is no such policy"),
        ("random:few", "--policy random:few: 'few' is not a number (give e.g. random:0.5)"),
        ("random:0", "--policy random:0: share must be in (0, 1]"),
        ("cascade:2", "--policy cascade:2: threshold must be a probability"),
    ],
)
def test_a_policy_that_is_none_is_refused(name: str, said: str) -> None:
    with pytest.raises(ReplayError) as caught:
        chosen(name)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("wrong", [{"deltas": (1.2,)}, {"k_mins": (0,)}])
def test_a_parameter_out_of_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ReplayError, match=r"--policy camvo: .*got"):
        chosen("camvo", **wrong)


def test_an_agreement_that_is_no_share_is_refused() -> None:
    with pytest.raises(ReplayError, match="--policy joint: agreement must be in"):
        chosen("joint", agreements=(1.2,))


def test_more_models_than_can_be_searched_are_refused_for_those_who_search() -> None:
    many = tuple(f"m{number}" for number in range(21))
    assert ReplaySetting.every(["majority"], [0.9], [1], [0.99], {}, models=many)
    with pytest.raises(ReplayError, match="21 models, and at most 20 can be searched"):
        ReplaySetting.every(["camvo"], [0.9], [1], [0.99], {}, models=many)


# what is replayed


def test_the_order_is_a_permutation_that_the_seed_decides() -> None:
    truth = np.zeros(50, dtype=np.int64)
    one, other = (
        Shuffle.draw(truth, 1, None, NOBODY).order,
        Shuffle.draw(truth, 2, None, NOBODY).order,
    )
    assert sorted(one.tolist()) == list(range(50))
    assert (
        one.tolist()
        == Shuffle.draw(truth, 1, None, HumanLabels("random", 0.5)).order.tolist()
        != other.tolist()
    )


def test_a_limit_takes_the_first_of_the_same_order() -> None:
    truth = np.zeros(50, dtype=np.int64)
    everything, few = (
        Shuffle.draw(truth, 1, None, NOBODY).order,
        Shuffle.draw(truth, 1, 7, NOBODY).order,
    )
    assert few.tolist() == everything[:7].tolist()


def test_humans_label_their_share_of_the_items_whose_truth_is_known() -> None:
    truth = np.where(np.arange(100) % 2, 3, -1)
    shuffle = Shuffle.draw(truth, 1, None, HumanLabels("random", 0.1))
    assert shuffle.human is not None
    assert shuffle.human.sum() == 5
    assert (truth[shuffle.order[shuffle.human]] == 3).all()


def test_the_first_items_of_the_order_are_labelled() -> None:
    shuffle = Shuffle.draw(np.zeros(100, dtype=np.int64), 1, None, HumanLabels("first", 0.05))
    assert shuffle.human is not None
    assert np.flatnonzero(shuffle.human).tolist() == [0, 1, 2, 3, 4]


def test_the_lowest_scores_are_left_to_the_review_queue() -> None:
    shuffle = Shuffle.draw(np.zeros(100, dtype=np.int64), 1, None, HumanLabels("lowest", 0.05))
    assert (shuffle.human, shuffle.reviewed) == (None, 0.05)


def test_the_items_in_order_are_as_they_stand() -> None:
    truth = np.zeros(50, dtype=np.int64)
    assert Shuffle.draw(truth, 1, 7, HumanLabels(), in_order=True).order.tolist() == list(range(7))


@pytest.mark.parametrize(
    ("option", "labels"),
    [
        ("0", HumanLabels("random", 0.0)),
        ("0.05", HumanLabels("random", 0.05)),
        ("random:0.05", HumanLabels("random", 0.05)),
        ("first:0.1", HumanLabels("first", 0.1)),
        ("lowest:1", HumanLabels("lowest", 1.0)),
    ],
)
def test_a_share_of_human_labels_may_say_which(option: str, labels: HumanLabels) -> None:
    assert HumanLabels.parse(option) == labels


@pytest.mark.parametrize("option", ["", "many", "1.5", "-0.1", "nan", "last:0.1", "first:", ":0.1"])
def test_human_labels_that_cannot_be_are_refused(option: str) -> None:
    with pytest.raises(ReplayError) as caught:
        HumanLabels.parse(option)
    assert str(caught.value).startswith("--human-labels: ")


def test_a_run_with_a_review_queue_labels_its_share(table: VotesTable) -> None:
    shuffle = Shuffle.draw(table.truth, 1, None, HumanLabels("lowest", 0.25))
    (run,) = Experiment(table, {1: shuffle}, window=8).replay(chosen("majority"), 1, int)
    assert (run.trace.labelled_at > 0).sum() == 30


def test_a_run_is_the_replay_of_the_shuffled_table(table: VotesTable) -> None:
    setting = chosen("camvo")[0]
    run = done(table, [setting], window=4, lambda_l=2.0)[1]
    order = np.random.default_rng([6, 0]).permutation(120)
    human = Shuffle.draw(table.truth, 6, None, HumanLabels("random", 0.2)).human
    items = replace(table, contexts=table.contexts[order], votes=table.votes[order], truth=table.truth[order])
    trace = replay(setting.policy, items, lambda_l=2.0, window=4, human=human)
    assert run.order.tolist() == order.tolist()
    assert np.array_equal(run.trace.labels, trace.labels)
    assert np.array_equal(run.trace.scores, trace.scores)
    assert timeless(run) == {**asdict(ReplayRow.of(setting, 6, items, trace, 1.0)), "rounds_per_second": None}


def test_the_calibrated_error_is_that_of_the_scores_of_the_rescored_trace(table: VotesTable) -> None:
    setting = chosen("majority")[0]
    run = done(table, [setting], calibrate=True)[0]
    shuffle = Shuffle.draw(table.truth, 5, None, HumanLabels("random", 0.2))
    order = shuffle.order
    items = replace(table, contexts=table.contexts[order], votes=table.votes[order], truth=table.truth[order])
    scores = calibrated_scores(replace(run.trace, labelled_at=np.zeros(120, np.int64)), items, shuffle.human)
    assert run.row.calibrated_ece == calibration_error(run.trace.labels, scores, items.truth)
    assert run.row.ece == calibration_error(run.trace.labels, run.trace.scores, items.truth)


def test_several_processes_find_the_same_in_the_same_order_and_their_progress_adds_up(
    table: VotesTable,
) -> None:
    shuffles = {seed: Shuffle.draw(table.truth, seed, 80, HumanLabels("random", 0.2)) for seed in (5, 6)}
    policies = chosen("camvo", "majority", "ccamvo")
    progress: dict[int, list[int]] = {1: [], 2: []}
    alone, together = (
        list(Experiment(table, shuffles).replay(policies, jobs, items.append))
        for jobs, items in progress.items()
    )
    assert [timeless(run) for run in together] == [timeless(run) for run in alone]
    assert all(np.array_equal(a.trace.asked, b.trace.asked) for a, b in zip(alone, together, strict=True))
    assert [sum(items) for items in progress.values()] == [len(policies) * 2 * 80] * 2


# what a row says


def small() -> tuple[VotesTable, Trace]:
    """Four items, the last without a known truth and the third without an answer."""
    votes = np.array([[0, 0], [1, 0], [-1, -1], [1, 1]])
    table = VotesTable(("no", "yes"), {"a": 3.0, "b": 1.0}, np.eye(4), votes, np.array([0, 1, 0, -1]))
    asked = np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=np.bool_)
    scores, costs = np.array([0.9, 0.6, np.nan, 0.8]), np.array([3.0, 1.0, 4.0, 3.0])
    return table, Trace(
        np.array([0, 0, -1, 1]), scores, costs, asked, np.zeros(4), np.zeros(4, np.int64), np.full(4, -1)
    )


def test_a_row_counts_and_divides_what_the_trace_holds() -> None:
    table, trace = small()
    row = ReplayRow.of(ReplaySetting("camvo", 0.6, 1, None, CaMVo()), 7, table, trace, 0.5)
    assert (row.policy, row.delta, row.k_min, row.seed) == ("camvo", 0.6, 1, 7)
    assert row.accuracy == pytest.approx(1 / 3)
    assert row.full_accuracy == pytest.approx(2 / 3)
    assert row.relative_accuracy == pytest.approx(1 / 2)
    assert row.agreement == pytest.approx(2 / 3)
    assert (row.cost, row.cost_share, row.mean_subset) == (2.75, 2.75 / 4.0, 1.25)
    assert row.calls == {"a": 3, "b": 2}
    assert row.rounds_per_second == 8.0
    assert row.per_label["yes"] == {"precision": None, "recall": 0.0, "f1": 0.0, "support": 1}


@pytest.mark.parametrize(("delta", "met"), [(0.4, True), (0.5, True), (0.6, False), (None, None)])
def test_the_target_is_delta_times_the_full_vote(delta: float | None, met: bool | None) -> None:
    assert ReplayRow.of(ReplaySetting("x", delta, 1, None, CaMVo()), 0, *small(), 1.0).target_met is met


def test_without_truth_a_row_has_what_is_left() -> None:
    table, trace = small()
    row = ReplayRow.of(
        ReplaySetting("camvo", 0.5, 1, None, CaMVo()), 0, replace(table, truth=np.full(4, -1)), trace, 1.0
    )
    unknown = {"accuracy", "full_accuracy", "relative_accuracy", "target_met", "ece", "aurc"}
    unknown |= {"agreement_asked", "calibrated_ece", "within_one", "mae", "kappa"}
    assert {name for name, value in asdict(row).items() if value is None} == unknown
    assert row.agreement == 1.0


def test_models_that_are_free_have_no_share_of_the_cost() -> None:
    table, trace = small()
    row = ReplayRow.of(
        ReplaySetting("m", None, None, None, Majority()),
        0,
        replace(table, prices={"a": 0.0, "b": 0.0}),
        trace,
        1,
    )
    assert row.cost_share is None


def test_a_setting_is_told_apart_by_the_agreement_that_was_asked_for() -> None:
    few = draw_votes_table(MODELS, items=20, labels=LABELS, seed=1, dimension=4)
    found = done(few, chosen("joint", agreements=(0.99, 0.5)))
    assert [run.row.agreement_asked for run in found] == [0.99, 0.99, 0.5, 0.5]
    assert [(one.agreement_asked, one.shuffles) for one in Summary.of_rows([run.row for run in found])] == [
        (0.99, 2),
        (0.5, 2),
    ]


def test_a_summary_is_the_mean_over_the_shuffles_of_a_setting(table: VotesTable) -> None:
    found = done(table, chosen("camvo", "majority"))
    camvo, majority = Summary.of_rows([run.row for run in found])
    assert (camvo.policy, camvo.delta, camvo.k_min, camvo.shuffles) == ("camvo", 0.9, 1, 2)
    accuracies = [run.row.accuracy for run in found[:2] if run.row.accuracy is not None]
    assert camvo.means["accuracy"] == pytest.approx(np.mean(accuracies))
    interval = camvo.intervals["accuracy"]
    assert interval is not None
    assert sum(interval) / 2 == pytest.approx(np.mean(accuracies))
    assert (majority.means["target_met"], majority.intervals["target_met"]) == (None, None)
    assert set(camvo.means) == set(camvo.intervals) == set(camvo.quantiles) == set(_AVERAGED)
    assert majority.quantiles["target_met"] is None


def test_the_quantiles_of_a_summary_are_those_of_its_shuffles(table: VotesTable) -> None:
    row = done(table, chosen("majority"))[0].row
    (summary,) = Summary.of_rows([replace(row, seed=seed, cost=float(seed)) for seed in range(11)])
    costs = summary.quantiles["cost"]
    assert costs == pytest.approx([0.0, 1.0, 2.5, 5.0, 7.5, 9.0, 10.0])
    assert (costs[LOWEST], costs[MEDIAN], costs[HIGHEST]) == (0.0, 5.0, 10.0)


# the series


def test_the_series_measures_every_500_rounds_by_themselves() -> None:
    n = 1100
    votes, truth = np.zeros((n, 2), dtype=np.int64), np.where(np.arange(n) < 500, 0, 1)
    table = VotesTable(("no", "yes"), {"a": 3.0, "b": 1.0}, np.ones((n, 1)), votes, truth)
    asked = np.column_stack([np.arange(n) < 1000, np.ones(n, dtype=np.bool_)])
    labels = np.where(np.arange(n) < 750, 0, 1)
    costs = asked @ np.array([3.0, 1.0])
    trace = Trace(labels, np.ones(n), costs, asked, np.zeros(n), np.zeros(n, np.int64), np.full(n, -1))
    measured = ReplayRow.of(chosen("majority")[0], 0, table, trace, 1.0)
    assert measured.series == {
        "rounds": [500, 1000, 1100],
        "accuracy": [1.0, 0.5, 1.0],
        "agreement": [1.0, 0.5, 0.0],
        "cost": [4.0, 4.0, 1.0],
    }


def test_the_series_has_no_accuracy_where_no_truth_is_known() -> None:
    table, trace = small()
    blind = replace(table, truth=np.full(4, -1))
    assert ReplayRow.of(chosen("majority")[0], 0, blind, trace, 1.0).series["accuracy"] == [None]
