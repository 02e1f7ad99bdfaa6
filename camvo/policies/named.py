"""The policies by the names that settings and command lines know them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from camvo.policies.baselines import Baseline, Fixed, Majority, Random, Single
from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.cascade import Cascade
from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Policy
from camvo.policies.sequential import Sequential
from camvo.policies.stacked import Stacked

POLICIES: Final[Mapping[str, type[Ensemble]]] = {
    "camvo": CaMVo,
    "ccamvo": CCaMVo,
    "sequential": Sequential,
    "stacked": Stacked,
    "baseline": Baseline,
    "majority": Majority,
    "cascade": Cascade,
    "random": Random,
    "single": Single,
    "subset": Fixed,
}


def parameters_of(name: str) -> frozenset[str]:
    """The names of the parameters that the policy takes."""
    return frozenset(field.name for field in fields(POLICIES[name]) if field.init)


def named(name: str, given: Mapping[str, object]) -> Policy:
    """The policy of that name, with those of the given parameters that it takes.

    Raises:
        InvalidParameterError: a parameter is out of its range.
    """
    kind: type[Policy] = POLICIES[name]
    taken = parameters_of(name)
    return kind(**{parameter: value for parameter, value in given.items() if parameter in taken})
