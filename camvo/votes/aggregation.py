"""The interface of an aggregation: it turns the votes on one question into an answer and rewards each vote.

A vote is always a string: a label, a number in digits, a text, or JSON for a ranking, a subset or spans. Only
the question's :class:`Aggregation` interprets it. One task may therefore mix all kinds of questions, and
policies, state and ledger handle nothing but text and rewards. :mod:`camvo.votes.registry` lists all kinds.

The meaning of δ_A depends on the reward. If rewards are 0 or 1, a reward of 1 means that the arm was right,
and δ_A is Lemma 1's probability that the right arms carry more than half of the weight. A fractional reward r
is read as "right with probability r". It adds r to the Beta distribution of the right rounds and 1 − r to
that of the wrong rounds, and L bounds the expected reward. δ_A is then the probability that more than half
of the weight is right in the following sense:

- Numbers: an arm is right if its error is below a tolerance drawn uniformly from [0, scale]. If more than
  half of the weight lies within some tolerance of the truth, so does the weighted median. The weighted mean
  has no such property: for it δ is a setting to tune by replay, not a bound.
- Rankings: an arm is right if it orders a random pair of items as the truth does. If more than half of the
  weight does, so does the weighted majority on that pair. So does Kemeny's order, as long as the majorities
  do not contradict one another. Borda's order and the sum of scores need not.
- Subsets: an arm is right if it judges a random label as the truth does.
- Texts: an arm is fully right if its answer is the truth, and partly right if it shares words with it. The
  bound holds for fully right answers. Partial credit makes δ a setting, as for the weighted mean.
- Spans: an arm is right if it treats a random place of the text as the truth does. If more than half of the
  weight does, so does the vote on that place. Its boundaries are right if those of more than half of the
  weight are.

For these kinds δ_A bounds the expected reward of the answer under two assumptions: errors are independent,
and an arm is as likely to be right at one tolerance (or on one pair) as at another. Both rarely hold. Narrow
tolerances are hard for all arms together, just as label errors are correlated. Check δ by replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes on one question and how much each counts.

    Attributes:
        votes: arm → vote.
        weights: arm → ω ≥ 0.
        tie_breakers: arm → L, used where the weights are tied.
        correctness: arm → its expected reward in [0, 1], used to compute the score.
    """

    votes: Mapping[str, str]
    weights: Mapping[str, float]
    tie_breakers: Mapping[str, float]
    correctness: Mapping[str, float]


class Aggregation(Protocol):
    """One way of counting votes.

    ``options`` are the labels of a question, or the items to rank. Open questions have none.
    """

    def guess(self, options: Sequence[str]) -> float:
        """The expected reward of a random vote, in [0, 1].

        Raises:
            InvalidParameterError: the options leave nothing to decide.
        """
        ...

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """Combine the votes into an answer.

        Returns:
            The answer, and a mapping from each possible answer to its expected reward given the votes. If
            the possible answers cannot be listed, the mapping holds the answer alone.

        Raises:
            InvalidParameterError: there is no vote, or a vote does not answer the question.
        """
        ...

    def reward(self, vote: str, answer: str) -> float:
        """The reward of a vote in [0, 1], given the aggregated answer or a human's answer."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one question and how sure it is.

    Attributes:
        label: the answer, written as a vote.
        score: the probability that the label is right, given the votes. For a number, a ranking or another
            answer with fractional rewards it is the expected reward, in [0, 1].
        posterior: answer → its probability or expected reward. For kinds whose answers cannot be listed it
            holds ``label`` alone.
        trust: the share of ``score`` in the score that is shown, in [0, 1]; the rest is a scorer's, which
            knows votes alone (:mod:`camvo.scores.scorer`). It is 0 if the policy has no model of the votes,
            ½ if votes alone taught that model, and more the more human labels or the task's context did.

    >>> decision = Decision("pos", 0.9, {"neg": 0.1, "pos": 0.9})
    >>> decision.label, decision.score
    ('pos', 0.9)
    """

    label: str
    score: float
    posterior: Mapping[str, float]
    trust: float = 0.0
