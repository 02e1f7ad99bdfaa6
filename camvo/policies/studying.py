"""Which policies have a student (:mod:`camvo.student.student`)."""

from __future__ import annotations

from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Policy


def has_student(policy: Policy) -> bool:
    """Whether a student votes beside the policy, unless settings turn it off."""
    return isinstance(policy, Ensemble) and policy.studies
