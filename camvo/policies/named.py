"""The policies, registered under the names that settings and the command line use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.ensemble import Baseline, Ensemble, Fixed, Majority, Random, Single
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.policies.rivals import BestSingle, Cascade, Router

POLICIES: Final[Mapping[str, type[Ensemble]]] = {
    "camvo": CaMVo,
    "ccamvo": CCaMVo,
    "joint": Joint,
    "baseline": Baseline,
    "majority": Majority,
    "cascade": Cascade,
    "random": Random,
    "single": Single,
    "subset": Fixed,
    "best-single": BestSingle,
    "router": Router,
}
"""Name → policy class."""


def parameters_of(name: str) -> frozenset[str]:
    """The names of the parameters of a policy, by a key of :data:`POLICIES`."""
    return frozenset(field.name for field in fields(POLICIES[name]) if field.init)


def policy_by_name(name: str, parameters: Mapping[str, object]) -> Policy:
    """Make a policy from its name, a key of :data:`POLICIES`, and a mapping of parameters.

    Parameters that the policy does not have are ignored.

    Raises:
        InvalidParameterError: a parameter is out of its range.
        TypeError: a parameter without a default is missing.
    """
    policy_class: type[Policy] = POLICIES[name]
    names = parameters_of(name)
    return policy_class(**{parameter: value for parameter, value in parameters.items() if parameter in names})
