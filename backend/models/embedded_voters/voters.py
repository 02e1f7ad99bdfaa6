"""Zero-shot voters: each chooses a label for any text from any label set, without a key or a network.

A voter is a pure function of the text, the labels and the vectors of its phrases. Ties go to the label that
comes first in the label config.
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
"""The labels, each a visible text and a hint or ``None``, in the order of the label config; not empty."""

Vectors: TypeAlias = Mapping[str, Array]
"""Phrase → its unit vector, shape (d,)."""


class Voter(Protocol):
    """Chooses a label for a text."""

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """Return the phrases whose vectors :meth:`choose` needs."""

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """Return the visible text of one of the labels."""


@dataclass(frozen=True, slots=True)
class CosineVoter:
    """Compares vectors: each passage of the text votes for the label whose description is nearest to it.

    The weight of a passage's vote is its label's lead over the second best. If no passage prefers a label,
    the sum of the cosines decides. With one passage this is the nearest label.

    Attributes:
        passages: cuts a text into passages.
        describe: returns the phrases for a label's name and hint; the mean of their vectors is compared.
    """

    passages: Callable[[str], tuple[str, ...]]
    describe: Callable[[str, str | None], tuple[str, ...]]

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """Return the passages of the text and the descriptions of the labels."""
        described = (phrase for name, hint in labels for phrase in self.describe(name, hint))
        return (*self.passages(text), *described)

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """Return the label with the greatest weight of passages."""
        directions = [_direction([vectors[phrase] for phrase in self.describe(*label)]) for label in labels]
        leads, sums = [0.0] * len(labels), [0.0] * len(labels)
        for passage in self.passages(text):
            cosines = [float(vectors[passage] @ direction) for direction in directions]
            leads[_best(cosines)] += _lead(cosines)
            sums = [total + cosine for total, cosine in zip(sums, cosines, strict=True)]
        return labels[_best(list(zip(leads, sums, strict=True)))][0]


@dataclass(frozen=True, slots=True)
class LexicalVoter:
    """Compares words: counts the features that a text shares with a label's name and hint.

    A feature of several labels is divided among them. If no feature is shared, all labels tie.

    Attributes:
        features: counts the features of a text.
    """

    features: Callable[[str], Counter[str]]

    def phrases(self, text: str, labels: LabelSet) -> tuple[str, ...]:
        """Return nothing: this voter needs no vectors."""
        return ()

    def choose(self, text: str, labels: LabelSet, vectors: Vectors) -> str:
        """Return the label that shares most features with the text, relative to the label's length."""
        counts = self.features(text)
        label_features = [set(self.features(f"{name} {hint or ''}")) for name, hint in labels]
        owners = Counter(feature for owned in label_features for feature in owned)
        scores = []
        for owned in label_features:
            # sorted, so that every process rounds the sum in the same way
            shared = sum(counts[feature] / owners[feature] for feature in sorted(owned))
            scores.append(shared / math.sqrt(len(owned)) if owned else 0.0)
        return labels[_best(scores)][0]


VOTERS: Mapping[str, Voter] = {
    "overlap": LexicalVoter(features.stems),
    "keywords": CosineVoter(features.words, features.hint_sentences),
    "label-name": CosineVoter(features.whole_text, features.label_name),
    "label-sentence": CosineVoter(features.whole_text, features.sentence_about),
    "hints": CosineVoter(features.whole_text, features.hint_sentences),
    "sentences": CosineVoter(features.sentences, features.hint_sentences_and_name),
    "everything": CosineVoter(features.whole_text, features.all_phrases),
}
"""Name → voter, weakest first; litellm's name is ``embedded/<name>``."""


def _direction(vectors: Sequence[Array]) -> Array:
    mean: Array = np.mean(vectors, axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _lead(scores: Sequence[float]) -> float:
    """Return the distance from the best score to the second best; 0 for a single score."""
    best, *others = sorted(scores, reverse=True)
    return best - others[0] if others else 0.0


def _best(scores: Sequence[float] | Sequence[tuple[float, float]]) -> int:
    return max(range(len(scores)), key=lambda position: scores[position])
