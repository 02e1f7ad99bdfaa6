"""The policies that ``--policy`` names, with every point of the lists that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

from backend.errors import ReplayError
from camvo.errors import InvalidParameterError
from camvo.policies.named import POLICIES, named, parameters_of
from camvo.policies.policy import Policy
from camvo.state.beta_mixture import EstimatorName
from camvo.subsets.oracle import MOST_ARMS, ConfidenceName

_NUMBERS: Final = ("share", "threshold")
"""Parameters that stand in the policy's name, as in ``random:0.3``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What all settings share; a policy takes those parameters that it has (:mod:`camvo.policies.named`)."""

    alpha: float = 0.25
    lambda_r: float = 1.0
    n0: int = 10
    confidence: ConfidenceName = "beta"
    estimator: EstimatorName = "moments"
    max_stages: int = 3
    worth: float = 75.0


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
        shared: the other parameters.
        models: the models of the table.

    Raises:
        ReplayError: a name that is none, a model that the table lacks, or a parameter out of its range.
    """
    found = []
    for name in dict.fromkeys(names):
        kind, asked = _read(name, models)
        own = parameters_of(kind)
        points = product(
            dict.fromkeys(deltas if "delta" in own else [None]),
            dict.fromkeys(k_mins if "k_min" in own else [None]),
            dict.fromkeys(agreements if "agreement" in own else [None]),
        )
        for delta, k_min, agreement in points:
            point = {"delta": delta, "k_min": k_min, "agreement": agreement}
            try:
                policy = named(kind, {**asdict(shared), **point, **asked})
            except InvalidParameterError as error:
                raise ReplayError(error.message, where=f"--policy {name}") from error
            found.append(Setting(name, delta, k_min, agreement, policy))
    return found


def _read(name: str, models: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Which policy it is, and what the name goes on with after a colon, as a parameter of it."""
    where = f"--policy {name}"
    kind, colon, rest = name.partition(":")
    if kind not in POLICIES or (_named_in(kind) is not None) != bool(colon):
        known = ", ".join(one if _named_in(one) is None else f"{one}:…" for one in POLICIES)
        raise ReplayError("no such policy", where=where, fix=known)
    if "delta" in parameters_of(kind) and len(models) > MOST_ARMS:
        raise ReplayError(f"{len(models)} models, at most {MOST_ARMS} can be searched", where=where)
    parameter = _named_in(kind)
    if parameter is None:
        return kind, {}
    if parameter in _NUMBERS:
        try:
            return kind, {parameter: float(rest)}
        except ValueError:
            raise ReplayError(f"{rest!r} is no number", where=where, fix=f"{kind}:0.5") from None
    asked = tuple(rest.split("+")) if parameter == "models" else (rest,)
    for model in asked:
        if model not in models:
            raise ReplayError(f"{model!r} is no model of the table", where=where, fix=", ".join(models))
    return kind, {"model": rest, "models": asked}


def _named_in(kind: str) -> str | None:
    """The parameter that a policy's name goes on with."""
    return next((one for one in ("model", "models", *_NUMBERS) if one in parameters_of(kind)), None)
