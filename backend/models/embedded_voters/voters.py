"""Zero-shot voters: each answers a question about any text from any label set, without a key or a network.

A voter is a pure function of the text, the labels and the vectors of the phrases it named before. Two
labels that it finds equally good are a tie, which goes to the one that comes first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from backend.models.embedded_voters import features
from camvo.typing import Array

LabelSet: TypeAlias = Sequence[tuple[str, str | None]]
"""The labels' visible texts, each with its hint or ``None``, in the order of the label config; not empty."""

Vectors: TypeAlias = Mapping[str, Array]
"""Phrase → its unit vector, shape (d,)."""


class Voter(Protocol):
    """Anything that chooses a label for a text."""

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """What :meth:`choose` needs the vectors of."""

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """The text of one of the labels."""


@dataclass(frozen=True, slots=True)
class CosineVoter:
    """Compares vectors: each passage of the text votes for the label whose description is closest to it.

    A vote counts as much as its label leads before the next one; where no passage prefers any, the sum of
    the cosines decides. With one passage this is the plain nearest label.

    Attributes:
        passages: what the text is cut into.
        describe: the phrases that stand for a label, given its name and its hint; their mean is compared.
    """

    passages: Callable[[str], tuple[str, ...]]
    describe: Callable[[str, str | None], tuple[str, ...]]

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """The passages of the text and the descriptions of the labels."""
        described = (phrase for name, hint in labels for phrase in self.describe(name, hint))
        return (*self.passages(text), *described)

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """The label with the weightiest passages."""
        directions = [_direction([vectors[phrase] for phrase in self.describe(*label)]) for label in labels]
        leads, sums = [0.0] * len(labels), [0.0] * len(labels)
        for passage in self.passages(text):
            cosines = [float(vectors[passage] @ direction) for direction in directions]
            leads[_best(cosines)] += _lead(cosines)
            sums = [total + cosine for total, cosine in zip(sums, cosines, strict=True)]
        return labels[_best(list(zip(leads, sums, strict=True)))][0]


@dataclass(frozen=True, slots=True)
class LexicalVoter:
    """Compares letters: how many features the text shares with a label's name and hint, and with no other.

    A feature that several labels have counts less for each. Where nothing is shared all labels tie.

    Attributes:
        features: what is counted in a text, and how often it is there.
    """

    features: Callable[[str], Counter[str]]

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """None: it needs no vectors."""
        return ()

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """The label that shares most with the text, for its own length."""
        found = self.features(text)
        described = [set(self.features(f"{name} {hint or ''}")) for name, hint in labels]
        owners = Counter(feature for owned in described for feature in owned)
        scores = []
        for owned in described:
            # sorted, so that the rounding of a sum is the same in every process
            shared = sum(found[feature] / owners[feature] for feature in sorted(owned))
            scores.append(shared / math.sqrt(len(owned)) if owned else 0.0)
        return labels[_best(scores)][0]


VOTERS: Mapping[str, Voter] = {
    "overlap": LexicalVoter(features.stems),
    "keywords": CosineVoter(features.words, features.hint_sentences),
    "label-name": CosineVoter(features.whole, features.name),
    "label-sentence": CosineVoter(features.whole, features.sentence_about),
    "hints": CosineVoter(features.whole, features.hint_sentences),
    "sentences": CosineVoter(features.sentences, features.hint_sentences_and_name),
    "everything": CosineVoter(features.whole, features.everything),
}
"""The voters by name, the weakest first; litellm's name is ``embedded/`` and this."""


def _direction(vectors: Sequence[Array]) -> Array:
    mean: Array = np.mean(vectors, axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _lead(scores: Sequence[float]) -> float:
    """How far the best is before the second best; 0 where there is only one."""
    best, *others = sorted(scores, reverse=True)
    return best - others[0] if others else 0.0


def _best(scores: Sequence[float] | Sequence[tuple[float, float]]) -> int:
    return max(range(len(scores)), key=lambda position: scores[position])
