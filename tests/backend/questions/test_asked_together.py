"""The policy of a question, if none is named: the votes that may be bought with its own decide it."""

from __future__ import annotations

import pytest

from backend.questions import ConfigQuestion, parse_label_config
from backend.questions.question import policy_for
from backend.settings.policies import PolicySettings

BRIEF = 'camvo_instructions="Say why."'
WHEN = 'visibleWhen="choice-selected" whenTagName="topic" whenChoiceValue="{}"'


def choices(name: str, when: str = "", choice: str = "single") -> str:
    return (
        f'<Choices name="{name}" toName="text" choice="{choice}" {WHEN.format(when) if when else ""}>'
        '<Choice value="a"/><Choice value="b"/></Choices>'
    )


def words(name: str, when: str = "") -> str:
    return f'<TextArea name="{name}" toName="text" {BRIEF} {WHEN.format(when) if when else ""}/>'


def questions_of(*controls: str) -> tuple[ConfigQuestion, ...]:
    config = parse_label_config(f'<View><Text name="text" value="$text"/>{"".join(controls)}</View>')
    assert not config.skipped
    return config.questions


def policies(*controls: str) -> dict[str, str]:
    """Control → the policy that it gets."""
    questions, settings = questions_of(*controls), PolicySettings()
    found = {each.name: policy_for(settings, questions, [each.name]) for each in questions}
    return {name: type(policy).__name__ for name, policy in found.items()}


def test_labels_without_a_condition_are_joint_whatever_is_asked_later() -> None:
    assert policies(choices("topic"), words("why", "a")) == {"topic": "Joint", "why": "CaMVo"}


def test_labels_and_words_without_a_condition_are_asked_together() -> None:
    assert policies(choices("topic"), words("why")) == {"topic": "CaMVo", "why": "CaMVo"}


def test_labels_and_words_under_one_condition_are_asked_together() -> None:
    found = policies(choices("topic"), choices("mood", "a"), words("why", "a"))
    assert found == {"topic": "Joint", "mood": "CaMVo", "why": "CaMVo"}


def test_questions_under_choices_that_exclude_each_other_are_never_asked_together() -> None:
    found = policies(choices("topic"), choices("mood", "a"), words("why", "b"))
    assert found == {"topic": "Joint", "mood": "Joint", "why": "CaMVo"}


def test_questions_under_choices_that_one_answer_may_have_are_asked_together() -> None:
    found = policies(choices("topic", choice="multiple"), choices("mood", "a"), words("why", "b"))
    assert found["mood"] == "CaMVo"


def test_a_question_is_not_asked_together_with_those_that_it_depends_on() -> None:
    when = 'visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="a"'
    deep = f'<TextArea name="why" toName="text" {BRIEF} {when}/>'
    assert policies(choices("topic"), choices("mood", "a"), deep)["mood"] == "Joint"


@pytest.mark.parametrize("name", ["majority", "joint"])
def test_a_named_policy_is_that_of_every_question(name: str) -> None:
    settings = PolicySettings(name=name)  # type: ignore[arg-type]
    found = policy_for(settings, questions_of(choices("topic"), words("why")), ["topic", "why"])
    assert type(found).__name__.lower() == name
