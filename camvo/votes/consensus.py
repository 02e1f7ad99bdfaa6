"""What several equally trusted people answer together, and whether an answer is valid at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation, Ballot


def agreed_answer(aggregation: Aggregation, answers: Sequence[str], options: Sequence[str]) -> str | None:
    """Combine the answers of equally trusted people: the majority, the median or Borda's order.

    The answers are tied if the outcome depends on which of them wins ties.

    Args:
        aggregation: how votes on the question are counted.
        answers: one answer per person, each written as a vote.
        options: the labels or items of the question.

    Returns:
        The combined answer, or ``None`` if there is no answer or the answers are tied.

    Raises:
        InvalidParameterError: an answer is not valid for the question (see :func:`is_answer`).
    """
    votes = {str(number): answer for number, answer in enumerate(answers)}
    outcomes = [
        aggregation.aggregate(_equal_ballot(votes, favourite), options)[0]
        for favourite in sorted(set(answers))
    ]
    if not outcomes or any(aggregation.reward(outcome, outcomes[0]) < 1.0 for outcome in outcomes):
        return None
    return outcomes[0]


def is_answer(aggregation: Aggregation, answer: str | None, options: Sequence[str]) -> bool:
    """Whether ``answer`` is present and valid for the question."""
    if answer is None:
        return False
    try:
        aggregation.aggregate(_equal_ballot({"": answer}, answer), options)
    except InvalidParameterError:
        return False
    return True


def _equal_ballot(votes: Mapping[str, str], favourite: str) -> Ballot:
    """A ballot in which every vote has weight 1 and ties go to the answer ``favourite``."""
    weights = dict.fromkeys(votes, 1.0)
    tie_breakers = {voter: float(vote == favourite) for voter, vote in votes.items()}
    return Ballot(votes, weights, tie_breakers, dict.fromkeys(votes, 0.5))
