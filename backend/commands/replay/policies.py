"""The policies that ``--policy`` names, with every combination of the listed parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from backend.errors import ReplayError
from backend.settings.mistakes import did_you_mean
from camvo.errors import InvalidParameterError
from camvo.policies.named import POLICIES, parameters_of, policy_by_name
from camvo.policies.policy import Policy
from camvo.subsets.oracle import MOST_ARMS

_NUMBERS: Final = ("share", "threshold")
"""Parameters that follow the policy's name, as in ``random:0.3``."""


@dataclass(frozen=True, slots=True)
class ReplaySetting:
    """A policy to replay, with its name as in ``--policy`` and the parameters that may be lists.

    A parameter that the policy lacks is ``None``.
    """

    name: str
    delta: float | None
    k_min: int | None
    agreement: float | None
    policy: Policy

    @classmethod
    def every(
        cls,
        names: Sequence[str],
        deltas: Sequence[float],
        k_mins: Sequence[int],
        agreements: Sequence[float],
        shared: Mapping[str, object],
        *,
        models: Sequence[str],
    ) -> list[ReplaySetting]:
        """Combine each policy with each δ and k_min, or each agreement, that it takes, without repetition."""
        settings = []
        for name in dict.fromkeys(names):
            kind, from_name = _parse(name, models)
            own = parameters_of(kind)
            points = product(
                dict.fromkeys(deltas if "delta" in own else [None]),
                dict.fromkeys(k_mins if "k_min" in own else [None]),
                dict.fromkeys(agreements if agreements and "agreement" in own else [None]),
            )
            for delta, k_min, agreement in points:
                point = {"delta": delta, "k_min": k_min, "agreement": agreement}
                try:
                    policy = policy_by_name(kind, {**shared, **point, **from_name})
                except InvalidParameterError as error:
                    raise ReplayError(error.message, where=f"--policy {name}") from error
                settings.append(cls(name, delta, k_min, agreement, policy))
        return settings


def _parse(name: str, models: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Split a value of ``--policy`` into the policy and the parameter after its colon."""
    where = f"--policy {name}"
    kind, colon, rest = name.partition(":")
    if kind not in POLICIES or (_named_in(kind) is not None) != bool(colon):
        known = (policy if _named_in(policy) is None else f"{policy}:…" for policy in POLICIES)
        raise ReplayError("there is no such policy", where=where, fix=did_you_mean(name, known))
    if "delta" in parameters_of(kind) and len(models) > MOST_ARMS:
        raise ReplayError(
            f"the table has {len(models)} models, and at most {MOST_ARMS} can be searched",
            where=where,
            fix="remove some, or choose another policy",
        )
    parameter = _named_in(kind)
    if parameter is None:
        return kind, {}
    if parameter in _NUMBERS:
        try:
            return kind, {parameter: float(rest)}
        except ValueError:
            raise ReplayError(f"{rest!r} is not a number", where=where, fix=f"give e.g. {kind}:0.5") from None
    chosen = tuple(rest.split("+")) if parameter == "models" else (rest,)
    for model in chosen:
        if model not in models:
            raise ReplayError(
                f"{model!r} is not a model of the table", where=where, fix=did_you_mean(model, models)
            )
    return kind, {"model": rest, "models": chosen}


def _named_in(kind: str) -> str | None:
    """Return the parameter that follows the policy's name after a colon, if any."""
    own = parameters_of(kind)
    return next((name for name in ("model", "models", *_NUMBERS) if name in own), None)
