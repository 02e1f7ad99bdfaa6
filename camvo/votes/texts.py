"""Open answers such as dates and short texts: a vote over the answers that arms gave."""

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

_Comparison: TypeAlias = Literal["exact", "words"]

_FINAL = ".,;:!?…\"'”’»"
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\S)+")


def normalise_text(text: str) -> str:
    """Normalise a text for comparison: Unicode compatibility (NFKC), case, blanks, final punctuation.

    >>> normalise_text(' New  YORK. '), normalise_text('-5')
    ('new york', '-5')
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.lstrip("\"'“„‘«").rstrip(_FINAL + " ")


def _word_overlap(left: str, right: str) -> float:
    """F₁ over the words of two normalised texts, in [0, 1]; over characters in Chinese and Japanese."""
    if left == right:
        return 1.0
    ours, theirs = _words(left), _words(right)
    return 2.0 * (ours & theirs).total() / max((ours + theirs).total(), 1)


@dataclass(frozen=True, slots=True)
class OpenVote:
    """A weighted vote over open answers; there are no options.

    With ``comparison="words"``, texts are compared after :func:`normalise_text`. The answer is the spelling
    with the most weight among those of the winning text. If no two texts agree, the answer is the medoid:
    the text with the largest weighted average overlap of words (F₁) with all texts, itself included. Of all
    given texts it has the largest expected reward. The reward is the overlap, too, so that an answer that
    lacks a word earns more than a wrong one. Dates are compared exactly.

    The score depends on how many answers were possible: agreement of two arms is weak evidence among two
    labels and strong evidence among a million. Arms with a wrong text choose among few plausible answers. M
    is therefore the number of plausible answers, not of all possible texts. There are ``size`` of them, and
    at least one that no arm gave.

    Attributes:
        comparison: ``"exact"`` (dates) or ``"words"`` (texts).
        size: M ≥ 2, the number of plausible answers.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": "Ada Lovelace", "b": "ada lovelace.", "c": "Byron"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = OpenVote("words").aggregate(ballot, ())
    >>> answer, round(scores[answer], 2)
    ('Ada Lovelace', 0.97)
    """

    comparison: _Comparison = "exact"
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
        """The answer, and its expected reward by the :func:`.label_posterior` of M answers."""
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        keys = {arm: self._key(vote) for arm, vote in sorted(ballot.votes.items())}
        distinct = sorted(set(keys.values()))
        if self.comparison == "words" and len(distinct) == len(keys) > 1:
            winner = self._medoid(keys, distinct, ballot)
        else:
            winner = weighted_vote(keys, ballot.weights, distinct, ballot.tie_breakers)
        spellings = {arm: ballot.votes[arm] for arm, key in keys.items() if key == winner}
        answer = weighted_vote(
            spellings, ballot.weights, sorted(set(spellings.values())), ballot.tie_breakers
        )
        unnamed = [f"\0{number}" for number in range(max(self.size - len(distinct), 1))]
        chances = label_posterior(keys, ballot.correctness, [*distinct, *unnamed])
        return answer, {
            answer: min(math.fsum(chances[key] * self._similarity(key, winner) for key in distinct), 1.0)
        }

    def reward(self, vote: str, answer: str) -> float:
        """1 for an equal answer. Otherwise the overlap of words for ``"words"`` and 0 for ``"exact"``."""
        return self._similarity(self._key(vote), self._key(answer))

    def _key(self, vote: str) -> str:
        key = normalise_text(vote) if self.comparison == "words" else vote
        if not key.strip():
            raise InvalidParameterError("an answer is blank")
        return key

    def _similarity(self, left: str, right: str) -> float:
        return _word_overlap(left, right) if self.comparison == "words" else float(left == right)

    def _medoid(self, keys: Mapping[str, str], distinct: Sequence[str], ballot: Ballot) -> str:
        """The text with the largest weighted overlap with all texts."""

        def total(candidate: str, weights: Mapping[str, float]) -> float:
            return round(
                math.fsum(weights[arm] * _word_overlap(candidate, key) for arm, key in keys.items()), 12
            )

        return max(distinct, key=lambda text: (total(text, ballot.weights), total(text, ballot.tie_breakers)))


def _words(text: str) -> Counter[str]:
    return Counter(word for token in _WORD.findall(text) if (word := token.strip(_FINAL)))
