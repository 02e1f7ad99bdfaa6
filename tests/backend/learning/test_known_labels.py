"""Values by label, such as ``worth: {Fraud: 50}``, are about labels of the label config."""

from __future__ import annotations

import pytest

from backend.commands.check import config_facts
from backend.errors import ConfigError
from backend.learning.projects import require_known_labels
from backend.questions import parse_label_config
from backend.settings import ModelSettings, PolicySettings, Settings
from camvo.policies.parameters import ByLabel

XML = """<View><Text name="text" value="$text"/>
<Choices name="kind" toName="text"><Choice value="Fraud"/><Choice value="Fine"/></Choices>
<Choices name="topics" toName="text" choice="multiple"><Choice value="Bank"/><Choice value="Card"/></Choices>
<Rating name="stars" toName="text" maxRating="5"/></View>"""


def settings(**worth: float) -> Settings:
    policy = PolicySettings(name="joint", worth=ByLabel(worth))
    return Settings(models=(ModelSettings(name="a", model="x/a"),), policy=policy)


@pytest.mark.parametrize("label", ["Fraud", "Fine", "5", "default"])
def test_a_label_of_choices_or_of_a_scale_is_known(label: str) -> None:
    require_known_labels(settings(**{label: 50.0}), parse_label_config(XML), "policy")


@pytest.mark.parametrize(("label", "fix"), [("fraude", "did you mean Fraud?"), ("Bank", "known: ")])
def test_another_label_is_refused_with_the_one_that_was_meant(label: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_known_labels(settings(**{label: 50.0}), parse_label_config(XML), "policy")
    assert caught.value.where == f"policy.worth.{label}"
    assert str(caught.value.fix).startswith(fix)


def test_check_names_a_label_that_the_config_does_not_have() -> None:
    facts = [str(fact) for fact in config_facts(XML, settings(Froud=50.0))]
    assert any("policy.worth.Froud" in fact and "did you mean Fraud?" in fact for fact in facts)
    assert not any("policy.worth" in str(fact) for fact in config_facts(XML, settings(Fraud=50.0)))
