"""Handwritten digits, labelled by eight classifiers that really err."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import camvo
from camvo.policies.past_rounds import PastRound, recount
from camvo.scores.guarantee import ScoreCounts
from camvo.typing import Array

_SEED = 7
_STUDIED = 297
"""Images that the classifiers are trained on. They vote on the other 1,500."""

_LABELS = tuple("0123456789")


@dataclass(frozen=True, slots=True)
class _Classifier:
    """A classifier of the demo.

    Attributes:
        name: its name.
        images: how many images it is trained on.
        price: its nominal price, dollars per image.
        right: the share of its votes that are right.
    """

    name: str
    images: int
    price: float
    right: float


@dataclass(frozen=True, slots=True)
class DigitLabels:
    """The share of right labels, and what their votes cost, in dollars."""

    right: float
    cost: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """CaMVo's estimate of the share of its labels that are right, with a 95% interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Review:
    """What a person's labels of the least certain images changed.

    Attributes:
        labelled: how many images the person labelled.
        corrected: how many of their labels were wrong.
        changed: how many labels of other images changed when the votes were counted again.
        mended: how many of the changed labels are right now.
        broken: how many of them were right before.
        right: the share of all labels that are right now.
        before: the estimate of CaMVo's labels before the review, from their scores alone.
        after: the same estimate, now that the person has checked some of them.
    """

    labelled: int
    corrected: int
    changed: int
    mended: int
    broken: int
    right: float
    before: Estimate
    after: Estimate


def vote_on_digits() -> Digits:
    """Train the classifiers on some of scikit-learn's handwritten digits, and let them vote on the others.

    The pool resembles one of language models: the better models are the dearer ones, one is poor, two are of
    one family, and all have studied the same, some less of it, so that they often err together.
    """
    # scikit-learn takes a second to import, which the texts before it need not wait for
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.naive_bayes import GaussianNB  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415
    from sklearn.svm import SVC  # noqa: PLC0415
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    network = MLPClassifier((32,), solver="lbfgs", max_iter=1000, random_state=_SEED)
    pool: dict[str, tuple[Any, int, float]] = {  # the classifier, its training images, $ per 1,000 images
        "kernel": (SVC(), 200, 15.0),
        "neighbour": (KNeighborsClassifier(1), 120, 10.0),
        "forest": (RandomForestClassifier(random_state=_SEED), 200, 5.0),
        "neighbours": (KNeighborsClassifier(3), 120, 3.5),
        "network": (network, 150, 1.2),
        "linear": (LogisticRegression(max_iter=1000), 100, 0.9),
        "bayes": (GaussianNB(var_smoothing=0.01), 80, 0.35),
        "tree": (DecisionTreeClassifier(random_state=_SEED), 150, 0.2),
    }
    data = load_digits()
    order = np.random.default_rng(_SEED).permutation(len(data.target))
    pixels, truth = data.data[order] / 16.0, data.target[order]
    votes = [
        classifier.fit(pixels[:images], truth[:images]).predict(pixels[_STUDIED:])
        for classifier, images, _ in pool.values()
    ]
    right = [float((vote == truth[_STUDIED:]).mean()) for vote in votes]
    classifiers = [
        _Classifier(name, images, price / 1000.0, share)
        for (name, (_, images, price)), share in zip(pool.items(), right, strict=True)
    ]
    return Digits(classifiers, pixels[_STUDIED:], np.stack(votes, axis=1), truth[_STUDIED:])


class Digits:
    """The votes of all classifiers on some images, and CaMVo's way through them.

    Args:
        classifiers: K of them.
        pixels: the images, shape (n, d).
        votes: digits, shape (n, K).
        truth: the right digits, shape (n,).
    """

    def __init__(
        self,
        classifiers: list[_Classifier],
        pixels: Array,
        votes: NDArray[np.int64],
        truth: NDArray[np.int64],
    ) -> None:
        self.classifiers = classifiers
        self._contexts = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
        self._votes, self._truth = votes, truth
        self._prices = {each.name: each.price for each in classifiers}
        self._question = camvo.Question(_LABELS, prices=self._prices, dimension=pixels.shape[1])
        self._tasks: list[camvo.Task] = []

    def __len__(self) -> int:
        """The number of images."""
        return len(self._truth)

    def best(self) -> _Classifier:
        """The classifier that is most often right."""
        return max(self.classifiers, key=lambda each: each.right)

    def ask_everyone(self) -> DigitLabels:
        """Ask every classifier about every image, and take the label with the most votes."""
        labels = np.array([np.bincount(row, minlength=len(_LABELS)).argmax() for row in self._votes])
        return self._outcome(labels, sum(self._prices.values()) * len(self))

    def ask_camvo(self) -> DigitLabels:
        """Label the images with CaMVo, as the library's users do: the default policy, no human label."""
        cost = 0.0
        for context, row in zip(self._contexts, self._votes, strict=True):
            said = dict(zip(self._prices, (str(vote) for vote in row), strict=True))
            task = self._question.task(context)
            while models := task.ask():
                task.add({model: said[model] for model in models})
                cost += sum(self._prices[model] for model in models)
            task.learn()
            self._tasks.append(task)
        return self._outcome(self._decided[0], cost)

    def review(self, count: int) -> Review:
        """Label the images with the lowest scores as a person would, and count the other votes again."""
        labels, scores = self._decided
        reviewed = np.argsort(scores, kind="stable")[:count]
        for image in reviewed:
            self._tasks[image].learn(human=str(self._truth[image]))
        new_labels = self._counted_again()
        others = np.ones(len(self), dtype=np.bool_)
        others[reviewed] = False
        changed = others & (new_labels != labels)
        checked = [(float(scores[i]), float(labels[i] == self._truth[i])) for i in reviewed]
        return Review(
            labelled=count,
            corrected=int((labels != self._truth)[reviewed].sum()),
            changed=int(changed.sum()),
            mended=int((changed & (new_labels == self._truth)).sum()),
            broken=int((changed & (labels == self._truth)).sum()),
            right=float((~others | (new_labels == self._truth)).mean()),
            before=_estimate(scores, []),
            after=_estimate(scores, checked),
        )

    @cached_property
    def _decided(self) -> tuple[NDArray[np.int64], Array]:
        decisions = [task.decide() for task in self._tasks]
        return (
            np.array([int(each.label) for each in decisions]),
            np.array([each.score for each in decisions]),
        )

    def _counted_again(self) -> NDArray[np.int64]:
        """The labels of all images by their kept votes and by what is known now."""
        question, labels = self._question, []
        for context, task in zip(self._contexts, self._tasks, strict=True):
            past = PastRound(context, task.votes, _LABELS, self._prices)
            decision = recount(question.policy, question.state, past) or task.decision
            labels.append(int(decision.label))
        return np.array(labels)

    def _outcome(self, labels: NDArray[np.int64], cost: float) -> DigitLabels:
        return DigitLabels(float((labels == self._truth).mean()), cost)


def _estimate(scores: Array, checked: list[tuple[float, float]]) -> Estimate:
    found = ScoreCounts.of(scores.tolist(), checked).share_right()
    return Estimate(found.share, found.low, found.high)
