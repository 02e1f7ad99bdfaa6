"""Whether a student votes, by the key ``student`` and the policy in force."""

from __future__ import annotations

import pytest

from backend.settings import ModelSettings, PolicySettings, Settings
from backend.settings.policies import policy_of
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote


def settings(policy: str | None = None, **keys: object) -> Settings:
    pool = [ModelSettings(name=name, model=f"x/{name}") for name in "abc"]
    section = PolicySettings() if policy is None else PolicySettings.model_validate({"name": policy})
    return Settings(models=tuple(pool), policy=section, **keys)  # type: ignore[arg-type]


def votes(chosen: Settings, *aggregations: Aggregation) -> bool:
    """Whether a student votes on a task with such questions."""
    return chosen.has_student(policy_of(chosen.policy, aggregations or [LABEL_VOTE]))


def test_the_default_policy_has_a_student() -> None:
    assert votes(settings())


@pytest.mark.parametrize("policy", ["camvo", "ccamvo", "baseline", "majority"])
def test_other_policies_have_none(policy: str) -> None:
    assert not votes(settings(policy))


def test_a_task_that_camvo_decides_for_want_of_labels_has_none() -> None:
    assert not votes(settings(), LABEL_VOTE, NumericVote(0.0, 5.0))


@pytest.mark.parametrize("policy", [{"name": "camvo"}, {"name": "joint", "agreement": 0.9}], ids=str)
def test_policies_that_can_have_none_have_none_whatever_the_settings_say(policy: dict[str, object]) -> None:
    chosen = settings(student=True).model_copy(update={"policy": PolicySettings.model_validate(policy)})
    assert not votes(chosen)


def test_false_turns_it_off() -> None:
    assert not votes(settings(student=False))


def test_a_project_that_asks_for_an_agreement_has_none() -> None:
    assert votes(settings().for_project({"worth": 20}))
    assert votes(settings().for_project({"delta": 0.9})), "it belongs to a policy that is not in force"
    assert not votes(settings().for_project({"agreement": 0.98}))
