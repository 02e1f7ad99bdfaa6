from __future__ import annotations

import itertools

import numpy as np
import pytest
from correlated_votes import draw_correlated_rounds, equal_correlation
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.scores.scorer import _SLIP, Panel, _PatternLikelihood, _tabulate_patterns
from camvo.votes.labels import label_posterior

LABELS = ("a", "b", "c", "d")


def votes_of(labels, voters, rows=range(1, 7)):
    row = st.lists(st.integers(-1, labels - 1), min_size=voters, max_size=voters)
    return st.sampled_from(rows).flatmap(lambda n: st.lists(row, min_size=n, max_size=n)).map(np.array)


def urn(row, slips, doubt, labels):
    """The probability of a row of votes, vote by vote: slips summed out, p as Pólya's urn."""
    total = 0.0
    cast = [(vote, slip) for vote, slip in zip(row, slips, strict=True) if vote >= 0]
    for slipped in itertools.product((False, True), repeat=len(cast)):
        chance, earlier = 1.0, []
        for (vote, slip), gone in zip(cast, slipped, strict=True):
            if gone:
                chance *= slip / labels
            else:
                chance *= (1 - slip) * (doubt / labels + earlier.count(vote)) / (doubt + len(earlier))
                earlier.append(vote)
        total += chance
    return total


def ece(scores, right, bins=15):
    bin_of = np.minimum((scores * bins).astype(int), bins - 1)
    gaps = [abs((scores - right)[bin_of == b].sum()) for b in range(bins)]
    return sum(gaps) / len(scores)


@given(votes=votes_of(3, 5), doubt=st.floats(0.01, 5.0))
@settings(max_examples=60, deadline=None)
def test_the_likelihood_is_that_of_polyas_urn_with_slips(votes, doubt):
    slips = np.array([0.1, 0.3, 0.02, 0.5, 0.2])
    table = _tabulate_patterns(votes)
    likelihood = _PatternLikelihood(table.rows, 3).gradient(
        slips, np.array([doubt, 0.4]), np.array([0.7, 0.3])
    )[0]
    asked = [0.7 * urn(row, slips, doubt, 3) + 0.3 * urn(row, slips, 0.4, 3) for row in votes]
    np.testing.assert_allclose(likelihood[table.index], asked, rtol=1e-9)


@given(votes=votes_of(3, 4), doubt=st.floats(0.05, 3.0), slip=st.floats(0.01, 0.9))
@settings(max_examples=40, deadline=None)
def test_the_gradient_is_the_slope_of_the_likelihood(votes, doubt, slip):
    likelihood, weights, step = _PatternLikelihood(_tabulate_patterns(votes).rows, 3), np.ones(1), 1e-6
    slips, doubts = np.array([slip, 0.2, 0.1, 0.4]), np.array([doubt])
    _, by_slip, by_doubt = likelihood.gradient(slips, doubts, weights)
    for voter, up in enumerate(np.eye(4) * step):
        ahead, behind = (likelihood.gradient(slips + sign * up, doubts, weights)[0] for sign in (1, -1))
        np.testing.assert_allclose(by_slip[:, voter], (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-8)
    ahead, behind = (likelihood.gradient(slips, doubts + sign * step, weights)[0] for sign in (1, -1))
    np.testing.assert_allclose(by_doubt[:, 0], (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-8)


@given(votes=votes_of(3, 5, range(1, 2)))
@settings(max_examples=40, deadline=None)
def test_the_truth_is_one_more_answer_to_the_task(votes):
    panel = Panel(tuple("vwxyz"), (0, 1, 2, 3, 4), (0.1, 0.3, 0.02, 0.5, 0.2), 0.4, 1e-9)
    slips = (*panel.slips, 0.0)
    joint = np.array([urn([*votes[0], label], slips, 0.4, 3) for label in range(3)])
    wanted = (1 - _SLIP) * joint / joint.sum() + _SLIP / 3
    np.testing.assert_allclose(panel.chances(votes, 3)[0], wanted, rtol=1e-6)


@given(votes=votes_of(4, 5, range(1, 2)))
@settings(max_examples=40, deadline=None)
def test_without_shared_doubt_it_is_the_one_coin_posterior(votes):
    slips = (0.1, 0.3, 0.05, 0.5, 0.9)
    panel = Panel(tuple("vwxyz"), (0, 1, 2, 3, 4), slips, 1e-7, 1e-9)
    cast = {arm: LABELS[vote] for arm, vote in zip("vwxyz", votes[0], strict=True) if vote >= 0}
    coins = {arm: 1 - slip + slip / 4 for arm, slip in zip("vwxyz", slips, strict=True)}
    chances = panel.posterior(cast, LABELS)
    wanted = label_posterior(cast, coins, LABELS) if cast else dict.fromkeys(LABELS, 0.25)
    for label in LABELS:
        assert chances[label] == pytest.approx((1 - _SLIP) * wanted[label] + _SLIP / 4, abs=1e-5)


@given(votes=votes_of(4, 5), order=st.permutations(range(4)))
@settings(max_examples=40, deadline=None)
def test_the_names_of_the_labels_change_nothing(votes, order):
    panel = Panel.prior(tuple("vwxyz"))
    renamed = np.where(votes >= 0, np.array(order)[votes], -1)
    np.testing.assert_allclose(panel.chances(renamed, 4)[:, order], panel.chances(votes, 4), rtol=1e-9)


def test_chances_sum_to_one_and_a_round_without_votes_is_uniform():
    chances = Panel.prior(("a", "b")).chances(np.array([[0, 1], [-1, 2], [-1, -1]]), 5)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(chances[2], 0.2)


def test_more_agreement_is_a_higher_score():
    panel = Panel.prior(tuple("abcdefg"))
    votes = np.array([[0] * agreed + [1] * (7 - agreed) for agreed in range(4, 8)])
    assert (np.diff(panel.chances(votes, 4)[:, 0]) > 0).all()


def draw(panel, labels, n, seed):
    """Tasks as the panel takes them to be: votes and truth."""
    rng = np.random.default_rng(seed)
    doubts = panel.doubt * np.exp(panel.spread * rng.normal(size=n))
    answers = np.array([rng.dirichlet(np.full(labels, doubt / labels)) for doubt in doubts]).cumsum(axis=1)
    slips = np.append(panel.slips, _SLIP)
    said = (rng.random((n, 1, len(slips))) > answers[:, :-1, None]).sum(axis=1)
    said = np.where(rng.random(said.shape) < slips, rng.integers(labels, size=said.shape), said)
    return said[:, :-1], said[:, -1]


@pytest.mark.parametrize("labels", [2, 6, 20])
def test_the_fit_recovers_the_parameters_that_generated_the_votes(labels):
    drawn_from = Panel(tuple("abcdef"), tuple(range(6)), (0.02, 0.05, 0.1, 0.2, 0.4, 0.95), 0.3, 1.0)
    votes, truth = draw(drawn_from, labels, 4000, 1)
    fitted = Panel.fit(votes[:2000], drawn_from.arms, labels)
    np.testing.assert_allclose(fitted.slips[:5], drawn_from.slips[:5], atol=0.1)
    chances = fitted.chances(votes[2000:], labels)
    right = chances.argmax(axis=1) == truth[2000:]
    assert ece(chances.max(axis=1), right) < 0.05


@pytest.mark.parametrize("labels", [2, 4, 20])
def test_correlated_errors_no_longer_read_as_certainty(labels):
    rounds = draw_correlated_rounds(
        equal_correlation(0.5), rounds=4000, seed=2, sigma=20.0, standardised=True
    )
    table = rounds.draw_votes_table(labels=tuple(map(str, range(labels))), seed=3)
    arms, coins = tuple(table.prices), dict(zip(table.prices, rounds.expected_accuracy, strict=True))
    chances = Panel.fit(table.votes[:1000], arms, labels).chances(table.votes, labels)
    right = chances.argmax(axis=1) == table.truth
    coin = [
        label_posterior({arm: table.labels[v] for arm, v in zip(arms, row, strict=True)}, coins, table.labels)
        for row in table.votes[:1000]
    ]
    believed = np.array([max(chances.values()) for chances in coin])
    correct = np.array(
        [max(c, key=c.get) == table.labels[t] for c, t in zip(coin, table.truth, strict=False)]
    )
    too_sure = chances.max(axis=1).mean() - right.mean()
    assert too_sure < 0.06
    assert too_sure < believed.mean() - correct.mean() - 0.02


def test_a_copied_model_changes_no_score():
    panel = Panel(tuple("abcd"), tuple(range(4)), (0.05, 0.1, 0.2, 0.3), 0.3, 1.0)
    votes, _ = draw(panel, 4, 2000, 4)
    alone = Panel.fit(votes, panel.arms, 4)
    twice = Panel.fit(np.column_stack((votes, votes[:, 0])), (*panel.arms, "copy"), 4)
    assert twice.seats == (0, 1, 2, 3, 0)
    chances = twice.chances(np.column_stack((votes, votes[:, 0])), 4)
    np.testing.assert_allclose(chances, alone.chances(votes, 4), atol=1e-9)


def test_rounds_that_asked_on_only_after_a_disagreement_give_the_same_scores():
    panel = Panel(tuple("abcde"), tuple(range(5)), (0.05, 0.1, 0.1, 0.2, 0.3), 0.3, 1.0)
    votes, _ = draw(panel, 5, 6000, 5)
    asked = votes.copy()
    asked[asked[:, 3] == asked[:, 4], :3] = -1
    full, early = (Panel.fit(cast, panel.arms, 5).chances(votes, 5) for cast in (votes, asked))
    assert np.abs(full - early).max() < 0.06


def test_without_votes_the_panel_is_the_prior():
    arms = ("a", "b")
    assert Panel.fit(np.full((3, 2), -1), arms, 3) == Panel.prior(arms)
    assert Panel.fit(np.array([[1, -1], [-1, 0]]), arms, 3) == Panel.prior(arms)
    assert Panel.fit(np.zeros((5, 2), dtype=int), arms, 1) == Panel.prior(arms)


def test_votes_of_other_models_or_labels_are_refused():
    panel = Panel.prior(("a", "b"))
    for votes in (np.zeros((2, 3), dtype=int), np.full((2, 2), 3), np.zeros(2, dtype=int)):
        with pytest.raises(InvalidParameterError):
            panel.chances(votes, 3)
    with pytest.raises(InvalidParameterError):
        panel.posterior({"a": "x"}, ["y", "z"])


def test_a_model_that_joined_later_is_left_out_until_the_next_fit():
    panel = Panel.prior(("a", "b"))
    assert panel.posterior({"a": "y", "new": "z"}, ["y", "z"]) == panel.posterior({"a": "y"}, ["y", "z"])
