"""The joint policy where labels are not worth the same."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from made_up_votes import evidence_of
from synthetic_votes import SyntheticModel, draw_votes_table

from camvo.errors import InvalidParameterError
from camvo.joint.joint_fit import JointFit
from camvo.joint.ordered_fit import OrderedFit
from camvo.policies.joint import Joint
from camvo.policies.past_rounds import further_policy
from camvo.policies.policy import Observation
from camvo.replays.replay import Trace, VotesTable, replay
from camvo.stages.stages import QuestionStages
from camvo.state.contribution import LatestRounds
from camvo.state.state import State
from camvo.votes.aggregation import Decision
from camvo.votes.labels import OrderedVote

MODELS = {
    "large": SyntheticModel(0.85, 25.0),
    "medium": SyntheticModel(0.8, 10.0),
    "small": SyntheticModel(0.75, 3.0),
    "tiny": SyntheticModel(0.7, 1.0),
}
COSTS = {name: model.price for name, model in MODELS.items()}
LABELS = {2: ("Fine", "Fraud"), 3: ("Fine", "Fraud", "Spam"), 5: ("Fine", "Fraud", "Spam", "Odd", "Other")}


def drawn(labels: int, items: int = 500, seed: int = 0) -> VotesTable:
    return draw_votes_table(
        MODELS, items=items, labels=LABELS[labels], seed=seed, dimension=2, correlation=0.5
    )


@cache
def of_one_worth(labels: int, items: int, window: int) -> Trace:
    return replay(Joint(worth=10.0), drawn(labels, items), window=window)


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize(
    "equal",
    [{"default": 10.0}, {"Fraud": 10, "default": 10}, dict.fromkeys(LABELS[5], 10.0)],
)
def test_one_worth_for_all_labels_gives_exactly_the_same(labels, equal):
    today = of_one_worth(labels, 64, 16)
    assert not today.asked.all()
    by_label = replay(Joint(worth=equal), drawn(labels, 64), window=16)
    assert (today.asked == by_label.asked).all()
    assert (today.labels == by_label.labels).all()
    assert (today.scores == by_label.scores).all()


def fit(labels: int, losses: tuple[float, ...] = ()) -> JointFit:
    table = drawn(labels)
    evidence = evidence_of(table.votes, tuple(table.prices), table.labels)
    names = tuple(zip(table.labels, losses, strict=True)) if losses else ()
    return JointFit.fit(evidence, LatestRounds(), table.labels, dict.fromkeys(COSTS, 0.0), losses=names)


def answers(fit: JointFit) -> list[str]:
    """The label for all votes that are possible, of arms that may be silent."""
    stages, found = QuestionStages(fit.options, fit, (0.0,) * len(COSTS)), []
    for votes in product((*fit.options, None), repeat=len(COSTS)):
        if any(votes):
            cast = dict(zip(COSTS, votes, strict=True))
            first = next(vote for vote in votes if vote)
            found.append(stages.decision(Decision(first, 0.5, {}), cast, fit.options).label)
    return found


@pytest.mark.parametrize("labels", [2, 3])
def test_a_higher_worth_of_a_label_never_lowers_its_recall_for_the_same_votes(labels):
    before = answers(fit(labels))
    for times in (2.0, 5.0, 50.0):
        after = answers(fit(labels, (1.0, times, *[1.0] * (labels - 2))))
        kept = [there == "Fraud" for here, there in zip(before, after, strict=True) if here == "Fraud"]
        assert all(kept)
        before = after
    assert before.count("Fraud") > answers(fit(labels)).count("Fraud")


@pytest.mark.parametrize("labels", [2, 5])
def test_a_label_that_is_worth_more_is_missed_less(labels):
    table = drawn(labels, 400)
    is_ = table.truth == 1
    today = of_one_worth(labels, 400, 64)
    more = replay(Joint(worth={"Fraud": 100.0, "default": 10.0}), table, window=64)
    assert (more.labels[is_] == 1).mean() > (today.labels[is_] == 1).mean() + 0.03
    assert more.labels.tolist() != today.labels.tolist()


def test_the_score_stays_the_probability_of_the_label():
    found = fit(2, (1.0, 9.0))
    stages = QuestionStages(found.options, found, (0.0,) * len(COSTS))
    cast = {"large": "Fine", "medium": "Fraud"}
    decision = stages.decision(Decision("Fine", 0.5, {}), cast, found.options)
    likely = found.probabilities(cast)
    assert decision.label == "Fraud"
    assert decision.score == pytest.approx(likely["Fraud"])
    assert decision.score < 0.5


def test_where_missing_a_label_loses_more_a_further_vote_adds_more():
    prices = {arm: cost / sum(COSTS.values()) / 10.0 for arm, cost in COSTS.items()}
    ordered = tuple([prices[arm] for arm in sorted(prices)])
    today, more = (
        QuestionStages(found.options, found, ordered).gains({"tiny": "Fine"}, prices)
        for found in (fit(2), fit(2, (1.0, 4.0)))
    )
    assert all(more[arm] > 1.4 * today[arm] for arm in ("large", "medium"))


def test_a_rare_label_is_the_answer_where_missing_it_loses_most():
    table = drawn(2)
    votes = np.where(table.votes == 1, 2, table.votes)  # Fine and Spam are common, Fraud is hardly voted for
    votes[:8, :2] = 1
    arms, labels = tuple(table.prices), LABELS[3]
    cast = dict(zip(arms, ("Fraud", "Fine", "Fine", "Fine"), strict=True))
    found = []
    for losses in ((), (("Fine", 1.0), ("Fraud", 500.0), ("Spam", 1.0))):
        one = JointFit.fit(
            evidence_of(votes, arms, labels), LatestRounds(), labels, dict.fromkeys(COSTS, 0.0), losses=losses
        )
        assert one.labels == ("Fine", "Spam")
        found.append(QuestionStages(one.options, one, (0.0,) * 4).leader(cast, {}))
    assert found == ["Fine", "Fraud"]


def test_an_ordered_label_that_is_worth_more_is_the_answer_more_often():
    scale, rng = ("1", "2", "3", "4", "5"), np.random.default_rng(0)
    truth = rng.integers(5, size=400)
    votes = np.clip(np.rint(truth[:, None] + rng.normal(size=(400, 4))), 0, 4).astype(np.int64)
    evidence = evidence_of(votes, tuple(COSTS), scale)
    vote, losses = OrderedVote(scale, "absolute"), tuple(zip(scale, (1.0, 1.0, 1.0, 1.0, 20.0), strict=True))
    fits = [
        OrderedFit.fit(evidence, LatestRounds(), vote, dict.fromkeys(COSTS, 0.0), each)
        for each in ((), losses)
    ]
    likely = {"1": 0.05, "2": 0.1, "3": 0.5, "4": 0.25, "5": 0.1}
    best = [max(values, key=values.get) for values in (fit.values(likely) for fit in fits)]
    assert best == ["3", "5"]
    assert fits[0].worths(likely) == fits[1].worths(likely)


def test_worth_by_label_counts_in_that_of_all_others():
    policy = Joint(worth={"Fraud": 50, "default": 20})
    assert policy.worth_in_askings({"a": 1.0}) == 20.0
    assert policy.losses(("Fine", "Fraud")) == (("Fine", 1.0), ("Fraud", 2.5))
    assert Joint(worth={"Fraud": 30}).losses(("Fine", "Fraud")) == (("Fine", 1.0), ("Fraud", 3.0))
    assert policy.losses(("Fine", "Spam")) == ()


def test_worth_by_label_in_dollars_is_divided_by_the_price_of_asking_all():
    policy = Joint(worth_usd={"Fraud": 4.0, "default": 1.0})
    assert policy.worth_in_askings({"a": 0.03, "b": 0.07}) == 10.0
    assert policy.losses(("Fine", "Fraud")) == (("Fine", 1.0), ("Fraud", 4.0))


def test_further_votes_weigh_labels_alike_at_another_worth():
    further = further_policy(Joint(worth={"Fraud": 50, "default": 10}))
    assert further is not None
    other = further.policy_for(2.0)
    assert isinstance(other, Joint)
    assert other.worth_of(0.1) == 2.0
    assert other.losses(("Fine", "Fraud")) == (("Fine", 1.0), ("Fraud", 5.0))


def test_fits_of_other_worths_do_not_take_each_others_place():
    observation = Observation(State(2), np.ones(2), LABELS[2])
    kinds = [
        data.kind
        for worth in (15.0, {"Fraud": 30.0}, {"Fraud": 60.0})
        if (data := Joint(worth=worth).fit_data(observation, COSTS)) is not None
    ]
    assert len(set(kinds)) == 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"worth": {"Fraud": 0.0}}, "worth of 'Fraud' must be positive and finite"),
        ({"worth": {"Fraud": float("inf")}}, "worth of 'Fraud' must be positive and finite"),
        ({"worth": {}}, "worth must name labels"),
        ({"worth_usd": {"Fraud": 1.0}}, "worth_usd names no default"),
        ({"worth": {"Fraud": 50}, "agreement": 0.99}, "worth is by label beside agreement"),
    ],
)
def test_what_cannot_be_is_refused(values, said):
    with pytest.raises(InvalidParameterError, match=said):
        Joint(**values)


def test_missing_a_label_with_a_recall_counts_as_many_wrong_labels():
    policy = Joint(recall={"Fraud": 0.95})
    assert dict(policy.losses(("Fine", "Fraud"))) == pytest.approx({"Fine": 1.0, "Fraud": 20.0})
    assert policy.losses(("Fine", "Spam")) == ()


def test_a_worth_of_its_own_comes_before_that_of_the_recall():
    policy = Joint(recall={"Fraud": 0.95}, worth={"Fraud": 30, "default": 15})
    assert policy.losses(("Fine", "Fraud")) == (("Fine", 1.0), ("Fraud", 2.0))


def test_the_scores_of_labels_with_a_recall_are_those_of_the_decision():
    posterior = {"Fine": 0.7, "Fraud": 0.3}
    assert Joint(recall={"Fraud": 0.9, "Spam": 0.9}).likely(posterior) == {"Fraud": 0.3}
    assert Joint().likely(posterior) == {}


@pytest.mark.parametrize(
    ("recall", "said"),
    [
        ({"Fraud": 1.0}, r"recall of 'Fraud' must be in \(0, 1\)"),
        ({"Fraud": 0.0}, r"recall of 'Fraud' must be in \(0, 1\)"),
        ({"default": 0.9}, "recall must name labels"),
        ({}, "recall must name labels"),
        (0.95, "recall must be by label, as {'Fraud': 0.95}"),
    ],
)
def test_a_recall_that_cannot_be_is_refused(recall, said):
    with pytest.raises(InvalidParameterError, match=said):
        Joint(recall=recall)


def test_a_recall_beside_an_agreement_is_refused():
    with pytest.raises(InvalidParameterError, match="recall is by label beside agreement"):
        Joint(recall={"Fraud": 0.9}, agreement=0.99)
