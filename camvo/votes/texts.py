"""Answers that cannot be listed beforehand, such as dates and short texts: the vote over those that came."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior, weighted_vote

Comparison: TypeAlias = Literal["exact", "words"]

_FINAL = ".,;:!?…\"'”’»"
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\S)+")


def normalise_text(text: str) -> str:
    """A text as it is compared: compatible characters, letter case, blanks and final punctuation made one.

    >>> normalise_text(' New  YORK. '), normalise_text('-5')
    ('new york', '-5')
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.lstrip("\"'“„‘«").rstrip(_FINAL + " ")


def word_overlap(left: str, right: str) -> float:
    """The F₁ of the words of two normalised texts (Chinese and Japanese: characters), 1 if they are equal.

    >>> word_overlap("paris", "paris, france"), word_overlap("2018", "2019")
    (0.6666666666666666, 0.0)
    """
    if left == right:
        return 1.0
    ours, theirs = _words(left), _words(right)
    return 2.0 * (ours & theirs).total() / max((ours + theirs).total(), 1)


@dataclass(frozen=True, slots=True)
class OpenVote:
    """A weighted vote over the answers that came; there are no options.

    Texts are compared :func:`normalise_text`, and what is answered is the most weighty of the spellings that won.
    Where no two texts agree there is nothing to count, and the medoid is answered: the text with the greatest
    :func:`word_overlap` on the weighted average, itself included. Of all the answers that came it promises the
    greatest reward. The reward is the overlap too, so that who left out a word is not as wrong as who named
    another thing; dates are compared exactly.

    The score needs to know how many answers were possible: two arms that agree on one of two labels say
    little, on one of a million a lot. In a free text arms that err do not err at random but in the few ways
    that suggest themselves, so M stands for the plausible answers, not for all that could be written. There
    are ``size`` of them, and at least one that nobody gave.

    Attributes:
        comparison: ``"exact"`` or ``"words"``.
        size: M ≥ 2.
    """

    comparison: Comparison = "exact"
    size: int = 10

    def __post_init__(self) -> None:
        if self.comparison not in ("exact", "words") or self.size < 2:
            raise InvalidParameterError(
                f'need "exact" or "words" and M ≥ 2, got {self.comparison!r} and {self.size}'
            )

    def guess(self, options: Sequence[str]) -> float:
        """1/M."""
        return 1.0 / self.size

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The answer, and the reward it can expect by :func:`camvo.votes.labels.label_posterior` of M answers."""
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        keys = {arm: self._key(vote) for arm, vote in sorted(ballot.votes.items())}
        given = sorted(set(keys.values()))
        if self.comparison == "words" and len(given) == len(keys) > 1:
            winner = self._medoid(keys, given, ballot)
        else:
            winner = weighted_vote(keys, ballot.weights, given, ballot.tie_breakers)
        spellings = {arm: ballot.votes[arm] for arm, key in keys.items() if key == winner}
        answer = weighted_vote(
            spellings, ballot.weights, sorted(set(spellings.values())), ballot.tie_breakers
        )
        unnamed = [f"\0{number}" for number in range(max(self.size - len(given), 1))]
        chances = label_posterior(keys, ballot.correctness, [*given, *unnamed])
        return answer, {answer: min(math.fsum(chances[key] * self._alike(key, winner) for key in given), 1.0)}

    def reward(self, vote: str, answer: str) -> float:
        """1 for an equal answer; for texts else the overlap, for anything else 0."""
        return self._alike(self._key(vote), self._key(answer))

    def _key(self, vote: str) -> str:
        key = normalise_text(vote) if self.comparison == "words" else vote
        if not key.strip():
            raise InvalidParameterError("an answer is blank")
        return key

    def _alike(self, left: str, right: str) -> float:
        return word_overlap(left, right) if self.comparison == "words" else float(left == right)

    def _medoid(self, keys: Mapping[str, str], given: Sequence[str], ballot: Ballot) -> str:
        """Every answer with the weight of all arms, each as far as its own answer is like it."""

        def total(candidate: str, weights: Mapping[str, float]) -> float:
            return round(
                math.fsum(weights[arm] * word_overlap(candidate, key) for arm, key in keys.items()), 12
            )

        return max(given, key=lambda one: (total(one, ballot.weights), total(one, ballot.tie_breakers)))


def _words(text: str) -> Counter[str]:
    return Counter(word for found in _WORD.findall(text) if (word := found.strip(_FINAL)))
