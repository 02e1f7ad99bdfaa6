"""Tables on which a model of votes may do far worse than the majority: one kind for each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from made_up.drawing import Kind, MadeUp, drawn_contexts, drawn_latent, drawn_truth, table_of, voted
from made_up.families import RIGHT_ON_FIRST, RIGHT_ON_SECOND

_ITEMS: Final = 2000
_SHARED: Final = 0.3
"""The item's difficulty as a share of the latent variance."""

_Votes = NDArray[np.int64]


def _voted(rng: np.random.Generator, truth: _Votes, accuracies: Sequence[float], labels: int) -> _Votes:
    """The votes of models that err together only because items are hard, with 1% of the votes missing."""
    votes = voted(rng, truth, accuracies, labels, shared=_SHARED)
    votes[rng.random(votes.shape) < 0.01] = -1
    return votes


def _made_up(rng: np.random.Generator, votes: _Votes, truth: _Votes, labels: int) -> MadeUp:
    prices = tuple(np.geomspace(15.0, 0.35, votes.shape[1]).tolist())
    contexts = drawn_contexts(rng, truth, labels, np.zeros(len(truth)))
    return MadeUp(table_of(votes, truth, contexts, labels, prices))


def _good_among_weak(good: int, labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Good models among three to six weak ones."""
    truth = drawn_truth(rng, n, labels)
    better, worse = rng.choice((0.9, 0.93, 0.96)), rng.choice((0.5, 0.6))
    accuracies = [better] * good + [worse] * int(rng.integers(3, 7))
    return _made_up(rng, _voted(rng, truth, accuracies, labels), truth, labels)


def _third_label(share: float, rng: np.random.Generator, n: int) -> MadeUp:
    """Biased services on two labels; a share of the items has a third label, or 0: one stray vote for it."""
    truth = rng.choice(2, n, p=(0.55, 0.45))
    chances = np.where(truth[:, None] == 0, RIGHT_ON_FIRST, RIGHT_ON_SECOND)
    votes = voted(rng, truth, chances, 2, shared=0.7)
    third = rng.random(n) < share
    truth[third] = 2
    seen = third[:, None] & (rng.random(votes.shape) < 0.7)
    votes[seen] = 2
    votes[rng.integers(min(n, 300)), rng.integers(votes.shape[1])] = 2
    return _made_up(rng, votes, truth, 3)


def _hedged(models: Sequence[int], rate: float, rng: np.random.Generator, n: int) -> MadeUp:
    """The same services; some call the items that are hardest for them the third label, 5% of all have it."""
    truth, ease = rng.choice(2, n, p=(0.55, 0.45)), rng.normal(size=n)
    chances = np.where(truth[:, None] == 0, RIGHT_ON_FIRST, RIGHT_ON_SECOND)
    votes = voted(rng, truth, chances, 2, ease=ease, shared=0.7)
    hard = drawn_latent(rng, ease, votes.shape[1], 0.7) < ndtri(rate)
    for model in models:
        votes[hard[:, model], model] = 2
    third = rng.random(n) < 0.05
    truth[third] = 2
    votes[third[:, None] & (rng.random(votes.shape) < 0.7)] = 2
    return _made_up(rng, votes, truth, 3)


def _constant(constants: int, labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Models that give the commonest label to 97% of the items, among models that know some of it."""
    truth = drawn_truth(rng, n, labels)
    votes = _voted(rng, truth, (0.85, 0.8, 0.75, 0.7), labels)
    habits = np.where(rng.random((n, constants)) < 0.97, 0, rng.integers(labels, size=(n, constants)))
    return _made_up(rng, np.hstack([votes, habits]), truth, labels)


def _mapped(change: Callable[[_Votes], _Votes], labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """The models say another label than people where ``change`` says so."""
    truth = drawn_truth(rng, n, labels)
    votes = _voted(rng, change(truth), (0.88, 0.84, 0.8, 0.75, 0.7), labels)
    return _made_up(rng, votes, truth, labels)


def _blind_spot(truth: _Votes) -> _Votes:
    return np.where(truth == 2, 0, truth)


def _mapping(truth: _Votes) -> _Votes:
    return np.array([0, 2, 2, 3])[truth]


def _shift(truth: _Votes) -> _Votes:
    return np.maximum(truth - 1, 0)


def _compression(truth: _Votes) -> _Votes:
    return np.clip(truth, 1, 3)


def _unused(labels: int, used: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Nobody votes for most of the labels of the config, and none of them is right."""
    truth = drawn_truth(rng, n, used)
    return _made_up(rng, _voted(rng, truth, (0.86, 0.8, 0.75, 0.7, 0.65), used), truth, labels)


def _copies(of: float, others: Sequence[float], labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Three models of that accuracy of which two repeat the first in three of four items."""
    truth = drawn_truth(rng, n, labels)
    votes = _voted(rng, truth, (*others, of, of, of), labels)
    for copy in (-2, -1):
        same = rng.random(n) < 0.75
        votes[same, copy] = votes[same, -3]
    return _made_up(rng, votes, truth, labels)


def _two_modes(labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Three models follow the truth, and three another reading that agrees with it on some items."""
    truth = drawn_truth(rng, n, labels)
    reading = np.where(rng.random(n) < 0.5, truth, drawn_truth(rng, n, labels))
    votes = [_voted(rng, follows, (0.86, 0.83, 0.8), labels) for follows in (truth, reading)]
    tie = _voted(rng, truth, (0.7,), labels)
    return _made_up(rng, np.hstack([*votes, tie]), truth, labels)


def _wide(models: int, labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    truth = drawn_truth(rng, n, labels)
    accuracies = np.linspace(0.86, 0.66, models).tolist()
    return _made_up(rng, _voted(rng, truth, accuracies, labels), truth, labels)


def _unlike(labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    """Nothing is wrong: models of very different accuracy, the cheapest at chance, err independently."""
    truth = drawn_truth(rng, n, labels)
    votes = voted(rng, truth, (0.92, 0.86, 0.78, 0.65, 1.0 / labels), labels, shared=0.0)
    return _made_up(rng, votes, truth, labels)


_ALIKE = (0.72, 0.7, 0.68, 0.66)
_STRONG, _WEAK = (0.84, 0.83, 0.82, 0.81), (0.6, 0.58, 0.56, 0.54)

KINDS = tuple(
    Kind(name, _ITEMS, labels, draw)
    for name, labels, draw in (
        *(
            (
                f"{good} good among weak, {labels} labels",
                labels,
                partial(_good_among_weak, good, labels),
            )
            for labels in (2, 3, 5, 10)
            for good in (2, 3, 4, 5)
        ),
        ("a stray third label", 3, partial(_third_label, 0.0)),
        ("a rare third label", 3, partial(_third_label, 0.005)),
        ("a common third label", 3, partial(_third_label, 0.2)),
        ("one of four models hedges with a third label", 3, partial(_hedged, (3,), 0.1)),
        ("two of four models hedge with a third label", 3, partial(_hedged, (0, 3), 0.3)),
        ("one constant voter, 2 labels", 2, partial(_constant, 1, 2)),
        ("one constant voter, 3 labels", 3, partial(_constant, 1, 3)),
        ("one constant voter, 5 labels", 5, partial(_constant, 1, 5)),
        ("three constant voters, 2 labels", 2, partial(_constant, 3, 2)),
        ("two constant voters, 3 labels", 3, partial(_constant, 2, 3)),
        ("three constant voters, 4 labels", 4, partial(_constant, 3, 4)),
        ("a label that all models miss", 4, partial(_mapped, _blind_spot, 4)),
        ("labels that nobody votes, 2 of 6 used", 6, partial(_unused, 6, 2)),
        ("labels that nobody votes, 3 of 10 used", 10, partial(_unused, 10, 3)),
        ("a convention: a map of labels", 4, partial(_mapped, _mapping, 4)),
        ("a convention: one lower", 5, partial(_mapped, _shift, 5)),
        ("a convention: compressed", 5, partial(_mapped, _compression, 5)),
        ("three copies of a weak model, 2 labels", 2, partial(_copies, 0.66, _STRONG, 2)),
        ("three copies of a weak model, 4 labels", 4, partial(_copies, 0.66, _STRONG, 4)),
        ("three copies of a model among alike, 2 labels", 2, partial(_copies, 0.66, _ALIKE, 2)),
        ("three copies of a model among alike, 4 labels", 4, partial(_copies, 0.66, _ALIKE, 4)),
        ("three copies of a good model, 2 labels", 2, partial(_copies, 0.92, _WEAK, 2)),
        ("three copies of a good model, 4 labels", 4, partial(_copies, 0.92, _WEAK, 4)),
        ("two modes, 2 labels", 2, partial(_two_modes, 2)),
        ("two modes, 4 labels", 4, partial(_two_modes, 4)),
        ("five unlike models, 2 labels", 2, partial(_unlike, 2)),
        ("five unlike models, 3 labels", 3, partial(_unlike, 3)),
        ("11 models", 4, partial(_wide, 11, 4)),
        ("13 models, 2 labels", 2, partial(_wide, 13, 2)),
        ("15 models", 4, partial(_wide, 15, 4)),
    )
)
"""These are for ``disasters.py``: fits to votes alone; the benchmark of policies does not replay them."""
