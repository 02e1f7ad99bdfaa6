"""What a finished round teaches the state, before it is stored and again after a human label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from camvo.policies.policy import Plan
from camvo.stages.stages import UNKNOWN, Cast, Sure, on_question
from camvo.state.contribution import Change, Contribution, KeptRound, SureVote
from camvo.state.exploration import ExplorationRound
from camvo.student import Ngrams, StudiedText
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.registry import restore_aggregation


def _lesson(
    context: Array,
    q: Mapping[str, float],
    votes: Mapping[str, str],
    label: str,
    *,
    human: bool,
    reward: Callable[[str, str], float] = LABEL_VOTE.reward,
) -> Contribution:
    """The rewards of one round: r_i = 1{y_i = label} for every arm that voted (lines 16–21).

    A single vote always agrees with itself, so fewer than two votes give no reward without a human label. The
    round still counts in t.
    """
    if len(votes) < 2 and not human:
        return Contribution(context, ())
    changes = [Change(arm, q[arm], None, reward(vote, label)) for arm, vote in sorted(votes.items())]
    return Contribution(context, tuple(changes))


@dataclass(frozen=True, slots=True, eq=False)
class TaughtRound:
    """A finished round on one question, reduced to what the state learns from.

    Attributes:
        context: e_t, shape (d,).
        votes: the votes of the arms that were asked.
        q: arm → its estimate when the round was planned.
        aggregation: how votes on the question become one answer.
        order: all arms in the order of asking; ``None`` if the policy does not ask in stages.
        first: how many arms of ``order`` were asked independently of the votes.
        kept: whether the round is kept whole once it has a human label.
        everyone: whether a draw let it ask all arms.
        exploration: what the round shows about stopping early; ``None`` for a stored round, because it counts
            once, when the round is first learnt.
        sure: arm → confidence in [0, 1], of the arms that gave one.
        compared: the votes with a confidence beside the votes of other arms; empty for a stored round,
            because they count once too.
        histories: arm → the number of the history that the round belongs to; 0 for arms that are absent.
        restarts: how many restarts the state had when the round was planned; 0 for a stored round, in which
            only the exploration round would need it.
        studied: the text that teaches the student; ``None`` if it teaches nothing.
    """

    context: Array
    votes: Cast
    q: Mapping[str, float]
    aggregation: Aggregation
    order: tuple[str, ...] | None = None
    first: int = 0
    kept: bool = False
    exploration: ExplorationRound | None = None
    sure: Sure = field(default_factory=dict)
    compared: tuple[SureVote, ...] = ()
    histories: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    studied: StudiedText | None = None
    everyone: bool = False

    @classmethod
    def planned(
        cls, plan: Plan, question: str, votes: Votes, confidences: Confidences = NO_CONFIDENCES
    ) -> TaughtRound:
        """A round that ends now, from its plan."""
        estimates, stages = plan.estimates[question], plan.stages
        cast = {arm: answers.get(question) for arm, answers in votes.items()}
        q = dict(zip(plan.arms, estimates.q.tolist(), strict=True))
        sure = _counted(on_question(confidences, question), estimates.aggregation)
        if stages is None:
            compared = _compared(plan, question, cast, sure) if len(cast) == len(plan.arms) else ()
            return cls(
                estimates.context,
                cast,
                q,
                estimates.aggregation,
                sure=sure,
                compared=compared,
                histories=estimates.histories,
            )
        kept = stages.questions[question].kept
        return cls(
            context=estimates.context,
            votes=cast,
            q=q,
            aggregation=estimates.aggregation,
            order=stages.order,
            first=len(stages.first),
            kept=kept,
            exploration=stages.exploration_round(question, cast, sure) if kept else None,
            sure=sure,
            compared=_compared(plan, question, cast, sure) if stages.exploration == "everyone" else (),
            histories=estimates.histories,
            restarts=estimates.restarts,
            everyone=stages.exploration == "everyone",
        )

    @classmethod
    def stored(cls, plan: Mapping[str, Any], context: Array, votes: Cast, text: Ngrams = b"") -> TaughtRound:
        """A round of the ledger, from its plan's description (:meth:`.Plan.describe`), with ``aggregation``.

        ``text`` is the n-grams of the text that teaches the student, if any.
        """
        arms: Mapping[str, Mapping[str, float]] = plan["arms"]
        q = {arm: columns["q"] for arm, columns in arms.items()}
        aggregation, stages = restore_aggregation(plan["aggregation"]), plan.get("stages")
        histories = plan.get("histories", {})
        studied = StudiedText.from_list(plan["studied"], text) if "studied" in plan else None
        if stages is None:
            return cls(context, votes, q, aggregation, histories=histories, studied=studied)
        return cls(
            context=context,
            votes=votes,
            q=q,
            aggregation=aggregation,
            order=tuple(stages["order"]),
            first=stages["first"],
            kept=stages["kept"],
            sure=_counted(plan.get("confidences", UNKNOWN), aggregation),
            histories=histories,
            studied=studied,
            everyone=stages["coin"] == "everyone",
        )

    def contribution(self, label: str, *, human: bool = False) -> Contribution:
        """What the state learns if the round's label is ``label``.

        Arms that were asked because of the votes get no reward.
        """
        rewarded: Collection[str] = self.votes.keys()
        if self.order is not None:
            rewarded = self.order[: self.first] if human or self.first == len(self.order) else ()
        votes = {arm: vote for arm, vote in self.votes.items() if vote is not None and arm in rewarded}
        rewards = _lesson(self.context, self.q, votes, label, human=human, reward=self.aggregation.reward)
        rewards = replace(
            rewards,
            compared=self.compared,
            histories=self.histories,
            restarts=self.restarts,
            taught=None if self.studied is None else self.studied.lesson(label if human else None),
        )
        if not self.kept:
            return rewards
        kept_round = KeptRound.of(self.votes, label, self.sure, everyone=self.everyone) if human else None
        return replace(rewards, exploration=self.exploration, kept=kept_round)


def _counted(sure: Sure, aggregation: Aggregation) -> Sure:
    """The confidences that teach: those in votes for labels without an order."""
    return sure if aggregation == LABEL_VOTE else UNKNOWN


def _compared(plan: Plan, question: str, votes: Cast, sure: Sure) -> tuple[SureVote, ...]:
    """The votes with a confidence, compared with the votes of the other arms as the plan counts these."""
    if not sure:
        return ()
    if plan.stages is not None:
        return plan.stages.questions[question].compared(votes, sure)
    weights = dict(zip(plan.arms, plan.weights[question].tolist(), strict=True))
    return SureVote.compared_with_others(votes, weights, sure)
