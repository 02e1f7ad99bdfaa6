"""Twins: a model asked about one task, and the same model asked about several tasks in one prompt.

The packed arm of the model ``haiku`` with up to 20 tasks in a prompt is named ``haiku:20``. The loss
of accuracy by packing is learnt, so the two are separate arms. Where all models count together, a model
counts once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from camvo.numerics.sequential_tests import PromiseTest

_T = TypeVar("_T")

_MOST_DISAGREEMENT: Final = 0.15
"""How often two votes of one model may differ. A model asked twice in different words differs this often on
hard tasks, so a smaller number would blame packing for these differences."""

_LEVEL: Final = 0.05
"""The probability, for each question, of ever unpacking an arm that differs no more often than this."""


@dataclass(frozen=True, slots=True)
class _PackVerdict:
    """The result of comparing packed and single votes."""

    compared: int
    differed: int
    unpacked: bool

    @property
    def share(self) -> float | None:
        """The share that differed; ``None`` without a comparison."""
        return self.differed / self.compared if self.compared else None


def judge_pack(agreed: Iterable[bool]) -> _PackVerdict:
    """Judge a packed arm by its comparisons, in the order in which they were made.

    >>> judge_pack([True] * 50).unpacked, judge_pack([False] * 10).unpacked
    (False, True)
    """
    test, needed, unpacked = PromiseTest(), math.log(1.0 / _LEVEL), False
    for same in agreed:
        test.add(_MOST_DISAGREEMENT, right=same)
        unpacked = unpacked or test.evidence >= needed
    return _PackVerdict(test.tried, test.tried - test.right, unpacked)


_PACKED: Final = re.compile(r"(.+):[1-9][0-9]*", re.DOTALL)


def packed_arm(model: str, size: int) -> str:
    """The name of a model's packed arm.

    >>> packed_arm("haiku", 20)
    'haiku:20'
    """
    return f"{model}:{size}"


@lru_cache(maxsize=1024)
def model_of(arm: str) -> str | None:
    """The name of the model whose packed arm would have this name; ``None`` for any other name.

    >>> model_of("haiku:20"), model_of("haiku")
    ('haiku', None)
    """
    found = _PACKED.fullmatch(arm)
    return None if found is None else found[1]


def twins(arms: Iterable[str]) -> dict[str, str]:
    """Packed arm → its model, for the packed arms whose model is among the arms, too.

    >>> twins(["haiku", "haiku:20", "llama:8"])
    {'haiku:20': 'haiku'}
    """
    names = frozenset(arms)
    return {arm: model for arm in sorted(names) if (model := model_of(arm)) is not None and model in names}


def same_model(arms: Iterable[str]) -> dict[str, frozenset[str]]:
    """Arm → all arms of its model, for arms that have a twin among ``arms``.

    >>> sorted(same_model(["haiku", "haiku:20", "gpt"])["haiku"])
    ['haiku', 'haiku:20']
    """
    groups: dict[str, set[str]] = {}
    for arm, model in twins(arms).items():
        groups.setdefault(model, {model}).add(arm)
    return {arm: frozenset(group) for group in groups.values() for arm in group}


def once_each(costs: Mapping[str, float]) -> dict[str, float]:
    """The arms of an asking of all models: each model once, by its cheapest arm.

    >>> once_each({"haiku": 1.0, "haiku:20": 0.2, "gpt": 2.0})
    {'haiku:20': 0.2, 'gpt': 2.0}
    """
    groups = same_model(costs)
    return {
        arm: cost
        for arm, cost in costs.items()
        if arm == min(groups.get(arm, {arm}), key=lambda twin: (costs[twin], twin))
    }


def asking_each(arms: Collection[str]) -> Callable[[Collection[str]], bool]:
    """Whether each model of ``arms`` is asked by at least one of its arms.

    >>> asking_each(["haiku", "haiku:20", "gpt"])(["haiku:20", "gpt"])
    True
    """
    groups = same_model(arms)
    models = {groups.get(arm, frozenset([arm])) for arm in arms}
    return lambda asked: not any(model.isdisjoint(asked) for model in models)


def not_voted(costs: Mapping[str, _T], known: Iterable[str]) -> dict[str, _T]:
    """The arms with a price or a reply, without those whose twin has voted already.

    >>> not_voted({"haiku": 1.0, "gpt": 2.0}, ["haiku:20"])
    {'gpt': 2.0}
    """
    voted = frozenset(known)
    groups = same_model(voted.union(costs))
    return {arm: cost for arm, cost in costs.items() if not (groups.get(arm, frozenset()) - {arm}) & voted}
