"""Made-up texts about topics, and the votes of models on them: what a student that reads texts can learn."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from camvo.replays.replay import VotesTable
from camvo.typing import Array

sys.path.append(str(Path(__file__).parent / "labels_per_dollar"))
from synthetic_votes import SyntheticModel

_OWN_WORDS, _COMMON_WORDS = 300, 600
_SHORTEST, _LONGEST = 8, 20
_ASIDE = 0.25
"""The largest share of words from another topic than the item's."""

_HARDNESS: Final = 0.8
"""How far the errors of models depend on how clear a text is, on the probit scale."""

_SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")
_DIMENSION: Final = 8


def draw_topic_texts(
    models: Mapping[str, SyntheticModel],
    *,
    items: int,
    topics: int,
    seed: int,
    topical: tuple[float, float] = (0.25, 0.7),
) -> VotesTable:
    """Draw texts of 8 to 20 made-up words, each about one topic, and the votes of models on the topic.

    Words are drawn from those of the topic, those of another topic, and common ones; frequent words are far
    more frequent than rare ones. The fewer words a text has of its own topic, the likelier all models are to
    be wrong together, and wrong votes name the other topic in most cases. The contexts are noise.

    Args:
        models: name → accuracy and price.
        items: n, the number of items.
        topics: M ≥ 2, the number of labels.
        seed: the same seed draws the same table.
        topical: the range of the share of an item's words that are of its topic; at most 0.75. The larger it
            is, the more the texts teach.
    """
    rng = np.random.default_rng(seed)
    vocabulary = _words(rng, topics * _OWN_WORDS + _COMMON_WORDS)
    truth = rng.integers(topics, size=items)
    aside = (truth + rng.integers(1, topics, size=items)) % topics
    clear, distracting = rng.uniform(*topical, size=items), rng.uniform(0.0, _ASIDE, size=items)
    texts = [
        _text(rng, vocabulary, (int(own), int(other)), (share, distraction), topics)
        for own, other, share, distraction in zip(truth, aside, clear, distracting, strict=True)
    ]
    clearness = clear - distracting
    votes = _votes(rng, models, truth, aside, (clearness - clearness.mean()) / clearness.std(), topics)
    return VotesTable(
        labels=tuple(f"topic {number}" for number in range(topics)),
        prices={name: model.price for name, model in models.items()},
        contexts=rng.normal(size=(items, _DIMENSION)),
        votes=votes,
        truth=truth.astype(np.int64),
        texts=texts,
    )


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """Different words of two to four syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choice(_SYLLABLES, size=rng.integers(2, 5)))] = None
    return list(words)


def _text(
    rng: np.random.Generator,
    vocabulary: list[str],
    about: tuple[int, int],
    shares: tuple[float, float],
    topics: int,
) -> str:
    length = int(rng.integers(_SHORTEST, _LONGEST + 1))
    source = rng.choice(3, size=length, p=[*shares, 1.0 - sum(shares)])
    starts = np.array([*(topic * _OWN_WORDS for topic in about), topics * _OWN_WORDS])[source]
    sizes = np.array([_OWN_WORDS, _OWN_WORDS, _COMMON_WORDS])[source]
    ranks = (sizes ** rng.random(length)).astype(np.int64) - 1  # as frequent as in Zipf's law
    return " ".join(vocabulary[number] for number in (starts + ranks).tolist())


def _votes(  # noqa: PLR0917 - one draw of a table
    rng: np.random.Generator,
    models: Mapping[str, SyntheticModel],
    truth: NDArray[np.int64],
    aside: NDArray[np.int64],
    clearness: Array,
    topics: int,
) -> NDArray[np.int64]:
    accuracy = np.array([model.accuracy for model in models.values()])
    shape = (len(truth), len(models))
    right = ndtr(ndtri(accuracy) * np.sqrt(1.0 + _HARDNESS**2) + _HARDNESS * clearness[:, None])
    other = (truth[:, None] + rng.integers(1, topics, size=shape)) % topics
    wrong = np.where(rng.random(shape) < 0.7, aside[:, None], other)
    return np.where(rng.random(shape) < right, truth[:, None], wrong).astype(np.int64)
