"""Which policies have a student."""

from __future__ import annotations

import pytest

from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Majority, has_student
from camvo.policies.joint import Joint


@pytest.mark.parametrize(
    "policy",
    [CaMVo(), Majority(), Joint(agreement=0.99), object()],
    ids=["camvo", "majority", "joint with an agreement", "a caller's own"],
)
def test_others_have_none(policy: object) -> None:
    assert not has_student(policy)  # type: ignore[arg-type]
