"""Policies that ask every arm about a task, whatever it costs: for the pilot of a job."""

from __future__ import annotations

from dataclasses import replace

from camvo.policies.camvo import CaMVo
from camvo.policies.policy import Policy
from camvo.policies.staged import Staged


def asking_everyone(policy: Policy, arms: int) -> Policy:
    """The same policy, which asks all arms about a task and learns from it as from its own everyone-rounds.

    Baselines, which learn nothing, are returned as they are.

    Args:
        policy: any policy.
        arms: how many arms there are.

    >>> from camvo.policies.joint import Joint
    >>> asking_everyone(Joint(), 3).everyone
    True
    """
    if isinstance(policy, Staged):
        return policy.asking_everyone()
    return replace(policy, k_min=arms) if isinstance(policy, CaMVo) else policy
