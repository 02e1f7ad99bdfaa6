"""Sequential voting with human labels: what they do to weights, order, score and state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.policies.background_fits import Fit
from camvo.policies.estimates import Observation
from camvo.policies.sequential import Sequential
from camvo.replays.replay import replay
from camvo.replays.votes_table import VotesTable
from camvo.state.contribution import revision
from camvo.state.kept_rounds import KeptRound
from camvo.state.state import State
from camvo.votes.numbers import NumericVote
from camvo.weights import vote_weights
from camvo.weights.corrected_vote_fit import fit_corrected_vote

LABELS = ("no", "yes", "maybe", "other")
COSTS = {"best": 6.0, "a": 3.0, "b": 2.0, "c": 1.5, "d": 1.0}
ARMS = tuple(sorted(COSTS))
CONTEXT = np.array([1.0, 0.5])


def table(items=900, seed=0, best=0.98, others=0.5):
    """Five models whose wrong votes crowd on one label; "best", the dearest, is far better than the rest."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=items)
    decoy = (truth + rng.integers(1, 4, size=items)) % 4
    right = np.column_stack([rng.random(items) < (best if arm == "best" else others) for arm in COSTS])
    votes = np.where(right, truth[:, None], decoy[:, None])
    return VotesTable(LABELS, COSTS, rng.normal(size=(items, 2)), votes, truth)


def labelled(items, n):
    return np.arange(items) < n


def share_right(trace, items, after):
    return np.mean(trace.labels[after:] == items.truth[after:])


class Project:
    """A state that has learnt from rounds, each with a human label or without."""

    def __init__(self, policy, items, human):
        self.policy, self.state, self.costs, self.lessons = policy, State(2), items.prices, []
        for row, truth, context, checked in zip(items.votes, items.truth, items.contexts, human, strict=True):
            plan = self.plan(context)
            every = {arm: {"q": LABELS[vote]} for arm, vote in zip(items.prices, row, strict=True)}
            votes = {}
            while wanted := policy.ask(plan, votes):
                votes |= {arm: every[arm] for arm in wanted}
            label = policy.decide(plan, votes)["q"].label
            voted = policy.contribution(plan, "q", votes, label)
            self.state.add(voted)
            if checked:
                taught = policy.contribution(plan, "q", votes, LABELS[truth], human=True)
                self.state.add(revision(voted, taught))
                self.lessons.append((voted, taught))

    def plan(self, context=CONTEXT, fit=None):
        return self.policy.plan({"q": Observation(self.state, context, LABELS, fit=fit)}, self.costs)

    def weights(self):
        plan = self.plan()
        return dict(zip(plan.arms, plan.weights["q"].tolist(), strict=True))


@pytest.fixture(scope="module", autouse=True)
def weights_settled_at_once():
    """Projects are small here; without this, their first 50 rounds would ask all models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vote_weights, "ENOUGH_ROUNDS", 0)
        yield


@pytest.fixture(scope="module")
def items():
    return table()


@pytest.fixture(scope="module")
def taught(items):
    return Project(Sequential(), table(items=120), labelled(120, 60))


@pytest.fixture(scope="module")
def aided(items):
    """What happens where humans label the first hundred items."""
    return replay(Sequential(), items, window=16, human=labelled(900, 100))


def test_human_labels_find_the_model_that_is_far_better(items, aided):
    plain = replay(Sequential(), items, window=16)
    assert share_right(plain, items, 100) < 0.8
    assert share_right(aided, items, 100) > 0.95


def test_a_model_that_outweighs_the_others_is_asked_first_though_it_is_the_dearest(taught):
    assert taught.plan().stages.order[0] == "best"


def test_a_model_that_decides_alone_spares_the_others(items, aided):
    assert aided.costs[300:].mean() < 0.6 * items.full_cost


def test_certificates_hold_with_the_weights_that_humans_taught(taught):
    policy, plan = Sequential(agreement=1.0), taught.plan()
    fresh = table(items=300, seed=1)
    for row in fresh.votes:
        every = {arm: {"q": LABELS[vote]} for arm, vote in zip(fresh.prices, row, strict=True)}
        votes = {}
        while wanted := policy.ask(plan, votes):
            votes |= {arm: every[arm] for arm in wanted}
        if plan.stages.questions["q"].rule.certain:
            assert policy.decide(plan, votes)["q"].label == policy.decide(plan, every)["q"].label


def test_labels_that_are_withdrawn_leave_the_weights_of_agreement(items):
    project = Project(Sequential(), table(items=60), labelled(60, 30))
    before = project.plan().stages.questions["q"].vote_weights.agreed
    assert project.weights() != before
    for voted, human in project.lessons:
        project.state.add(revision(human, voted))
    assert project.state.kept_rounds.rounds == []
    assert project.weights() == before


def test_the_score_is_what_human_labels_give_to_the_label(taught):
    plan = taught.plan()
    votes = {arm: {"q": "yes" if arm == "best" else "no"} for arm in ARMS}
    decision = taught.policy.decide(plan, votes)["q"]
    origin = plan.stages.questions["q"].vote_weights
    chances = origin.corrected.probabilities({arm: votes[arm]["q"] for arm in ARMS}, origin.agreed, LABELS)
    assert (decision.label, decision.trust) == ("yes", origin.corrected.trust / 2.0)
    assert decision.posterior == chances
    assert decision.score == chances["yes"] > 0.5


def test_the_score_does_not_hang_on_a_copy_that_has_no_vote(items):
    copied = VotesTable(
        LABELS,
        COSTS | {"copy": 1.2},
        items.contexts[:150],
        np.column_stack((items.votes, items.votes[:, 4]))[:150],
        items.truth[:150],
    )
    project = Project(Sequential(agreement=1.0), copied, ~labelled(150, 120))
    plan = project.plan()
    assert plan.weights["q"][plan.arms.index("copy")] == 0.0
    votes = {arm: {"q": "yes"} for arm in ARMS}
    alone = project.policy.decide(plan, votes)["q"]
    assert project.policy.decide(plan, votes | {"copy": {"q": "no"}})["q"] == alone
    assert project.policy.decide(plan, {"copy": {"q": "no"}})["q"].trust == 0.0


def test_labels_on_models_that_have_left_say_nothing(items):
    project = Project(Sequential(), table(items=30), labelled(30, 15))
    left = {"new": 1.0, "other": 2.0}
    plan = project.policy.plan({"q": Observation(project.state, CONTEXT, LABELS)}, left)
    assert plan.stages.questions["q"].vote_weights.corrected is None


def test_a_round_is_kept_once_a_human_has_labelled_it_with_the_votes_there_are(taught):
    plan = next(
        plan
        for plan in (taught.plan(np.array([1.0, number])) for number in range(50))
        if len(plan.stages.first) < len(ARMS)
    )
    votes = {arm: {"q": "no"} for arm in plan.stages.first}
    assert taught.policy.contribution(plan, "q", votes, "no").kept is None
    kept_round = taught.policy.contribution(plan, "q", votes, "yes", human=True).kept
    assert {vote.arm for vote in kept_round.votes} == set(plan.stages.first)
    assert (kept_round.label, kept_round.everyone) == ("yes", False)


def test_there_is_nothing_to_fit_before_the_first_human_label():
    project = Project(Sequential(), table(items=40), labelled(40, 0))
    observation = Observation(project.state, CONTEXT, LABELS)
    assert project.policy.fit_data(observation, COSTS) is None


def test_there_is_nothing_to_fit_about_a_question_whose_answers_are_no_labels(taught):
    observation = Observation(taught.state, CONTEXT, (), NumericVote(0.0, 1.0))
    assert taught.policy.fit_data(observation, COSTS) is None


def test_a_plan_takes_the_fit_that_its_observation_brings(taught):
    corrected = fit_corrected_vote(taught.state.kept_rounds.rounds[:50], LABELS)
    assert taught.plan(fit=Fit(corrected)).stages.questions["q"].vote_weights.corrected is corrected
    fresh = taught.policy.fit_data(Observation(taught.state, CONTEXT, LABELS), COSTS).compute()
    assert taught.plan().stages.questions["q"].vote_weights.corrected == fresh.corrected


def rounds_with(rights, seed=0):
    """Rounds with a human label, each with this number of right arms among the five."""
    rng = np.random.default_rng(seed)
    for right in rights:
        truth, wrong = rng.permutation(4)[:2]
        among = set(rng.permutation(5)[:right].tolist())
        said = {arm: LABELS[truth if at in among else wrong] for at, arm in enumerate(ARMS)}
        yield KeptRound.of(said, dict.fromkeys(ARMS, 1.5), LABELS[truth], everyone=False)


@settings(max_examples=25)
@given(st.lists(st.sampled_from([3, 4, 5, 5, 5]), min_size=1, max_size=30), st.integers(0, 999))
def test_a_few_labels_on_easy_rounds_let_nobody_decide_alone(rights, seed):
    vote = fit_corrected_vote([*rounds_with(rights, seed)], LABELS)
    weights = sorted(vote.scale * 1.5 + vote.arms.get(arm, 0.0) for arm in ARMS)
    assert weights[0] > 0.0
    assert weights[-1] < sum(weights[:-1])
