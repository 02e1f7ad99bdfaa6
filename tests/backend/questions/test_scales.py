"""Controls whose labels are a scale: ratings, few numbers, and Choices that are declared as ordered."""

from __future__ import annotations

import pytest

from backend.commands.check import config_facts
from backend.questions import parse_label_config
from backend.settings import ModelSettings, Settings
from camvo.votes.labels import OrderedVote
from camvo.votes.numbers import NumericVote, OpenNumericVote

TEXT = '<Text name="text" value="$text"/>'
MOODS = '<Choice value="Poor" alias="p"/><Choice value="Fair"/><Choice value="Good"/>'


def parsed(control):
    return parse_label_config(f"<View>{TEXT}{control}</View>")


def question(control):
    config = parsed(control)
    assert config.skipped == ()
    return config.questions[0]


def aggregation(control):
    return question(control).control.aggregation


def choices(attributes, inner=MOODS):
    return f'<Choices name="c" toName="text" {attributes}>{inner}</Choices>'


def test_stars_are_a_scale_whose_error_is_their_distance():
    stars = '<Rating name="c" toName="text"/>'
    assert aggregation(stars) == OrderedVote(("1", "2", "3", "4", "5"), "absolute")


def test_numbers_in_few_steps_are_a_scale():
    number = '<Number name="c" toName="text" min="0" max="1" step="0.25"/>'
    assert aggregation(number) == OrderedVote(("0", "0.25", "0.5", "0.75", "1"))


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ('min="0" max="100" step="1"', NumericVote),
        ('min="0" max="5"', NumericVote),
        ('min="0" step="1"', OpenNumericVote),
        ('min="0" max="5" step="1" camvo_tolerance="2"', NumericVote),
        ('min="0" max="1" step="1"', NumericVote),
    ],
)
def test_other_numbers_are_no_scale(attributes, kind):
    assert isinstance(aggregation(f'<Number name="c" toName="text" {attributes}/>'), kind)


def test_options_of_a_scale_are_its_numbers():
    asked = question('<Rating name="c" toName="text" maxRating="3"/>').about({"text": "words"})
    assert asked.options == ("1", "2", "3")


def test_ordered_choices_are_a_scale_in_the_order_of_the_config():
    assert aggregation(choices('camvo_ordered="true"')) == OrderedVote(("p", "Fair", "Good"), "exact")


def test_choices_are_no_scale_by_themselves():
    assert not isinstance(aggregation(choices("")), OrderedVote)
    assert not isinstance(aggregation(choices('camvo_ordered="false"')), OrderedVote)


def test_ordered_choices_answer_as_before():
    asked = question(choices('camvo_ordered="true"'))
    content = asked.about({"text": "words"}).content
    assert asked.control.vote_from_answer("poor", content) == "p"
    assert asked.control.result_items("p", content) == [{"value": {"choices": ["p"]}}]


@pytest.mark.parametrize("error", ["exact", "absolute", "quadratic"])
@pytest.mark.parametrize(
    "control",
    [
        '<Rating name="c" toName="text" camvo_error="{}"/>',
        '<Number name="c" toName="text" min="0" max="4" step="1" camvo_error="{}"/>',
        choices('camvo_ordered="true" camvo_error="{}"'),
    ],
    ids=["rating", "number", "choices"],
)
def test_error_is_the_one_that_is_named(control, error):
    assert aggregation(control.format(error)).error == error


def test_usual_error_keeps_the_epoch():
    plain, named = (
        question(f'<Rating name="c" toName="text" {each}/>') for each in ("", 'camvo_error="absolute"')
    )
    assert plain.digest == named.digest
    assert plain.digest != question('<Rating name="c" toName="text" camvo_error="exact"/>').digest


def test_order_starts_an_epoch():
    assert question(choices("")).digest != question(choices('camvo_ordered="true"')).digest


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        ('<Rating name="c" toName="text" camvo_error="cubic"/>', 'camvo_error="cubic"'),
        ('<Rating name="c" toName="text" maxRating="20" camvo_error="exact"/>', "from 3 to 11"),
        ('<Number name="c" toName="text" camvo_error="exact"/>', "from 3 to 11"),
        ('<Number name="c" toName="text" camvo_error="exact"/>', "not any number"),
        ('<Rating name="c" toName="text" maxRating="2" camvo_error="exact"/>', "not 2"),
        ('<Rating name="c" toName="text" maxRating="20" camvo_error="exact"/>', "not 20"),
        (
            '<Number name="c" toName="text" max="4" step="1" camvo_tolerance="2" camvo_error="exact"/>',
            "camvo_tolerance",
        ),
        (choices('camvo_error="absolute"'), 'needs camvo_ordered="true"'),
        (choices('camvo_ordered="true" choice="multiple"'), "one label of a flat list"),
        (choices('camvo_ordered="true"', '<Choice value="A"/><Choice value="B"/>'), "from 3 to 11"),
    ],
)
def test_what_is_no_scale_is_refused_with_its_reason(control, reason):
    (skipped,) = parsed(control).skipped
    assert reason in str(skipped)


def numbered(*labels):
    return "".join(f'<Choice value="{label}"/>' for label in labels)


@pytest.mark.parametrize(
    ("attributes", "labels", "hinted"),
    [
        ("", (1, 2, 3, 4, 5), True),
        ("", (0, 1, 2, 3), True),
        ('camvo_ordered="true"', (1, 2, 3, 4, 5), False),
        ("", (1, 2), False),
        ("", (1, 3, 4), False),
        ("", ("one", "two", "three"), False),
        ('choice="multiple"', (1, 2, 3), False),
    ],
)
def test_check_gives_a_hint_where_labels_are_the_numbers_of_a_scale(attributes, labels, hinted):
    xml = f"<View>{TEXT}{choices(attributes, numbered(*labels))}</View>"
    settings = Settings(models=(ModelSettings(name="a", model="x/a"),))
    facts = [str(fact) for fact in config_facts(xml, settings)]
    assert any("camvo_ordered" in fact for fact in facts) is hinted
