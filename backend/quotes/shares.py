"""The policy's share of what asking everyone costs: by the project's own rounds, or by what is documented."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backend.annotation.job import JobQuestion
from backend.learning.states import StateKey
from backend.ledger import Ledger
from backend.quotes.known_rounds import KnownRounds, read_known_rounds
from backend.quotes.quote import QuoteEvidence, Range
from backend.settings import Settings
from backend.settings.policies import policy_in_force, policy_of
from camvo.numerics.proportion import clopper_pearson
from camvo.policies.joint import FIRST, Joint
from camvo.quotes.documented import documented_share
from camvo.quotes.forecast import Forecast, forecast, labels_by
from camvo.votes.labels import LABEL_VOTE

SEED: Final = 16
"""Quotes of the same rounds are the same."""


@dataclass(frozen=True, slots=True)
class PolicyShare:
    """The policy's cost in prices of asking everyone.

    Attributes:
        range: of the tasks to come.
        evidence: what it rests on.
        asked: arm → how often it is asked, in [0, 1]; empty if that is unknown.
    """

    range: Range
    evidence: QuoteEvidence
    asked: Mapping[str, float] = field(default_factory=dict)


def policy_name(settings: Settings, questions: Sequence[JobQuestion]) -> str:
    """The name of the policy that will be in force."""
    if any(question.aggregation != LABEL_VOTE for question in questions) and settings.policy.name is None:
        return "camvo"
    return policy_in_force(settings.policy)[0]


def student_votes(settings: Settings, questions: Sequence[JobQuestion]) -> bool:
    """Whether a student will vote on any of the questions."""
    aggregations = [question.aggregation for question in questions]
    return LABEL_VOTE in aggregations and settings.has_student(policy_of(settings.policy, aggregations))


def policy_share(  # noqa: PLR0917 - a job, and what is known of it
    ledger: Ledger,
    settings: Settings,
    questions: Sequence[JobQuestion],
    prices: Mapping[str, float],
    model_of: Mapping[str, str],
    to_come: int,
    progress: Callable[[int], object] = lambda replays: None,
) -> PolicyShare:
    """How much the policy will spend on the tasks to come.

    Args:
        ledger: holds the project's rounds.
        settings: the project's.
        questions: what is asked about a task.
        prices: arm → the mean price of asking it about a task, $.
        model_of: arm → the name of its model.
        to_come: how many tasks are to come.
        progress: called with 1 after each replay.
    """
    name = policy_name(settings, questions)
    if name == "single":
        only = {arm: float(model == settings.policy.model) for arm, model in model_of.items()}
        share = sum(only[arm] * price for arm, price in prices.items()) / (sum(prices.values()) or 1.0)
        return PolicyShare(Range(share, share, share), QuoteEvidence(0), only)
    policy = policy_of(settings.policy, [question.aggregation for question in questions])
    agreement = isinstance(policy, Joint) and policy.agreement is not None
    if isinstance(policy, Joint) and not agreement and to_come and sum(prices.values()) > 0.0:
        known = [known_rounds(ledger, question, prices) for question in questions]
        if known and min(len(rounds.human) for rounds in known) >= FIRST:
            return _forecast(policy.worth_in_askings(prices), known, to_come, progress)
    asked = min(settings.policy.k_min, len(prices)) if name in {"camvo", "ccamvo"} else 1
    student = student_votes(settings, questions)
    low, high = documented_share(
        name, to_come, [*prices.values()], asked, student=student, agreement=agreement
    )
    return PolicyShare(Range(low, high, low if low == high else None), QuoteEvidence(0))


def known_rounds(ledger: Ledger, question: JobQuestion, prices: Mapping[str, float]) -> KnownRounds:
    """The rounds on a question that asked all arms with a price."""
    with ledger.read() as connection:
        return read_known_rounds(connection, state_key(question), question.question.options, prices)


def state_key(question: JobQuestion) -> StateKey:
    """The key under which a question is learnt."""
    return StateKey(question.key.project, question.key.control, question.key.epoch)


def _forecast(
    worth: float, known: Sequence[KnownRounds], to_come: int, progress: Callable[[int], object]
) -> PolicyShare:
    """The forecasts of all questions as one.

    One call answers all questions, so costs lie between those of the dearest question and the sum of all.
    """
    rng = np.random.default_rng(SEED)
    forecasts = [forecast(rounds.votes, to_come, worth, rng, progress=progress) for rounds in known]
    asked: dict[str, float] = {}
    for one in forecasts:
        asked = {arm: max(asked.get(arm, 0.0), rate) for arm, rate in one.asked.items()}
    together = Range(
        max(one.low for one in forecasts),
        min(sum(one.high for one in forecasts), 1.0),
        max(one.likely for one in forecasts),
    )
    return PolicyShare(together, _evidence(forecasts[0], known[0]), asked)


def _evidence(one: Forecast, known: KnownRounds) -> QuoteEvidence:
    """What the rounds of the first question say of labels."""
    labelled = np.flatnonzero(known.human >= 0)
    rounds = len(known.human)
    if not len(labelled) or not one.fits:
        return QuoteEvidence(rounds, one.agreement)
    right = np.mean([_right(one, number, known, labelled) for number in range(len(one.fits))])
    low, high = clopper_pearson(float(right) * len(labelled), len(labelled))
    return QuoteEvidence(rounds, one.agreement, len(labelled), Range(low, high, float(right)))


def _right(one: Forecast, number: int, known: KnownRounds, labelled: NDArray[np.int64]) -> float:
    """The share of the labels that are right, by the plan at the end of one replay."""
    rows, fit = known.votes.canonical[labelled], one.fits[number]
    asked = known.votes.planned(fit, rows, one.worth)
    votes = known.votes.rows[labelled]
    leaders = labels_by(fit, rows, asked)
    # The label of a number is the vote of any arm with that number.
    right = 0
    for place, row, leader, cast in zip(labelled.tolist(), rows, leaders.tolist(), votes, strict=True):
        said = cast[row == leader]
        right += bool(leader >= 0 and len(said) and said[0] == known.human[place])
    return right / len(labelled)
