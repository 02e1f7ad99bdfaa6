"""The student: a free arm that learns from the labels of past texts.

A ridge regression on hashed character n-grams gives each label a score. The lead of the first label over the
second measures how sure the student is. The lead is calibrated on texts that the student has not seen: every
fifth text is held out, and a logistic curve of the lead is fitted to whether the student was right about it.
Then the student learns from all texts. The penalty of the regression is the one with which the student is
right about more of the texts held out.

A student that does not expect to be right gives no vote. It is therefore silent if it has few texts, or if
the answer does not depend on the topic, as with the letters of multiple-choice questions.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import compress, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from camvo.typing import Array

_BOUND: Final = 2**15
"""The numbers are below it."""

_COUNT: Final = np.dtype("<u2")


def _pack_numbers(numbers: NDArray[np.integer]) -> bytes:
    """The bytes of distinct numbers in [0, :data:`_BOUND`), ascending, shape (f,)."""
    if not len(numbers):
        return b""
    low = _low_bits(len(numbers))
    gaps = np.diff(numbers.astype(np.int64), prepend=-1) - 1
    ends = np.cumsum((gaps >> low) + 1)
    bits = np.zeros(low * len(gaps) + ends[-1], np.uint8)
    bits[: low * len(gaps)] = (gaps[:, None] >> np.arange(low) & 1).ravel()
    bits[low * len(gaps) + ends - 1] = 1
    return np.array(len(gaps), _COUNT).tobytes() + np.packbits(bits).tobytes()


def _unpack_numbers(packed: bytes) -> NDArray[np.int64]:
    """Inverse of :func:`_pack_numbers`: the numbers, ascending, shape (f,)."""
    if not packed:
        return np.zeros(0, np.int64)
    count = int.from_bytes(packed[: _COUNT.itemsize], "little")
    low = _low_bits(count)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8, offset=_COUNT.itemsize))
    quotients = np.diff(np.flatnonzero(bits[low * count :]), prepend=-1) - 1
    gaps = (quotients << low) + bits[: low * count].reshape(count, low) @ (1 << np.arange(low))
    return np.cumsum(gaps + 1) - 1


def _low_bits(count: int) -> int:
    """How many bits of a gap are written as they are, 0 to 13: from the logarithm of 0.48 of the mean gap."""
    return (_BOUND * 48 // (100 * count)).bit_length()


_FEATURES: Final = _BOUND
"""The number of different features."""

_LONGEST: Final = 1000
"""How many characters of a text are read. Topics show early, and long texts would fill the memory:
1,000 characters of English take 1.1 kB."""

_LENGTHS: Final = (1, 2, 3, 4)
_MULTIPLIER, _MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT, _HALF = np.uint64(64 - 15), np.uint64(32)

Ngrams: TypeAlias = bytes
"""The features of a text: distinct numbers below :data:`_FEATURES`, packed. Equal sets have equal bytes."""

_SEAL: Final = b"\xff\xff"
"""Begins what is left of a text's features. No packed set does: its first two bytes are its size."""

_DIGEST: Final = 8
"""Bytes of a digest. Among 20,000 texts, two have the same with a probability of 10⁻¹¹."""


def hashed_ngrams(text: str) -> Ngrams:
    """The features of a text's first characters; case and the kind of blanks do not matter.

    >>> hashed_ngrams("Soup,  cold") == hashed_ngrams("soup, COLD")
    True
    """
    words = " ".join(text.lower().split())[:_LONGEST]
    codes = np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    hashes = [_buckets(codes, length) for length in _LENGTHS if len(codes) >= length]
    return _pack_numbers(np.unique(np.concatenate(hashes)).astype(np.int64))


def _numbers_in(ngrams: Ngrams) -> NDArray[np.int64]:
    """The features as numbers, ascending, shape (f,); none where only their seal is left."""
    return _unpack_numbers(b"" if _is_sealed(ngrams) else ngrams)


def sealed(ngrams: Ngrams) -> Ngrams:
    """The seal of features, which takes their place where they must be forgotten: a digest of them.

    The seal identifies the lesson of the student that is taken back. It reveals nothing about the text,
    except to somebody who guesses the whole text.

    >>> _numbers_in(sealed(hashed_ngrams("soup"))).tolist()
    []
    """
    return ngrams if _is_sealed(ngrams) else _SEAL + blake2b(ngrams, digest_size=_DIGEST).digest()


def _is_sealed(ngrams: Ngrams) -> bool:
    """Whether only the seal is left of the features."""
    return ngrams.startswith(_SEAL)


def _buckets(codes: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """The hash of each n-gram of one length: a polynomial of its characters modulo 2⁶⁴, mixed."""
    count = len(codes) - length + 1
    hashes: NDArray[np.uint64] = np.full(count, length, dtype=np.uint64)
    for offset in range(length):
        hashes += codes[offset : offset + count]
        hashes *= _MULTIPLIER
    hashes ^= hashes >> _HALF
    hashes *= _MIXER
    hashes >>= _SHIFT
    return hashes


STUDENT: Final = "student"
"""The name of the student among the arms."""

_MOST_TEXTS: Final = 20_000
"""How many texts are kept. Later ones are ignored, so that memory does not grow with the rounds; a text of
200 characters takes half a kilobyte."""

_GROWTH: Final = 1.25
"""The growth of the number of texts after which the student learns again."""


def without_silent_student(votes: Mapping[str, str | None]) -> dict[str, str | None]:
    """The votes without the student's entry if it gave no vote, for people: a silent student has no effect.

    >>> without_silent_student({"small": "pos", "large": None, "student": None})
    {'small': 'pos', 'large': None}
    """
    return {arm: vote for arm, vote in votes.items() if arm != STUDENT or vote is not None}


class TaughtText(NamedTuple):
    """One text that teaches.

    Attributes:
        ngrams: its features, or their seal once the text must be forgotten.
        label: the human label if there is one, otherwise the label that the other arms voted for.
    """

    ngrams: Ngrams
    label: str

    @property
    def sealed(self) -> TaughtText:
        """The text with the seal of its features. Texts with equal seals and labels are the same lesson."""
        return TaughtText(sealed(self.ngrams), self.label)

    def relabelled(self, label: Callable[[str], str | None]) -> TaughtText | None:
        """The text with another label; ``None`` without one."""
        new = label(self.label)
        return None if new is None else TaughtText(self.ngrams, new)

    def to_list(self) -> list[str]:
        """The text as plain JSON."""
        return [b64encode(self.ngrams).decode(), self.label]

    @classmethod
    def from_list(cls, data: Sequence[str]) -> TaughtText:
        """Inverse of :meth:`to_list`."""
        ngrams, label = data
        return cls(b64decode(ngrams), label)


class StudiedText(NamedTuple):
    """The text of a round, which teaches by the label that the round ends with.

    Attributes:
        ngrams: its features.
        voted: the label that the other arms voted for; ``None`` if none of them voted.
    """

    ngrams: Ngrams
    voted: str | None

    def lesson(self, human: str | None) -> TaughtText | None:
        """The lesson of the round, by the human label if there is one; ``None`` without any label."""
        label = human or self.voted
        return None if label is None else TaughtText(self.ngrams, label)

    def to_list(self) -> list[str | None]:
        """Its entry in a round's plan, as plain JSON. The n-grams are kept with the round's context."""
        return [self.voted]

    @classmethod
    def from_list(cls, data: Sequence[str | None], ngrams: Ngrams) -> StudiedText:
        """Inverse of :meth:`to_list`, with the n-grams beside the round."""
        (voted,) = data
        return cls(ngrams, voted)


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """An immutable view of the texts. Hashed by identity, so that the student taught by it can be cached.

    Attributes:
        texts: the texts, the oldest first.
    """

    texts: tuple[TaughtText, ...] = ()


_NO_LESSONS: Final = Lessons()


@dataclass(slots=True)
class TaughtTexts:
    """The texts that teach, in the order in which they were added.

    Sums over the same events have the same lessons in the same order, whether the features of a text were
    sealed before it was added, before it was taken back, or never.

    Attributes:
        texts: the texts, the oldest first.
        owed: the seals of texts that were removed before they were added, with their counts.
        lessons: the texts that the student has learnt from. They lag behind by a fifth at most, and are
            renewed at once if one of them is taken back.
    """

    texts: list[TaughtText] = field(default_factory=list)
    owed: Counter[TaughtText] = field(default_factory=Counter)
    lessons: Lessons = field(default=_NO_LESSONS, compare=False)
    _seals: list[Ngrams] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._seals = [sealed(text.ngrams) for text in self.texts]

    @property
    def full(self) -> bool:
        """Whether no further text should teach."""
        return len(self.texts) >= _MOST_TEXTS

    def add(self, text: TaughtText) -> None:
        """Add a text, or cancel it against one that is owed."""
        if self.owed[text.sealed] > 0:
            self.owed[text.sealed] -= 1
        else:
            self.texts.append(text)
            self._seals.append(sealed(text.ngrams))
            if len(self.texts) > _GROWTH * len(self.lessons.texts):
                self.lessons = Lessons(tuple(self.texts))
        self.owed = +self.owed

    def remove(self, text: TaughtText) -> None:
        """Remove the latest text that is the same lesson; without one, it is owed.

        The features of the one that is removed go to an earlier one whose features are sealed: that is the
        one that had to be forgotten.
        """
        same = self._same(text.sealed)
        if not same:
            self.owed[text.sealed] += 1
            return
        *earlier, last = same
        removed, known = self.texts.pop(last), len(self.lessons.texts)
        del self._seals[last]
        if last < known:
            known -= 1
            self.lessons = Lessons(tuple(self.texts[:known]))
        for at in earlier:
            if _is_sealed(self.texts[at].ngrams) and not _is_sealed(removed.ngrams):
                self.texts[at] = removed
                self.lessons = Lessons(tuple(self.texts[:known]))
                return

    def relabelled(self, label: Callable[[str], str | None]) -> TaughtTexts:
        """The same texts with other labels, without those that have none."""
        texts = [text.relabelled(label) for text in self.texts]
        owed = [text.relabelled(label) for text in self.owed.elements()]
        kept = [text for text in texts if text is not None]
        return TaughtTexts(kept, Counter(text for text in owed if text is not None), Lessons(tuple(kept)))

    def _same(self, lesson: TaughtText) -> list[int]:
        """The positions of a sealed lesson, ascending; found by the list itself, as there are thousands."""
        found, after = [], 0
        for _ in range(self._seals.count(lesson.ngrams)):
            after = self._seals.index(lesson.ngrams, after) + 1
            found.append(after - 1)
        return [at for at in found if self.texts[at].label == lesson.label]

    def to_list(self) -> list[Any]:
        """The texts as plain JSON, for a snapshot."""
        owed = [text.to_list() for text in self.owed.elements()]
        return [[text.to_list() for text in self.texts], owed, len(self.lessons.texts)]

    @classmethod
    def from_list(cls, data: list[Any]) -> TaughtTexts:
        """Inverse of :meth:`to_list`."""
        texts, owed = ([TaughtText.from_list(row) for row in part] for part in data[:2])
        return cls(texts, Counter(text.sealed for text in owed), Lessons(tuple(texts[: data[2]])))


_STEPS: Final = 25
_CLOSE: Final = 0.01
"""The relative residual at which to stop. More digits do not change which label comes first."""


def _fit_ridge(design: Any, targets: Array, ridge: float, start: Array | None = None) -> Array:
    """Minimise ‖design · W − targets‖² + ridge · ‖W‖² as far as 25 steps go.

    The columns are independent problems with one matrix, so each has its own step lengths.
    """
    transposed = design.T  # a view: 20,000 long texts take half a gigabyte
    residual = np.asarray(transposed @ targets)
    goal = _CLOSE**2 * (residual**2).sum(axis=0)
    weights = np.zeros_like(residual) if start is None else start.copy()
    if start is not None:
        residual -= transposed @ (design @ start) + ridge * start
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(_STEPS):
        if np.all(size <= goal):
            break
        image = transposed @ (design @ direction) + ridge * direction
        curvature = (direction * image).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0.0)
        weights += step * direction
        residual -= step * image
        following = (residual**2).sum(axis=0)
        direction = residual + direction * np.divide(
            following, size, out=np.zeros_like(size), where=size > 0.0
        )
        size = following
    return np.asarray(weights)


LEAST_TEXTS: Final = 300
"""The fewest texts that make a student."""

_Numbers: TypeAlias = NDArray[np.uint16]
"""The features of one text. They are unpacked once for all fits, in 16 bits: texts have hundreds of them."""

_FOLDS: Final = 5
_RIDGES: Final = (2.0, 0.5)
"""The penalties to choose from: the larger one for noisy labels, the smaller one for many labels."""

_LEAST_PROBABILITY: Final = 0.5


@dataclass(frozen=True, slots=True)
class StudentVote:
    """The student's vote on a text.

    Attributes:
        label: the label.
        confidence: the probability in [0, 1] that it is the label that will come out.
    """

    label: str
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """A student that has learnt.

    Attributes:
        labels: the labels that it has seen, M ≥ 2.
        rarity: how rare each feature is, log((1 + n) / (1 + texts with it)) + 1, shape (F,).
        weights: the weight of each feature for each label, shape (F, M).
        shares: the share of each label among the texts, shape (M,).
        line: (a, b): σ(a + b·lead) is the probability that the first label is right.
    """

    labels: tuple[str, ...]
    rarity: Array
    weights: Array
    shares: Array
    line: tuple[float, float]

    def vote(self, ngrams: Ngrams) -> StudentVote | None:
        """What the student says of a text; ``None`` if it does not expect to be right."""
        numbers = _numbers_in(ngrams)
        scores = _unit(self.rarity[numbers]) @ self.weights[numbers] + self.shares
        (first,), (lead,) = _leaders(scores[None])
        confidence = float(expit(self.line[0] + self.line[1] * lead))
        return StudentVote(self.labels[first], confidence) if confidence >= _LEAST_PROBABILITY else None


@lru_cache(maxsize=8)
def teach(lessons: Lessons) -> Student | None:
    """Teach a student; ``None`` with too few texts or labels. Cached by the identity of ``lessons``."""
    counts = Counter(text.label for text in lessons.texts)
    labels = tuple(sorted(counts))
    if len(lessons.texts) < LEAST_TEXTS or len(labels) < 2:
        return None
    texts = [_numbers_in(text.ngrams).astype(np.uint16) for text in lessons.texts]
    positions = {label: position for position, label in enumerate(labels)}
    truth = np.array([positions[text.label] for text in lessons.texts], dtype=np.int64)
    targets = np.eye(len(labels))[truth]
    held = np.arange(len(texts)) % _FOLDS == _FOLDS - 1
    learnt, tested = list(compress(texts, ~held)), list(compress(texts, held))
    fit: _Fit | None = None
    trials: list[tuple[int, float, tuple[float, float]]] = []
    for ridge in _RIDGES:
        fit = _fit(learnt, targets[~held], ridge, fit)
        first, lead = _leaders(np.asarray(_design(tested, fit.rarity) @ fit.weights) + fit.shares)
        right = first == truth[held]
        trials.append((int(right.sum()), ridge, _line(lead, right)))
    _, ridge, line = max(trials)
    final = _fit(texts, targets, ridge, fit)
    return Student(labels, final.rarity, final.weights, final.shares, line)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    rarity: Array
    weights: Array
    shares: Array


def _fit(texts: Sequence[_Numbers], targets: Array, ridge: float, near: _Fit | None) -> _Fit:
    """Fit the ridge regression of the labels, one-hot in ``targets``, around their shares.

    ``near`` is a fit of nearly the same problem: starting there saves time.
    """
    frequency = np.bincount(np.concatenate(texts), minlength=_FEATURES)
    rarity = np.log((1.0 + len(texts)) / (1.0 + frequency)) + 1.0
    shares = targets.mean(axis=0)
    start = None if near is None else near.weights
    return _Fit(rarity, _fit_ridge(_design(texts, rarity), targets - shares, ridge, start), shares)


def _design(rows: Sequence[_Numbers], rarity: Array) -> Any:
    """The texts' features weighted by rarity, each text of length 1; sparse, shape (n, F)."""
    ends = np.cumsum([0, *map(len, rows)])
    columns, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
    for row, (start, end) in zip(rows, pairwise(ends), strict=True):
        columns[start:end], values[start:end] = row, _unit(rarity[row])
    return sparse.csr_matrix((values, columns, ends), (len(rows), len(rarity)))


def _unit(values: Array) -> Array:
    """The vector scaled to length 1; empty if it is empty."""
    return values / math.sqrt(float(values @ values) or 1.0)


def _leaders(scores: Array) -> tuple[NDArray[np.int64], Array]:
    """The first of M ≥ 2 labels by score, and its lead over the second, from scores of shape (n, M)."""
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return scores.argmax(axis=1), np.asarray(first - second)


def _line(lead: Array, right: NDArray[np.bool_]) -> tuple[float, float]:
    """(a, b) of a logistic regression of being right on the lead, with a weak prior at (−1, 4) and b ≥ 0."""

    def loss(line: Array) -> tuple[float, Array]:
        z, from_prior = line[0] + line[1] * lead, (line - [-1.0, 4.0]) / [4.0, 16.0]
        residual = expit(z) - right
        value = np.logaddexp(0.0, z).sum() - right @ z + 0.5 * (line - [-1.0, 4.0]) @ from_prior
        return float(value), np.array([residual.sum(), residual @ lead]) + from_prior

    a, b = minimize(loss, [-1.0, 4.0], jac=True, method="L-BFGS-B", bounds=[(None, None), (0.0, None)]).x
    return float(a), float(b)
