"""One question's kept votes, counted again by one state: what would change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from backend.learning.human_labels import aggregation_of
from backend.learning.states import StateKey
from backend.ledger import Ledger, scorer_data
from backend.ledger.recounts.checks import RecountCheck
from backend.ledger.recounts.countable_rounds import CountableRound, countable_rounds
from backend.ledger.recounts.rows import Recount, differs
from camvo.policies.past_rounds.past_round import PastRound
from camvo.policies.past_rounds.recount import recount
from camvo.policies.policy import Policy
from camvo.scores.scorer import Scorer, fit_scorer
from camvo.state.state import State
from camvo.subsets.oracle import MOST_ARMS
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE

_PAGE = 250
"""Rounds that are read at once."""

_PORTION = 10
"""Rounds that are decided between two pauses."""


Relabelled = Mapping[int, tuple[str, float]]
"""Round → the label that it would get without its answer, and the label's agreement with the answer."""


@dataclass(slots=True)
class QuestionCount:
    """What a counting of one question found.

    Attributes:
        key: the question.
        results: the rounds whose label or score would change.
        blind: those of them that are blind.
        counted: how many rounds with a prediction were counted; blind ones are not among them.
        labels: how many of these would get another label.
        score_change: the sum of the absolute changes of their scores.
        prices: the models whose votes counted, with their prices.
        checks: what it says of rounds that people have answered; none if nothing would change.
    """

    key: StateKey
    results: list[Recount] = field(default_factory=list)
    blind: set[int] = field(default_factory=set)
    counted: int = 0
    labels: int = 0
    score_change: float = 0.0
    prices: Mapping[str, float] = field(default_factory=dict)
    checks: list[RecountCheck] = field(default_factory=list)

    def add(self, kept: CountableRound, label: str, score: float) -> None:
        """Compare a round's new label and score with those of now."""
        if not kept.audit:
            self.counted += 1
            self.labels += label != kept.label
            self.score_change += abs(score - kept.score)
        if differs((kept.label, kept.score), (label, score)):
            self.results.append(Recount(kept.id, kept.task, label, score, label != kept.label))
            if kept.audit:
                self.blind.add(kept.id)


@dataclass(frozen=True, slots=True)
class QuestionCounter:
    """Counts one question's kept votes again. Runs in a thread of its own, and takes its time.

    Attributes:
        ledger: where the rounds are read.
        policy: the project's policy.
        models: the names of the project's models.
        calibrate: whether scores are calibrated.
        pause: called after every few rounds; lets other work go first, and raises to stop.
    """

    ledger: Ledger
    policy: Policy
    models: Sequence[str]
    calibrate: bool
    pause: Callable[[], None]

    def count(
        self, key: StateKey, state: State, relabel: Callable[[Mapping[str, float]], Relabelled]
    ) -> QuestionCount:
        """Count every kept round of a question.

        Args:
            key: the question.
            state: its state of now, which must not change meanwhile.
            relabel: returns what this counting says of the answered rounds, by the prices of the models. The
                scores are calibrated on that: the labels that these rounds got first say how right an
                earlier counting was.
        """
        found, scorer, prices = QuestionCount(key), None, dict[str, float]()
        for number, (kept, prices) in enumerate(self.rounds(key, state)):
            if number == 0:
                scorer = self.scorer(key, kept.plan, prices, relabelled=relabel(prices))
            if (decision := self.decision(kept, state, prices)) is not None:
                found.add(kept, decision.label, score_of(kept, decision, prices, scorer))
        found.prices = prices
        return found

    def rounds(self, key: StateKey, state: State) -> Iterator[tuple[CountableRound, dict[str, float]]]:
        """Read a question's countable rounds, each with the prices of all models, which are the same for all.

        Args:
            key: the question.
            state: its state of now.
        """
        last, prices = 0, dict[str, float]()
        while page := self._page(key, last):
            last = page[-1].id
            prices = prices or self._prices(page, state)
            for position, kept in enumerate(page):
                if position % _PORTION == 0:
                    self.pause()
                yield kept, prices

    def _page(self, key: StateKey, after: int) -> list[CountableRound]:
        with self.ledger.read() as connection:
            return countable_rounds(connection, key.project, key.control, key.epoch, after=after, limit=_PAGE)

    def _prices(self, page: Sequence[CountableRound], state: State) -> dict[str, float]:
        """Every model whose votes may count: today's pool and those that the state knows, with a price.

        Prices decide nothing about votes that were cast. They are those of the first round that names the
        model, so that all rounds share one fit.
        """
        names = [*dict.fromkeys([*self.models, *state])]
        if len(names) > MOST_ARMS:
            names = list(self.models)
        known: dict[str, float] = {}
        for kept in page:
            for name, arm in kept.plan["arms"].items():
                known.setdefault(name, arm["cost"])
        usual = sum(known.values()) / len(known)
        return {name: known.get(name, usual) for name in names}

    def scorer(
        self,
        key: StateKey,
        plan: Mapping[str, Any],
        prices: Mapping[str, float],
        unanswered: Collection[int] = (),
        relabelled: Relabelled = MappingProxyType({}),
    ) -> Scorer | None:
        """Fit the question's scorer; ``None`` if scores are not calibrated.

        Args:
            key: the question.
            plan: the plan of one of its rounds.
            prices: the models whose votes count.
            unanswered: the rounds whose human label it must not know.
            relabelled: what this counting says of the answered rounds.
        """
        if not self.calibrate or aggregation_of(plan) != LABEL_VOTE:
            return None
        with self.ledger.read() as connection:
            rounds = scorer_data.latest_rounds(
                connection, key.project, key.control, key.epoch, unanswered, relabelled
            )
        return fit_scorer(rounds, sorted(prices), plan["labels"])

    def decision(self, kept: CountableRound, state: State, prices: Mapping[str, float]) -> Decision | None:
        """The decision on a round by what a state knows; ``None`` without a vote that counts."""
        return recount(self.policy, state, past_round(kept, prices))


def past_round(kept: CountableRound, prices: Mapping[str, float]) -> PastRound:
    """The round as policies see it, with the prices of the models whose votes count."""
    return PastRound(
        kept.context,
        kept.votes,
        tuple(kept.plan["labels"]),
        prices,
        aggregation_of(kept.plan),
        kept.confidences,
    )


def score_of(
    kept: CountableRound, decision: Decision, prices: Mapping[str, float], scorer: Scorer | None
) -> float:
    """The probability that a round's new label is right."""
    cast = {arm: vote for arm, vote in kept.votes.items() if vote is not None and arm in prices}
    return decision.score if scorer is None else scorer.score_decision(cast, decision)
