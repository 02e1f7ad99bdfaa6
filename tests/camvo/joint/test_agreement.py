"""When a plan stops if a share of the labels must equal those of all votes."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import COINS, draw_votes, evidence_of, made_up_kinds, no_rounds

from camvo.joint.agreement import _CONFIDENCE, AgreementStops, _certain_labels, rounds_needed
from camvo.joint.beliefs import form_beliefs
from camvo.joint.joint_fit import JointFit
from camvo.joint.plans import NEVER, plan_by_worth, walk
from camvo.joint.votes_fit import VotesFit
from camvo.numerics.small import upper_bound
from camvo.state.contribution import LatestRounds

MODELS = {2: COINS, 3: made_up_kinds(3, 3), 5: made_up_kinds(4, 5)}
LABELS = {2: ("neg", "pos"), 4: ("neg", "neutral", "other", "pos")}
ACCURACY = np.array([0.93, 0.9, 0.85, 0.8])
SHARES = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}


def fits(labels=4, rounds=600, accuracy=ACCURACY, shares=SHARES, **draw):
    arms = tuple(shares)
    votes, _ = draw_votes(accuracy, labels=labels, items=rounds, **draw)
    evidence = evidence_of(votes, arms, LABELS[labels])
    prices = {arm: share / 10.0 for arm, share in shares.items()}
    joint = JointFit.fit(evidence, LatestRounds(), LABELS[labels], prices)
    return joint, VotesFit.of(evidence, arms, LABELS[labels])


def stops_of(agreement, shares=SHARES, **of_fits):
    return AgreementStops.fit(*fits(shares=shares, **of_fits), shares, agreement)


def cost(joint, stops, shares=SHARES):
    """What a plan costs on average over the votes of other items."""
    plan = plan_by_worth(joint.beliefs, tuple(shares[arm] for arm in joint.shortlist), stops)
    votes, _ = draw_votes(ACCURACY, labels=4, items=2000, seed=7)
    asked, _ = walk(plan, votes)
    return float((asked @ np.array([*shares.values()])).mean())


@pytest.mark.parametrize("labels", MODELS)
def test_a_label_is_certain_if_it_leads_at_every_node_that_may_follow(labels):
    model = MODELS[labels]
    beliefs = form_beliefs(model, no_rounds(len(model.temper)), labels)
    rows, leads = beliefs.lattice.rows, beliefs.right.argmax(axis=1)

    def voters(node):
        """The arms that voted for the most probable label; with two labels, the label itself."""
        return leads[node] if labels == 2 else set(np.flatnonzero(rows[node] == leads[node]))

    for node, row in enumerate(rows):
        voted = row >= 0
        after = [
            other
            for other, further in enumerate(rows)
            if (further[voted] >= 0).all()
            and all(
                (further[one] == further[two]) == (row[one] == row[two])
                for one in np.flatnonzero(voted)
                for two in np.flatnonzero(voted)
            )
            and (labels != 2 or (further[voted] == row[voted]).all())
        ]
        same = all(
            voters(other) == voters(node) if labels == 2 else voters(node) <= voters(other) for other in after
        )
        assert _certain_labels(beliefs)[node] == (voted.any() and same), row


@pytest.mark.parametrize("labels", MODELS)
def test_a_label_is_certain_once_all_arms_but_the_silent_ones_have_voted(labels):
    model = MODELS[labels]
    beliefs = form_beliefs(model, no_rounds(len(model.temper)), labels)
    others = (beliefs.lattice.rows[:, 1:] >= 0).all(axis=1)
    assert _certain_labels(beliefs, (0,))[others].all()
    assert (_certain_labels(beliefs, (0,)) >= _certain_labels(beliefs)).all()


@pytest.mark.parametrize(("agreement", "rounds"), [(0.99, 161), (0.9, 16), (0.999, 1609)])
def test_rounds_needed_are_the_fewest_whose_bound_fits_without_an_error(agreement, rounds):
    assert rounds_needed(agreement) == rounds
    assert (
        upper_bound(0.0, rounds, _CONFIDENCE) <= 1.0 - agreement < upper_bound(0.0, rounds - 1, _CONFIDENCE)
    )


def test_too_few_rounds_bear_no_agreement_out():
    assert stops_of(0.99, rounds=160).error_price is None
    assert stops_of(0.9, rounds=160).error_price is not None


def test_an_agreement_of_1_stops_only_where_labels_are_certain():
    joint, votes = fits()
    stops = AgreementStops.fit(joint, votes, SHARES, 1.0)
    assert (stops.error_price, stops.promised) == (None, None)
    assert ((stops.stopping(joint.beliefs) == 0.0) == _certain_labels(joint.beliefs)).all()
    assert (stops.stopping(joint.beliefs)[~_certain_labels(joint.beliefs)] == NEVER).all()


@pytest.mark.parametrize("agreement", [0.9, 0.95, 0.99])
def test_the_bound_on_the_errors_of_held_out_rounds_fits(agreement):
    stops = stops_of(agreement)
    assert upper_bound(600 * stops.error, 600, _CONFIDENCE) <= 1.0 - agreement
    assert stops.promised == pytest.approx(1.0 - agreement)


def test_a_lower_agreement_costs_less():
    joint, votes = fits()
    costs = [cost(joint, AgreementStops.fit(joint, votes, SHARES, share)) for share in (0.8, 0.95, 0.99, 1.0)]
    assert costs == sorted(costs)
    assert costs[0] < 0.6 * costs[-1]


def test_an_early_label_is_that_of_all_votes_as_often_as_promised_on_other_rounds():
    joint, votes = fits(rounds=1500)
    plan = plan_by_worth(
        joint.beliefs, tuple(SHARES.values()), AgreementStops.fit(joint, votes, SHARES, 0.95)
    )
    rows, _ = draw_votes(ACCURACY, labels=4, items=4000, seed=3)
    asked, _ = walk(plan, rows)

    def label(row):
        said = joint.probabilities(
            {arm: LABELS[4][vote] for arm, vote in zip(SHARES, row.tolist(), strict=True) if vote >= 0}
        )
        return max(said, key=lambda name: said[name])

    unique = {
        tuple(row): label(row) for row in np.unique(np.vstack((rows, np.where(asked, rows, -1))), axis=0)
    }
    early, final = ([unique[tuple(row)] for row in part] for part in (np.where(asked, rows, -1), rows))
    agreed = np.mean([one == other for one, other in zip(early, final, strict=True)])
    assert 0.95 <= agreed < 1.0


def test_a_pool_too_large_for_a_lattice_goes_on_to_all_arms():
    """Eight of ten arms are in the shortlist. Where their label is not sure enough, all are asked."""
    shares = {f"m{number}": 0.1 for number in range(10)}
    joint, votes = fits(rounds=400, accuracy=np.full(10, 0.8), shares=shares)
    assert len(joint.shortlist) == 8
    stops = AgreementStops.fit(joint, votes, shares, 0.95)
    assert stops.others == pytest.approx(0.2)
    plan = plan_by_worth(joint.beliefs, (0.1,) * 8, stops)
    rows, _ = draw_votes(np.full(10, 0.8), labels=4, items=500, seed=5)
    asked, finished = walk(plan, rows[:, [joint.arms.index(arm) for arm in joint.shortlist]])
    assert 0.0 < finished.mean() < 1.0
    assert (asked.sum(axis=1) < 8)[~finished].any()


def test_without_learned_stops_a_large_pool_is_asked_at_once():
    shares = {f"m{number}": 0.1 for number in range(10)}
    joint, votes = fits(rounds=50, accuracy=np.full(10, 0.8), shares=shares)
    plan = plan_by_worth(joint.beliefs, (0.1,) * 8, AgreementStops.fit(joint, votes, shares, 0.99))
    assert plan.finishes(0, range(8))


def test_an_agreement_of_0_needs_no_proof():
    assert rounds_needed(0.0) == 1


def test_an_arm_that_gave_no_vote_keeps_no_plan_from_asking_all_others():
    """Asking it would be best, but it is not asked again."""
    shares = {f"m{number}": 0.1 for number in range(10)}
    joint, votes = fits(rounds=400, accuracy=np.full(10, 0.8), shares=shares)
    plan = plan_by_worth(joint.beliefs, (0.1,) * 8, AgreementStops.fit(joint, votes, shares, 0.95))
    best = plan.asking.max(axis=1)
    node = int(np.flatnonzero(best > np.maximum(plan.stopping, plan.finishing) + 1e-9)[-1])
    left = [arm for arm in range(8) if joint.beliefs.lattice.rows[node, arm] < 0]
    silent = [arm for arm in left if plan.asking[node, arm] > plan.finishing[node]]
    assert not plan.finishes(node, left)
    assert plan.finishes(node, [arm for arm in left if arm not in silent]) == (
        plan.finishing[node] >= plan.stopping[node]
    )
