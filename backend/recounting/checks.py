"""What a counting says of the rounds that people have answered, as if it did not know their answers.

The counting learnt from these answers, so on the very rounds that taught it, its labels and scores would look
better than they are on others. Each fifth of the rounds is therefore counted by a state and a scorer without
the answers of that fifth (cross-fitting). Blind rounds teach nothing, so they need no such care.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backend.learning.human_labels import aggregation_of, confirmation
from backend.learning.states import StateKey
from backend.learning.teaching import unanswered
from backend.ledger import rounds
from backend.ledger.recounts import further_votes
from backend.ledger.recounts.checks import RecountCheck
from backend.ledger.recounts.countable_rounds import CountableRound
from backend.ledger.recounts.further_votes import FurtherVote
from backend.ledger.rounds import Round
from backend.recounting.counting import QuestionCounter, Relabelled, score_of
from camvo.state.state import State
from camvo.votes.decision import Decision

_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class _Recounted:
    """An answered round with the decision on it that does not know its answer."""

    round_: Round
    kept: CountableRound
    decision: Decision
    human: str
    confirmed: float


class AnsweredRounds:
    """The rounds of a question that people have answered, each counted without its own answer.

    Args:
        counter: counts the question's other rounds.
        key: the question.
        state: its state, which knows the answers; it is not changed.
    """

    def __init__(self, counter: QuestionCounter, key: StateKey, state: State) -> None:
        self._counter, self._key, self._state = counter, key, state
        self._folds: list[list[_Recounted]] = []
        self._labels: dict[int, tuple[str, float]] = {}

    def relabel(self, prices: Mapping[str, float]) -> Relabelled:
        """Decide all of them again.

        Args:
            prices: the models whose votes count.
        """
        key = self._key
        with self._counter.ledger.read() as connection:
            answered = rounds.answered(connection, key.project, key.control, key.epoch)
            further = further_votes.of_rounds(connection, [round_.id for round_ in answered])
        folds = [answered[fold::_FOLDS] for fold in range(_FOLDS)]
        decided = [self._decide(fold, prices, further) for fold in folds if fold]
        self._folds = [fold for fold in decided if fold]
        self._labels = {
            each.round_.id: (each.decision.label, each.confirmed) for fold in self._folds for each in fold
        }
        return self._labels

    def checks(self, prices: Mapping[str, float]) -> list[RecountCheck]:
        """Compare the labels of :meth:`relabel` with the answers, with scores that do not know them either.

        Args:
            prices: the models whose votes count.
        """
        found = []
        for fold in self._folds:
            own = {each.round_.id for each in fold}
            scorer = self._counter.scorer(self._key, fold[0].round_.plan, prices, own, self._labels)
            for each in fold:
                score = score_of(each.kept, each.decision, prices, scorer)
                label, task = each.decision.label, each.round_.key.task
                found.append(RecountCheck(each.round_.id, task, each.human, label, score, each.confirmed))
        return found

    def _decide(
        self, fold: Sequence[Round], prices: Mapping[str, float], further: Mapping[int, Sequence[FurtherVote]]
    ) -> list[_Recounted]:
        """Decide one fold by what is known without its answers."""
        aggregation = aggregation_of(fold[0].plan)
        without = State.restore(self._state.snapshot(), linear=self._counter.policy.linear(aggregation))
        taught = [round_ for round_ in fold if round_.taught_by == "human"]
        without.add(*[unanswered(round_, further.get(round_.id, ())) for round_ in taught])
        found = []
        for round_ in fold:
            self._counter.pause()
            kept = _countable(round_, further.get(round_.id, ()))
            decision = self._counter.decision(kept, without, prices)
            if decision is None or round_.human is None:
                continue
            confirmed = confirmation(decision.label, round_.human, round_.plan)
            if confirmed is not None:
                found.append(_Recounted(round_, kept, decision, round_.human, confirmed))
        return found


def _countable(round_: Round, further: Sequence[FurtherVote]) -> CountableRound:
    """The round with the votes that it would have if nobody had answered it."""
    bought = [vote for vote in further if vote.purpose == "doubt"]
    return CountableRound(
        id=round_.id,
        task=round_.key.task,
        votes=further_votes.all_votes(round_.votes, bought),
        confidences=further_votes.all_confidences(round_.plan.get("confidences", {}), bought),
        plan=round_.plan,
        context=round_.context,
        label=round_.label,
        score=round_.score,
        audit=round_.audit,
        full_cost_usd=round_.full_cost_usd,
    )
