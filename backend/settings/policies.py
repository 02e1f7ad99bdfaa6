"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from backend.settings.settings import PolicySettings
from camvo.policies.named import named, parameters_of
from camvo.policies.policy import Policy
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

_DEFAULT: Final = "sequential"

_OWN: Final[Mapping[str, frozenset[str]]] = {
    name: parameters_of(name) - parameters_of(_DEFAULT) for name in ("camvo", "stacked")
}
"""Parameters that the default has not: whoever sets one and names no policy means the one that has it."""


_BOUNDS: Final = frozenset({"alpha", "lambda_r"})
"""Parameters of the lower bounds that the paper's policy goes by; under the others they decide ties only."""

_STATES: Final = frozenset({"lambda_l"})
"""Parameters of the state that every policy learns with."""


def policy_of(
    settings: PolicySettings, aggregations: Iterable[Aggregation] = (), *, alone: bool = False
) -> Policy:
    """The policy that the settings name; its parameters were validated with them.

    Where they name none it is ``sequential``, unless a parameter is set that only another has. A task with
    a question that has no label to vote on gets ``camvo`` then: certificates are about labels, and without
    them everyone would be asked.

    Args:
        settings: the section ``policy``.
        aggregations: how the votes on each of the task's questions are counted.
        alone: whether somebody may wait for this one task: whoever is asked is then asked at once.
    """
    given = settings.model_dump()
    if alone:
        given["max_stages"] = 1
    return named(settings.name or _meant(settings, aggregations), given)


def in_force(settings: PolicySettings) -> tuple[str, list[str]]:
    """The policy that labels are voted by, and the parameters that are set and mean nothing to it."""
    name = settings.name or _meant(settings, ())
    heeded = parameters_of(name) | _STATES | {"name"}
    if "delta" not in heeded:
        heeded -= _BOUNDS
    return name, sorted(settings.model_fields_set - heeded)


def _meant(settings: PolicySettings, aggregations: Iterable[Aggregation]) -> str:
    if any(one != LABEL_VOTE for one in aggregations):
        return "camvo"
    return next((name for name, own in _OWN.items() if own & settings.model_fields_set), _DEFAULT)
