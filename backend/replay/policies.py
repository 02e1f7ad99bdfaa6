"""The policies that ``--policy`` names, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from camvo.baselines import Baseline, Fixed, Majority, Single
from camvo.beta_mixture import EstimatorName
from camvo.errors import InvalidParameterError, ReplayError
from camvo.oracle import MOST_ARMS, ConfidenceName
from camvo.policy import CaMVo, CCaMVo, Policy
from camvo.sequential import Sequential
from camvo.stacked import Stacked

_SUBSET = "subset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of a policy; it takes those that it has (see :class:`camvo.policy.CaMVo`).

    ``agreement`` and ``max_stages`` are those of :class:`camvo.sequential.Sequential`, ``worth`` that of
    :class:`camvo.stacked.Stacked`. ``models`` are those that its name goes on with, as in ``single:gpt-4o``.
    """

    alpha: float = 0.25
    lambda_r: float = 1.0
    n0: int = 10
    confidence: ConfidenceName = "beta"
    estimator: EstimatorName = "moments"
    delta: float = 0.97
    k_min: int = 3
    agreement: float = 0.99
    max_stages: int = 3
    worth: float = 75.0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a policy is made; which of δ and k_min, or an agreement, it has; whether its name names models."""

    make: Callable[[Parameters], Policy]
    searches: bool = False
    agrees: bool = False
    named: bool = False


KINDS: Final = {
    "camvo": _Kind(
        lambda given: CaMVo(
            alpha=given.alpha,
            lambda_r=given.lambda_r,
            estimator=given.estimator,
            delta=given.delta,
            k_min=given.k_min,
            n0=given.n0,
            confidence=given.confidence,
        ),
        searches=True,
    ),
    "ccamvo": _Kind(
        lambda given: CCaMVo(
            alpha=given.alpha,
            lambda_r=given.lambda_r,
            estimator=given.estimator,
            delta=given.delta,
            k_min=given.k_min,
            n0=given.n0,
        ),
        searches=True,
    ),
    "sequential": _Kind(
        lambda given: Sequential(
            alpha=given.alpha,
            lambda_r=given.lambda_r,
            estimator=given.estimator,
            agreement=given.agreement,
            max_stages=given.max_stages,
        ),
        agrees=True,
    ),
    "stacked": _Kind(
        lambda given: Stacked(
            alpha=given.alpha,
            lambda_r=given.lambda_r,
            estimator=given.estimator,
            worth=given.worth,
            max_stages=given.max_stages,
        )
    ),
    "baseline": _Kind(
        lambda given: Baseline(alpha=given.alpha, lambda_r=given.lambda_r, estimator=given.estimator)
    ),
    "majority": _Kind(
        lambda given: Majority(alpha=given.alpha, lambda_r=given.lambda_r, estimator=given.estimator)
    ),
    "single": _Kind(
        lambda given: Single(
            alpha=given.alpha, lambda_r=given.lambda_r, estimator=given.estimator, model=given.models[0]
        ),
        named=True,
    ),
    _SUBSET: _Kind(
        lambda given: Fixed(
            alpha=given.alpha, lambda_r=given.lambda_r, estimator=given.estimator, models=given.models
        ),
        named=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy to replay: its name as ``--policy`` has it, the parameters that are lists, and itself.

    ``None`` stands for a parameter that it does not have.
    """

    name: str
    delta: float | None
    k_min: int | None
    agreement: float | None
    policy: Policy


def settings(
    names: Sequence[str],
    deltas: Sequence[float],
    k_mins: Sequence[int],
    agreements: Sequence[float],
    shared: Parameters,
    *,
    models: Sequence[str],
) -> list[Setting]:
    """Every policy with every δ and k_min, or agreement, that it can have, in the order given; nothing twice.

    Args:
        names: what ``--policy`` said.
        deltas: what ``--delta`` said.
        k_mins: what ``--k-min`` said.
        agreements: what ``--agreement`` said.
        shared: the parameters; their δ, k_min, agreement and models are replaced.
        models: the models of the table.

    Raises:
        ReplayError: a name that is none, a model that the table lacks, or a parameter out of its range.
    """
    found = []
    for name in dict.fromkeys(names):
        kind, named = _kind(name, models)
        own = replace(shared, models=named)
        choices = [own]
        if kind.searches:
            points = product(dict.fromkeys(deltas), dict.fromkeys(k_mins))
            choices = [replace(own, delta=delta, k_min=k_min) for delta, k_min in points]
        elif kind.agrees:
            choices = [replace(own, agreement=agreement) for agreement in dict.fromkeys(agreements)]
        for given in choices:
            try:
                policy = kind.make(given)
            except InvalidParameterError as error:
                raise ReplayError(error.message, where=f"--policy {name}") from error
            delta, k_min = (given.delta, given.k_min) if kind.searches else (None, None)
            found.append(Setting(name, delta, k_min, given.agreement if kind.agrees else None, policy))
    return found


def _kind(name: str, models: Sequence[str]) -> tuple[_Kind, tuple[str, ...]]:
    """The kind of policy and the models that its name goes on with."""
    where = f"--policy {name}"
    word, colon, rest = name.partition(":")
    kind = KINDS.get(word)
    if kind is None or kind.named != bool(colon):
        known = ", ".join(f"{one}:…" if KINDS[one].named else one for one in KINDS)
        raise ReplayError("no such policy", where=where, fix=known)
    if kind.searches and len(models) > MOST_ARMS:
        raise ReplayError(f"{len(models)} models, at most {MOST_ARMS} can be searched", where=where)
    named = tuple(rest.split("+")) if word == _SUBSET else (rest,) if kind.named else ()
    for model in named:
        if model not in models:
            raise ReplayError(f"{model!r} is no model of the table", where=where, fix=", ".join(models))
    return kind, named
