"""Which policies have a student (:mod:`camvo.student.student`), and which have one unless told otherwise."""

from __future__ import annotations

from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Policy
from camvo.policies.staged import Staged


def can_have_student(policy: Policy) -> bool:
    """Whether a student can vote beside the policy: it answers first, so the policy must ask in stages."""
    return isinstance(policy, Staged)


def has_student_by_default(policy: Policy) -> bool:
    """Whether a student votes beside the policy unless somebody says otherwise."""
    return isinstance(policy, Ensemble) and policy.studies
