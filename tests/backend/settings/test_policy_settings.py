"""Which policy the settings and a project's overrides choose."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from backend.settings import ModelSettings, PolicySettings, Settings
from backend.settings.mistakes import config_error
from backend.settings.policies import policy_in_force, policy_of
from camvo.policies.camvo import CaMVo
from camvo.policies.joint import Joint
from camvo.policies.parameters import ByLabel
from camvo.votes.labels import LABEL_VOTE, OrderedVote
from camvo.votes.numbers import NumericVote

POOL = tuple(ModelSettings(name=name, model=f"x/{name}") for name in ("a", "b", "c"))
NAMES = ("camvo", "ccamvo", "joint", "baseline", "majority", "single")


def overridden(overrides: dict[str, object], **policy: object) -> PolicySettings:
    """The policy section of a project with these overrides."""
    settings = Settings(models=POOL, policy=PolicySettings.model_validate(policy))
    return settings.for_project(overrides).policy


def test_labels_are_asked_about_by_one_model_of_votes_by_default() -> None:
    assert policy_of(PolicySettings(), [LABEL_VOTE]) == Joint()


def test_ratings_get_joint_by_default() -> None:
    assert policy_of(PolicySettings(), [OrderedVote(("1", "2", "3"))]) == Joint()


def test_questions_without_a_label_get_camvo_by_default() -> None:
    assert isinstance(policy_of(PolicySettings(), [LABEL_VOTE, NumericVote(0.0, 5.0)]), CaMVo)


def test_a_named_policy_is_used_for_questions_without_a_label_too() -> None:
    assert isinstance(policy_of(PolicySettings(name="joint"), [NumericVote(0.0, 5.0)]), Joint)


def test_a_right_label_is_worth_what_the_policy_says_by_default() -> None:
    assert policy_of(PolicySettings(name="joint"), [LABEL_VOTE]) == Joint()


def test_the_worth_of_a_right_label_can_be_set() -> None:
    assert policy_of(PolicySettings(name="joint", worth=33.0), [LABEL_VOTE]) == Joint(worth=33.0)


def test_the_worth_of_a_right_label_can_be_set_by_label() -> None:
    section = PolicySettings.model_validate({"name": "joint", "worth": {"Fraud": 50, "default": 15}})
    policy = policy_of(section, [LABEL_VOTE])
    assert policy == Joint(worth=ByLabel(Fraud=50.0, default=15.0))
    assert section.by_label == {"worth": {"Fraud"}}


# -- the section of camvo.yaml


@pytest.mark.parametrize("key", ["delta", "k_min", "agreement", "max_stages", "worth", "lambda_l"])
def test_a_section_must_name_its_policy(key: str) -> None:
    with pytest.raises(ValidationError, match="is missing"):
        PolicySettings.model_validate({key: 1})


def test_a_key_of_another_policy_is_refused() -> None:
    with pytest.raises(ValidationError, match="is a parameter of camvo and ccamvo, not of joint"):
        PolicySettings(name="joint", k_min=3)


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_takes_the_parameters_of_the_state_and_of_the_bounds(name: str) -> None:
    PolicySettings.model_validate({"name": name, "lambda_l": 2.0, "alpha": 0.5, "lambda_r": 2.0})


@pytest.mark.parametrize(
    ("section", "name", "without_effect"),
    [
        ({}, "joint", []),
        ({"name": "joint", "worth": 9.0, "alpha": 0.5}, "joint", ["alpha"]),
        ({"name": "joint", "agreement": 0.9, "lambda_l": 2.0}, "joint", []),
        ({"name": "joint", "alpha": 0.5, "lambda_r": 2.0}, "joint", ["alpha", "lambda_r"]),
        ({"name": "camvo", "delta": 0.9, "alpha": 0.5}, "camvo", []),
        ({"name": "single", "model": "red"}, "single", []),
    ],
)
def test_parameters_without_effect_are_known(
    section: dict[str, object], name: str, without_effect: list[str]
) -> None:
    assert policy_in_force(PolicySettings.model_validate(section)) == (name, without_effect)


# -- overrides of a project


@pytest.mark.parametrize("overrides", [{"delta": 0.9}, {"k_min": 2}])
def test_a_project_that_overrides_a_parameter_of_another_policy_keeps_the_default(
    overrides: dict[str, object],
) -> None:
    policy = overridden(overrides)
    assert policy_of(policy, [LABEL_VOTE]) == Joint()
    assert policy_in_force(policy) == ("joint", [*overrides])


@pytest.mark.parametrize("overrides", [{"worth": 20.0}, {"agreement": 0.9}])
def test_a_project_that_overrides_a_parameter_of_the_default_keeps_it(overrides: dict[str, float]) -> None:
    assert policy_of(overridden(overrides), [LABEL_VOTE]) == Joint(**overrides)


def test_a_project_that_overrides_the_rounds_of_batches_keeps_the_default() -> None:
    assert policy_of(overridden({"max_stages": 2}), [LABEL_VOTE]) == Joint()


def test_an_override_reaches_the_default_for_questions_without_a_label() -> None:
    assert policy_of(overridden({"delta": 0.9}), [NumericVote(0.0, 5.0)]) == CaMVo(delta=0.9)


def test_questions_without_a_label_get_camvo_whatever_a_project_overrides() -> None:
    assert isinstance(policy_of(overridden({"worth": 10.0}), [NumericVote(0.0, 5.0)]), CaMVo)


def test_an_override_never_changes_a_named_policy() -> None:
    policy = overridden({"delta": 0.9}, name="joint")
    assert policy_of(policy, [LABEL_VOTE]) == Joint()
    assert policy_in_force(policy) == ("joint", ["delta"])


@pytest.mark.parametrize(
    ("worth", "where", "said"),
    [
        ({"Fraud": 0}, "policy.worth.Fraud", "0 is out of range"),
        ({"Fraud": -3.0}, "policy.worth.Fraud", "-3.0 is out of range"),
        ({"Fraud": "high"}, "policy.worth.Fraud", "'high' is not a number"),
        ({"Fraud": True}, "policy.worth.Fraud", "True is not a number"),
        ({True: 50}, "policy.worth.True", "the label True is not text"),
        ({}, "policy.worth", "names no label"),
        (0, "policy.worth", "0 is too small"),
    ],
)
def test_a_mistake_in_the_worth_of_a_label_says_where_it_is(worth: object, where: str, said: str) -> None:
    given = {"models": [{"name": "a", "model": "x/a"}], "policy": {"name": "joint", "worth": worth}}
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given)
    error = config_error(caught.value, "camvo.yaml", Settings)
    assert (error.where, error.message) == (f"camvo.yaml: {where}", said)


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"worth": {"Fraud": 50}, "agreement": 0.99}, "worth"),
        ({"worth_usd": {"Fraud": 50}}, "worth_usd"),
    ],
)
def test_what_a_worth_by_label_excludes_is_refused(parameters: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PolicySettings.model_validate({"name": "joint", **parameters})
    assert config_error(caught.value, "camvo.yaml", PolicySettings).where == f"camvo.yaml: {key}"


def test_a_project_has_a_worth_by_label_of_its_own() -> None:
    own = overridden({"worth": {"Fraud": 50, "default": 15}}, name="joint", worth_usd=3.0)
    assert policy_of(own, [LABEL_VOTE]) == Joint(worth=ByLabel(Fraud=50.0, default=15.0))


@pytest.mark.parametrize(
    ("recall", "where", "said"),
    [
        ({"Fraud": 1.0}, "policy.recall.Fraud", "1.0 is out of range"),
        ({"default": 0.9}, "policy.recall.default", "stands for no label here"),
        (0.9, "policy.recall", "names no label"),
        ({}, "policy.recall", "names no label"),
    ],
)
def test_a_mistake_in_a_recall_says_where_it_is(recall: object, where: str, said: str) -> None:
    given = {"models": [{"name": "a", "model": "x/a"}], "policy": {"name": "joint", "recall": recall}}
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given)
    error = config_error(caught.value, "camvo.yaml", Settings)
    assert (error.where, error.message) == (f"camvo.yaml: {where}", said)
