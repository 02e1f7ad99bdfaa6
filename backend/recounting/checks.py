"""What a counting says of the rounds that people have answered, as if it did not know their answers.

The counting learnt from these answers, so on the very rounds that taught it, its labels and scores would look
better than they are on others. Each fifth of the rounds is therefore counted by a state and a scorer without
the answers of that fifth (cross-fitting). Blind rounds teach nothing, so they need no such care.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from backend.recounting.counting import QuestionCounter
from camvo.state.state import State

_FOLDS: Final = 5


def checked(
    counter: QuestionCounter, key: StateKey, state: State, prices: Mapping[str, float]
) -> list[RecountCheck]:
    """Count the rounds of a question that people have answered, each without its own answer.

    Args:
        counter: counts the question's other rounds.
        key: the question.
        state: its state, which knows the answers; it is not changed.
        prices: the models whose votes count.
    """
    with counter.ledger.read() as connection:
        answered = rounds.answered(connection, key.project, key.control, key.epoch)
        further = further_votes.of_rounds(connection, [round_.id for round_ in answered])
    found = []
    for fold in range(_FOLDS):
        found += _counted(counter, key, state, prices, answered[fold::_FOLDS], further)
    return found


def _counted(  # noqa: PLR0917 - a counter with what it knows, and what it counts
    counter: QuestionCounter,
    key: StateKey,
    state: State,
    prices: Mapping[str, float],
    fold: Sequence[Round],
    further: Mapping[int, Sequence[FurtherVote]],
) -> list[RecountCheck]:
    """Count one fold by what is known without its answers."""
    if not fold:
        return []
    plan, answers = fold[0].plan, [round_ for round_ in fold if round_.taught_by == "human"]
    without = State.restore(state.snapshot(), linear=counter.policy.linear(aggregation_of(plan)))
    without.add(*[unanswered(round_, further.get(round_.id, ())) for round_ in answers])
    scorer = counter.scorer(key, plan, prices, {round_.id for round_ in fold})
    found = []
    for round_ in fold:
        counter.pause()
        kept = _countable(round_, further.get(round_.id, ()))
        decided = counter.decided(kept, without, prices, scorer)
        if decided is None or round_.human is None:
            continue
        label, score = decided
        confirmed = confirmation(label, round_.human, round_.plan)
        if confirmed is not None:
            found.append(RecountCheck(round_.id, round_.key.task, round_.human, label, score, confirmed))
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
