"""Conditions as Label Studio's editor decides them."""

from __future__ import annotations

import pytest
from visible_forms import FORMS, OFF, ON, TEXT, TOPIC, choices, conditional

from backend.questions import LabelConfig, parse_label_config
from backend.questions.question import hidden_questions, questions_to_ask, visible_answers

MARKS = '<Labels name="ner" toName="text"><Label value="PER"/></Labels>'
TREE = (
    '<Choice value="Animal"><Choice value="Dog" alias="d"/><Choice value="Cat"/></Choice>'
    '<Choice value="Plant"/>'
)


def config(*parts: str) -> LabelConfig:
    return parse_label_config(f"<View>{TEXT}{''.join(parts)}</View>")


def is_seen(parsed: LabelConfig, name: str, **labels: str) -> bool:
    """Whether annotators see a question in a form with these labels."""
    return name in visible_answers(parsed.questions, labels | {name: labels.get(name, "Red")})


@pytest.mark.parametrize(("attributes", "topic", "seen"), FORMS)
@pytest.mark.parametrize("around", [False, True])
def test_a_condition_holds_as_in_the_editor(
    attributes: str, topic: str | None, seen: bool, around: bool
) -> None:
    parsed = parse_label_config(conditional(attributes, around=around))
    labels = {} if topic is None else {"topic": topic}
    asked = "party" in {question.name for question in parsed.questions}
    assert (asked and is_seen(parsed, "party", **labels)) is seen


NEVER = [
    f'{ON} whenTagName="nobody"',
    f'{ON} whenTagName="nobody" whenChoiceValue="x"',
    f'{ON} whenTagName="topic" whenChoiceValue="Nothing"',
    f'{ON} whenTagName="topic" whenChoiceValue=" Sports"',
    f'{ON} whenTagName="stars"',
    f'{ON} whenTagName="topic,stars"',
    f'{ON} whenTagName="party"',
    f'{OFF} whenTagName="nobody" whenChoiceValue="x"',
    'visibleWhen="region-selected"',
    'whenChoiceValue="Nothing"',
]


@pytest.mark.parametrize("attributes", NEVER)
def test_a_question_whose_condition_never_holds_is_skipped(attributes: str) -> None:
    stars = '<Rating name="stars" toName="text"/>'
    parsed = config(TOPIC, stars, f"<View {attributes}>{choices('party')}</View>")
    [skipped] = parsed.skipped
    assert skipped.control == "party"
    assert skipped.reason.startswith("annotators never see it: its condition never holds (")


@pytest.mark.parametrize("tag", ["Rating", "Number", "DateTime", "Pairwise"])
def test_tags_that_the_editor_always_shows_have_no_condition_of_their_own(tag: str) -> None:
    attributes = f'{ON} whenTagName="nobody"'
    other = '<Text name="other" value="$other"/>' if tag == "Pairwise" else ""
    to_name = "text,other" if tag == "Pairwise" else "text"
    parsed = config(other, TOPIC, f'<{tag} name="c" toName="{to_name}" {attributes}/>')
    assert [question.conditions for question in parsed.questions if question.name == "c"] == [()]


def test_a_rating_in_a_hidden_view_is_hidden() -> None:
    rating = '<Rating name="c" toName="text"/>'
    parsed = config(TOPIC, f'<View {ON} whenTagName="topic" whenChoiceValue="Sports">{rating}</View>')
    assert is_seen(parsed, "c", topic="Sports", c="1")
    assert not is_seen(parsed, "c", topic="pol", c="1")


def test_all_views_around_a_question_must_be_seen() -> None:
    inner = f'<View {OFF} whenTagName="tone" whenChoiceValue="Red">{choices("party")}</View>'
    parsed = config(
        TOPIC, choices("tone"), f'<View {ON} whenTagName="topic" whenChoiceValue="pol">{inner}</View>'
    )
    assert is_seen(parsed, "party", topic="pol", tone="Blue")
    assert not is_seen(parsed, "party", topic="pol", tone="Red")
    assert not is_seen(parsed, "party", topic="Sports", tone="Blue")


CHAIN = (
    TOPIC,
    choices("party", f'{ON} whenTagName="topic" whenChoiceValue="pol"'),
    choices("why", f'{ON} whenTagName="party" whenChoiceValue="Red"'),
    choices("else", f'{OFF} whenTagName="party" whenChoiceValue="Red"'),
)


def test_a_choice_of_a_hidden_control_does_not_count_as_selected() -> None:
    parsed = config(*CHAIN)
    labels = {"topic": "Sports", "party": "Red", "why": "Red", "else": "Red"}
    assert visible_answers(parsed.questions, labels) == {"topic", "else"}
    assert visible_answers(parsed.questions, labels | {"topic": "pol"}) == {"topic", "party", "why"}


def test_questions_are_asked_once_those_that_they_depend_on_are_decided() -> None:
    questions = config(*CHAIN).questions
    assert questions_to_ask(questions, {}) == {"topic"}
    assert questions_to_ask(questions, {"topic": "pol"}) == {"party"}
    assert questions_to_ask(questions, {"topic": "pol", "party": "Red"}) == {"why"}
    assert questions_to_ask(questions, {"topic": "pol", "party": "Blue"}) == {"else"}
    assert questions_to_ask(questions, {"topic": "Sports"}) == {"else"}


def test_a_question_is_hidden_only_if_that_is_certain() -> None:
    questions = config(*CHAIN).questions
    assert hidden_questions(questions, {}) == set()
    assert hidden_questions(questions, {"topic": "Sports"}) == {"party", "why"}
    assert hidden_questions(questions, {"topic": "pol"}) == set()


def test_questions_that_wait_for_one_another_are_never_asked() -> None:
    parsed = config(choices("a", f'{ON} whenTagName="b"'), choices("b", f'{ON} whenTagName="a"'))
    assert not parsed.questions


def test_one_of_several_labels_is_enough() -> None:
    parsed = config(
        choices("topic", 'choice="multiple"'),
        choices("c", f'{ON} whenTagName="topic" whenChoiceValue="Blue"'),
    )
    assert is_seen(parsed, "c", topic='["Red","Blue"]')
    assert not is_seen(parsed, "c", topic='["Red"]')
    assert not is_seen(parsed, "c", topic="[]")


@pytest.mark.parametrize(
    ("wanted", "path", "seen"),
    [
        ("Dog", '["Animal / d"]', True),
        ("d", '["Animal / d"]', True),
        ("Cat", '["Animal / d"]', False),
        ("Animal", '["Animal / d"]', False),
        ("Plant", '["Plant"]', True),
    ],
)
def test_a_choice_of_a_taxonomy_is_known_by_its_last_name(wanted: str, path: str, seen: bool) -> None:
    taxonomy = f'<Taxonomy name="topic" toName="text">{TREE}</Taxonomy>'
    condition = f'{ON} whenTagName="topic" whenChoiceValue="{wanted}"'
    parsed = config(taxonomy, choices("c", condition))
    asked = any(question.name == "c" for question in parsed.questions)
    assert (asked and is_seen(parsed, "c", topic=path)) is seen


@pytest.mark.parametrize(
    ("wanted", "chosen", "seen"),
    [
        ("Dog", '["Animal / d"]', True),
        ("Animal", '["Animal / d"]', False),
        ("Animal", '["Animal / d","Animal / Cat"]', True),
    ],
)
def test_an_inner_choice_is_selected_with_all_choices_below_it(wanted: str, chosen: str, seen: bool) -> None:
    nested = choices("topic", 'choice="multiple" allowNested="true"', TREE)
    parsed = config(nested, choices("c", f'{ON} whenTagName="topic" whenChoiceValue="{wanted}"'))
    assert is_seen(parsed, "c", topic=chosen) is seen


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (choices("c", 'visibleWhen="region-selected"'), "annotators see it only while a region is selected"),
        (
            choices("kind", 'perRegion="true"')
            + choices("c", f'{ON} whenTagName="kind" whenChoiceValue="Red"'),
            "it depends on the choice for a region: kind",
        ),
        (
            choices("kind", 'value="$kinds"', "") + choices("c", f'{ON} whenTagName="kind"'),
            "it waits for a choice in kind, which gets no prediction",
        ),
    ],
)
def test_a_question_that_cannot_be_asked_when_it_is_seen_is_skipped(control: str, reason: str) -> None:
    assert {skipped.control: skipped.reason for skipped in config(MARKS, control).skipped}["c"] == reason


def test_choices_per_region_may_depend_on_a_choice_for_the_whole_task() -> None:
    condition = f'perRegion="true" {ON} whenTagName="topic" whenChoiceValue="pol"'
    questions = config(MARKS, TOPIC, choices("c", condition)).questions
    assert questions_to_ask(questions, {}) == {"ner", "topic"}
    assert questions_to_ask(questions, {"ner": "[]", "topic": "pol"}) == {"c"}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_of_conditions_is_followed(backwards: bool) -> None:
    names = [f"c{number}" for number in range(250)]
    controls = [
        choices(name, "" if before is None else f'{ON} whenTagName="{before}" whenChoiceValue="Red"')
        for before, name in zip([None, *names], names, strict=False)
    ]
    questions = config(*(reversed(controls) if backwards else controls)).questions
    assert len(questions) == 250
    assert questions_to_ask(questions, {}) == {"c0"}
    assert questions_to_ask(questions, dict.fromkeys(names[:-1], "Red")) == {"c249"}
    assert hidden_questions(questions, {"c0": "Blue"}) == set(names[1:])


def test_questions_that_exclude_one_another_end_with_one_of_them() -> None:
    questions = config(
        choices("a", f'{OFF} whenTagName="b"'), choices("b", f'{OFF} whenTagName="a"')
    ).questions
    assert questions_to_ask(questions, {}) | hidden_questions(questions, {}) == {"a", "b"}


def test_questions_that_any_choice_shows_wait_for_the_first() -> None:
    questions = config(TOPIC, choices("a", ON), choices("b", ON)).questions
    assert questions_to_ask(questions, {}) == {"topic"}
    assert hidden_questions(questions, {}) == set()
    assert questions_to_ask(questions, {"topic": "pol"}) == {"a", "b"}
