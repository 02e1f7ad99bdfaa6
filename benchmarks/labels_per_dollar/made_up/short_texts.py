"""Short texts with topic labels, from which a student can learn what the models would say."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from made_up.drawing import Kind, MadeUp, cast_votes, drawn_latent, drawn_truth, table_of

TOPICS = 12
ACCURACIES = (0.8, 0.78, 0.77, 0.75, 0.7, 0.6, 0.5)
_OWN_WORDS, _COMMON_WORDS, _DIMENSION = 30, 120, 32
_ENDINGS = ("", "s", "ing", "ed", "er", "ation")
_SYLLABLES = tuple(c + v for c in "bcdfghklmnprstvw" for v in "aeiou")


def short_texts(rng: np.random.Generator, n: int) -> MadeUp:
    """Texts of four to eleven words; the fewer of them are the topic's own, the harder for every model.

    Words are stems with endings, so character n-grams recognise them in any form. The context is the mean of
    the stems' random vectors with noise. It knows topics less well than the words do.
    """
    truth = drawn_truth(rng, n, TOPICS)
    decoys = (truth + rng.integers(1, TOPICS, size=n)) % TOPICS
    stems = _stems(rng, TOPICS * _OWN_WORDS + _COMMON_WORDS)
    vectors = rng.normal(size=(len(stems), _DIMENSION))
    own, others = rng.integers(0, 5, size=n), rng.integers(0, 3, size=n)
    fill = rng.integers(4, 6, size=n)
    texts, contexts = [], np.empty((n, _DIMENSION))
    for item in range(n):
        words = np.concatenate(
            [
                truth[item] * _OWN_WORDS + rng.integers(_OWN_WORDS, size=own[item]),
                decoys[item] * _OWN_WORDS + rng.integers(_OWN_WORDS, size=others[item]),
                TOPICS * _OWN_WORDS + rng.integers(_COMMON_WORDS, size=fill[item]),
            ]
        )
        endings = rng.integers(len(_ENDINGS), size=len(words))
        shown = rng.permutation(
            [stems[word] + _ENDINGS[ending] for word, ending in zip(words, endings, strict=True)]
        )
        texts.append(" ".join(shown))
        contexts[item] = vectors[words].mean(axis=0)
    contexts += 0.15 * rng.normal(size=contexts.shape)
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    clear = own - others
    ease = 0.7 * (clear - clear.mean()) / clear.std() + np.sqrt(1.0 - 0.7**2) * rng.normal(size=n)
    right = drawn_latent(rng, ease, len(ACCURACIES), 0.6) > -ndtri(ACCURACIES)
    votes = cast_votes(rng, truth, right, TOPICS, decoys=decoys)
    return MadeUp(table_of(votes, truth, contexts, TOPICS), texts=tuple(texts))


def _stems(rng: np.random.Generator, count: int) -> list[str]:
    """Different words of three syllables."""
    numbers = rng.choice(len(_SYLLABLES) ** 3, size=count, replace=False)
    parts = (np.unravel_index(number, (len(_SYLLABLES),) * 3) for number in numbers)
    return ["".join(_SYLLABLES[part] for part in three) for three in parts]


KINDS = (Kind("short texts with topics", 10000, TOPICS, short_texts),)
