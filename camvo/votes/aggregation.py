"""How the votes on one question become one answer, and how right each vote was.

A vote is a string whatever the question: a label, a number in digits, a text; a ranking, a subset or spans as
JSON. Only the question's :class:`Aggregation` reads it, so one task may mix them all, and policies, state and
ledger see text and rewards alone. :mod:`camvo.votes.registry` lists them.

What δ_A means. A reward of 0 or 1 says that the arm was right, and δ_A is Lemma 1's probability that the
right arms carry more than half of the weight. A fractional reward r is read as "right with probability r":
r counts in the Beta distribution of the right rounds and 1 − r in that of the wrong ones, L bounds the
expected reward, and δ_A is the probability that more than half of the weight is right in this sense:

- numbers, where an arm is right if its error is below a tolerance drawn uniformly from [0, scale]. Wherever
  more than half of the weight lies within some tolerance of the truth, so does the weighted median. Nothing
  of the kind holds for the weighted mean: for it δ is a dial to set by replay, not a bound.
- rankings, where an arm is right if it orders a random pair of items as the truth does. Wherever more than
  half of the weight does, so does the weighted majority on that pair, and Kemeny's order too as long as the
  majorities do not contradict one another. Borda's and the sum of scores need not.
- subsets, where an arm is right if it judges a random label as the truth does.
- texts, where an arm is right in full if its answer is the truth, and in part if it shares words with it: the
  weighted vote is bounded in the first sense, and the parts are a dial as the weighted mean is.
- spans, where an arm is right if it treats a random place of the text as the truth does. Wherever more than
  half of the weight does, so does the vote on that place; its boundaries are right if those of more than
  half of the weight are.

For these δ_A bounds the expected reward of the answer, provided that the arms err independently and that an
arm is as likely to be right at one tolerance (on one pair) as at another. Few are: a narrow tolerance is hard
for all of them together, as correlated errors are for labels, and δ is best checked by replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes on one question and how each is counted.

    Attributes:
        votes: arm → vote.
        weights: arm → ω ≥ 0.
        tie_breakers: arm → L, which decides where the weights do not.
        correctness: arm → its expected reward, which the score is computed with.
    """

    votes: Mapping[str, str]
    weights: Mapping[str, float]
    tie_breakers: Mapping[str, float]
    correctness: Mapping[str, float]


class Aggregation(Protocol):
    """One way of counting votes; ``options`` are what a vote names: labels, or items to be ranked."""

    def guess(self, options: Sequence[str]) -> float:
        """The expected reward of a vote cast at random, in [0, 1].

        Raises:
            InvalidParameterError: options that there is nothing to decide about.
        """
        ...

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The answer, and for each possible answer the reward it can expect given the votes that came.

        Where the possible answers cannot be listed, the mapping holds the answer alone.

        Raises:
            InvalidParameterError: there is no vote, or one that does not answer the question.
        """
        ...

    def reward(self, vote: str, answer: str) -> float:
        """How right a vote is, in [0, 1], where ``answer`` is the aggregate or a human's."""
        ...
