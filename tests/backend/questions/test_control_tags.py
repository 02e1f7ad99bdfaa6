"""Every control tag there and back: model's answer → vote → Label Studio's items → human's answer → vote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_sdk.label_interface.interface import LabelInterface

from backend.errors import BadAnswerError, TaskError
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import PROMPT_VERSION, prompt_messages
from camvo.errors import InvalidParameterError
from camvo.votes import registry
from camvo.votes.aggregation import Ballot

TEXT = '<Text name="text" value="$text"/>'
TREE = (
    '<Choice value="Animal" alias="ani"><Choice value="Dog" hint="barks"/><Choice value="Cat" alias="c"/>'
    '</Choice><Choice value="Plant"/>'
)
LEAVES = ["Animal / Dog", "Animal / Cat", "Plant"]
FLAT = '<Choice value="Red" alias="r"/><Choice value="Green"/><Choice value="Blue"/>'
COLOURS = ["Red", "Green", "Blue"]
ITEMS = [
    {"id": "b", "title": "Second", "body": "words"},
    {"id": 7, "title": "Third", "html": "<p>more <b>words</b></p>"},
    {"id": "ä", "title": "First"},
]
DATA: dict[str, object] = {"text": "Some words.", "other": "Other words.", "items": ITEMS}


@dataclass(frozen=True)
class Tag:
    """A control with its objects, and JSON values that are valid answers."""

    control: str
    given: st.SearchStrategy[Any]
    objects: str = TEXT

    @property
    def xml(self) -> str:
        return f"<View>{self.objects}{self.control}</View>"

    @property
    def asked(self) -> TaskQuestion:
        config = parse_label_config(self.xml)
        assert config.skipped == ()
        return config.questions[0].about(DATA)


def choices(attributes: str = "", content: str = FLAT) -> str:
    return f'<Choices name="c" toName="text" {attributes}>{content}</Choices>'


def taxonomy(attributes: str = "") -> str:
    return f'<Taxonomy name="c" toName="text" {attributes}>{TREE}</Taxonomy>'


def plain(tag: str, attributes: str = "") -> str:
    return f'<{tag} name="c" toName="text" {attributes}/>'


def some(labels: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(labels), max_size=5)


LIST = '<List name="text" value="$items" title="Hits"/>'
BOTH = TEXT + '<HyperText name="other" value="$other"/>'
SENTENCE = 'camvo_instructions="Who is it about?"'
MOMENTS = st.datetimes(min_value=datetime(1000, 1, 1))

TAGS = {
    "one choice": Tag(choices(), st.sampled_from(COLOURS)),
    "any choices": Tag(choices('choice="multiple"'), some(COLOURS)),
    "one nested choice": Tag(choices('allowNested="true"', TREE), st.sampled_from(LEAVES)),
    "any nested choices": Tag(choices('choice="multiple" allowNested="true"', TREE), some(LEAVES)),
    "one path": Tag(taxonomy('maxUsages="1"'), st.sampled_from(LEAVES)),
    "any paths": Tag(taxonomy(), some(LEAVES)),
    "rating": Tag(plain("Rating", 'maxRating="7"'), st.integers(1, 7)),
    "number": Tag(plain("Number"), st.floats(-1e15, 1e15) | st.integers(-(10**15), 10**15)),
    "number in a range": Tag(plain("Number", 'min="-2" max="2"'), st.floats(-2, 2)),
    "number with steps": Tag(
        plain("Number", 'min="0.5" step="0.25"'), st.integers(0, 999).map(lambda n: 0.5 + n / 4)
    ),
    "moment": Tag(plain("DateTime"), MOMENTS.map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M"))),
    "date": Tag(plain("DateTime", 'only="date"'), MOMENTS.map(lambda moment: moment.strftime("%Y-%m-%d"))),
    "written date": Tag(
        plain("DateTime", 'only="date" format="%d %B %Y"'),
        MOMENTS.map(lambda moment: moment.strftime("%Y-%m-%d")),
    ),
    "time": Tag(plain("DateTime", 'only="time"'), MOMENTS.map(lambda moment: moment.strftime("%H:%M"))),
    "year": Tag(plain("DateTime", 'only="year"'), st.integers(1000, 9999) | st.just("2024")),
    "short text": Tag(plain("TextArea", SENTENCE), st.text(min_size=1, max_size=200)),
    "pair": Tag('<Pairwise name="c" toName="text,other"/>', st.sampled_from(["left", "right"]), BOTH),
    "order": Tag(plain("Ranker"), st.permutations(["b", "7", "ä"]), LIST),
}
tags = pytest.mark.parametrize("name", TAGS)


def mistakes(tag: Tag, items: Sequence[Mapping[str, Any]]) -> list[str]:
    """What label-studio-sdk's validator says, given paths as the plain names that alone it understands."""
    understood = []
    for item in items:
        value = dict(item["value"])
        if 'allowNested="true"' in tag.control:
            assert all(isinstance(path, list) for path in value["choices"])
            value["choices"] = [name for path in value["choices"] for name in path]
        understood.append({**item, "value": value})
    errors: list[str] = interface(tag.xml).validate_prediction(
        {"result": understood, "score": 0.5}, return_errors=True
    )
    return errors


@cache
def interface(xml: str) -> Any:
    return LabelInterface(xml)


def votes_of(asked: TaskQuestion, answers: Sequence[object]) -> list[str]:
    return [vote for answer in answers if (vote := asked.vote_from_answer(answer)) is not None]


@tags
@settings(max_examples=25)
@given(data=st.data())
def test_a_vote_is_stored_and_read_back_as_the_same_vote(name: str, data: st.DataObject) -> None:
    asked = TAGS[name].asked
    for vote in votes_of(asked, [data.draw(TAGS[name].given)]):
        stored = json.loads(json.dumps(asked.result_items(vote)))
        assert asked.config.vote_from_annotation(stored) == vote


@tags
@settings(max_examples=25)
@given(data=st.data())
def test_a_valid_answer_is_a_vote_and_fits_the_question(name: str, data: st.DataObject) -> None:
    asked, answer = TAGS[name].asked, data.draw(TAGS[name].given)
    vote = asked.vote_from_answer(answer)
    if name == "short text" and vote is None:
        return
    assert registry.is_answer(asked.config.control.aggregation, vote, asked.options)
    assert parse_answer(json.dumps({"c": answer}), [asked]) == {"c": vote}


@tags
@settings(max_examples=25)
@given(data=st.data())
def test_what_several_votes_come_to_is_stored_and_read_back(name: str, data: st.DataObject) -> None:
    asked = TAGS[name].asked
    cast = votes_of(asked, data.draw(st.lists(TAGS[name].given, min_size=1, max_size=4)))
    if not cast:
        return
    votes = {f"arm {number}": vote for number, vote in enumerate(cast)}
    weights = {arm: data.draw(st.floats(0, 1)) for arm in votes}
    aggregation = asked.config.control.aggregation
    answer, chances = aggregation.aggregate(Ballot(votes, weights, weights, weights), asked.options)
    assert mistakes(TAGS[name], asked.result_items(answer)) == []
    assert asked.config.vote_from_annotation(asked.result_items(answer)) == answer
    assert 0.0 <= chances[answer] <= 1.0
    assert all(0.0 <= aggregation.reward(vote, answer) <= 1.0 for vote in cast)
    assert aggregation.reward(answer, answer) == 1.0


@tags
def test_the_aggregation_of_a_round_can_be_restored(name: str) -> None:
    aggregation = TAGS[name].asked.config.control.aggregation
    stored = json.loads(json.dumps(registry.describe_aggregation(aggregation), allow_nan=False))
    assert registry.restore_aggregation(stored) == aggregation


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists))
def test_any_answer_to_any_question_is_a_vote_that_can_be_stored_or_none(anything: object) -> None:
    for tag in TAGS.values():
        vote = tag.asked.vote_from_answer(anything)
        if vote is not None:
            assert tag.asked.config.vote_from_annotation(tag.asked.result_items(vote)) == vote


@tags
def test_the_schema_uses_what_every_provider_takes(name: str) -> None:
    schema = TAGS[name].asked.config.control.answer_format.schema
    assert schema.keys() <= {"type", "enum", "items", "minimum", "maximum"}


@pytest.mark.parametrize(
    ("tag", "schema"),
    [
        ('<Rating name="c" toName="text" maxRating="4"/>', {"type": "integer", "enum": [1, 2, 3, 4]}),
        (
            '<Number name="c" toName="text" min="0" max="1.5"/>',
            {"type": "number", "minimum": 0, "maximum": 1.5},
        ),
        ('<Number name="c" toName="text" min="-2"/>', {"type": "number", "minimum": -2}),
        (
            '<Number name="c" toName="text" min="0" max="30" step="10"/>',
            {"type": "integer", "enum": [0, 10, 20, 30]},
        ),
        (
            '<Number name="c" toName="text" min="0" max="9999" step="1"/>',
            {"type": "integer", "minimum": 0, "maximum": 9999},
        ),
        ('<Number name="c" toName="text"/>', {"type": "number"}),
    ],
)
def test_the_schema_of_a_number_has_its_bounds_and_lists_few(tag: str, schema: dict[str, object]) -> None:
    [question] = parse_label_config(f'<View><Text name="text" value="$text"/>{tag}</View>').questions
    assert question.control.answer_format.schema == schema


@tags
def test_the_prompt_names_the_question_its_rule_and_its_form(name: str) -> None:
    asked = TAGS[name].asked
    answer_format = asked.config.control.answer_format
    system = prompt_messages([asked], None)[0]["content"]
    assert 'Question "c"\n' in system
    assert f"\n{answer_format.rule}\n" in system
    assert system.endswith(json.dumps({"c": answer_format.form}))
    for text, hint in answer_format.labels:
        label = json.dumps(text, ensure_ascii=False) + ("" if hint is None else f": {json.dumps(hint)}")
        assert f"\n- {label}\n" in system


def item(kind: str, value: object, **changes: object) -> dict[str, object]:
    return {"from_name": "c", "to_name": "text", "type": kind, "value": value} | changes


WRITTEN = [
    ("any choices", [item("choices", {"choices": ["Blue", "r"]})], '["r","Blue"]'),
    ("any choices", [], "[]"),
    ("one nested choice", [item("choices", {"choices": [["ani", "c"]]})], "ani / c"),
    ("one nested choice", [item("choices", {"choices": [["Plant"]]})], "Plant"),
    (
        "any nested choices",
        [item("choices", {"choices": [["ani"], ["ani", "Dog"], ["ani", "c"]]})],
        '["ani / Dog","ani / c"]',
    ),
    ("one path", [item("taxonomy", {"taxonomy": [["ani", "c"]]})], "ani / c"),
    ("any paths", [item("taxonomy", {"taxonomy": [["Plant"], ["ani", "c"]]})], '["ani / c","Plant"]'),
    ("rating", [item("rating", {"rating": 4})], "4"),
    ("number", [item("number", {"number": 1.5})], "1.5"),
    ("number", [item("number", {"number": -7})], "-7"),
    ("moment", [item("datetime", {"datetime": "2024-05-01T09:30"})], "2024-05-01T09:30"),
    ("written date", [item("datetime", {"datetime": "01 May 2024"})], "2024-05-01"),
    ("time", [item("datetime", {"datetime": "09:30"})], "09:30"),
    ("year", [item("datetime", {"datetime": "2024-01-01"})], "2024"),
    ("short text", [item("textarea", {"text": [" Ada Lovelace "]})], "Ada Lovelace"),
    ("pair", [item("pairwise", {"selected": "right"}, to_name="c")], "right"),
    ("order", [item("ranker", {"ranker": {"c": ["ä", "7", "b"]}})], '["ä","7","b"]'),
]


@pytest.mark.parametrize(("name", "items", "vote"), WRITTEN)
def test_what_the_editor_writes_is_read(name: str, items: list[object], vote: str) -> None:
    assert TAGS[name].asked.config.vote_from_annotation(items) == vote


UNREADABLE = [
    ("any choices", [item("choices", {"choices": ["r", "Gone"]})]),
    ("any choices", [item("choices", {"choices": "r"})]),
    ("any choices", [item("choices", {"choices": ["r"]}), item("choices", {"choices": ["Blue"]})]),
    ("one nested choice", [item("choices", {"choices": ["c"]})]),
    ("one nested choice", [item("choices", {"choices": [["ani", "Dog"], ["ani", "c"]]})]),
    ("any nested choices", [item("choices", {"choices": [["ani"]]})]),
    ("one path", []),
    ("one path", [item("taxonomy", {"taxonomy": [["ani"]]})]),
    ("one path", [item("taxonomy", {"taxonomy": [["Animal", "Dog"]]})]),
    ("any paths", [item("taxonomy", {"taxonomy": [["ani"], ["Plant"]]})]),
    ("rating", [item("rating", {"rating": 0})]),
    ("rating", [item("rating", {"rating": 8})]),
    ("rating", [item("rating", {"rating": "4"})]),
    ("number", [item("number", {"number": None})]),
    ("number", [item("number", {"number": 1e16})]),
    ("number in a range", [item("number", {"number": 2.5})]),
    ("number with steps", [item("number", {"number": 0.6})]),
    ("moment", [item("datetime", {"datetime": "2024-05-01"})]),
    ("moment", [item("datetime", {"datetime": 2024})]),
    ("short text", [item("textarea", {"text": ["one", "two"]})]),
    ("short text", [item("textarea", {"text": [" "]})]),
    ("pair", [item("pairwise", {"selected": "none"})]),
    ("order", [item("ranker", {"ranker": {"best": ["b"], "_": ["7", "ä"]}})]),
    ("order", [item("ranker", {"ranker": ["b", "7", "ä"]})]),
    ("order", [item("choices", {"choices": ["b"]})]),
]


@pytest.mark.parametrize(("name", "items"), UNREADABLE)
def test_what_is_no_answer_is_none(name: str, items: list[object]) -> None:
    assert TAGS[name].asked.config.vote_from_annotation(items) is None


def test_an_order_of_other_items_than_the_task_has_does_not_fit() -> None:
    asked = TAGS["order"].asked
    vote = asked.config.vote_from_annotation([item("ranker", {"ranker": {"c": ["b", "7"]}})])
    assert not registry.is_answer(asked.config.control.aggregation, vote, asked.options)


INVALID = [
    ("any choices", ["Mauve"]),
    ("any choices", {"Mauve": True}),
    ("one path", "Bird"),
    ("one path", ["Dog", "Cat"]),
    ("rating", "4/5"),
    ("rating", 0),
    ("rating", 3.5),
    ("rating", True),
    ("rating", "some"),
    ("rating", "★★★★☆"),
    ("number", "about 7"),
    ("number", float("nan")),
    ("number", "7 km"),
    ("number in a range", 2.1),
    ("number with steps", 0.7),
    ("number with steps", 0.25),
    ("moment", "2024-05-01"),
    ("moment", "2024-05-01T10:00Z"),
    ("date", "2024-02-30"),
    ("date", "01/05/2024"),
    ("date", "0024-01-01"),
    ("time", "24:00"),
    ("year", "24"),
    ("short text", "word " * 50),
    ("short text", '{"answer": "x"'),
    ("short text", "..."),
    ("short text", "<short answer>"),
    ("short text", "<answer>"),
    ("short text", "BEGIN 742f0a1b2c3d"),
    ("short text", "I'm sorry, but I cannot help with that."),
    ("pair", "both"),
    ("order", ["b", "7"]),
    ("order", ["b", "7", "7"]),
    ("order", ["b", "7", "ä", "ö"]),
]


@pytest.mark.parametrize(("name", "answer"), INVALID)
def test_an_invalid_answer_is_no_vote(name: str, answer: object) -> None:
    assert TAGS[name].asked.vote_from_answer(answer) is None


BOUNDED = [
    ('only="date" min="2020-02-01" max="2024-06-30"', "2020-02-01", "2020-01-31"),
    ('only="date" max="2024-06-30"', "2024-06-30", "2024-07-01"),
    ('only="year" min="2000" max="current"', "2000", "1999"),
    ('min="2020-02-01"', "2020-02-01T00:00", "2020-01-31T23:59"),
]


@pytest.mark.parametrize(("attributes", "inside", "outside"), BOUNDED)
def test_a_moment_out_of_bounds_is_no_vote(attributes: str, inside: str, outside: str) -> None:
    asked = Tag(plain("DateTime", attributes), st.nothing()).asked
    assert (asked.vote_from_answer(inside), asked.vote_from_answer(outside)) == (inside, None)


ACCEPTED = [
    ("any choices", [], "[]"),
    ("any choices", ["blue", "Red", "r"], '["r","Blue"]'),
    ("any choices", "Red", '["r"]'),
    ("any choices", "Red, Blue", '["r","Blue"]'),
    ("any choices", ["Red", "Mauve"], '["r"]'),
    ("any choices", {"Red": True, "Green": False, "Blue": True}, '["r","Blue"]'),
    ("any choices", {"Red": False, "Green": False}, "[]"),
    ("any choices", [{"label": "Red"}], '["r"]'),
    ("any choices", {"Red": "yes", "Green": "no", "Blue": "Yes"}, '["r","Blue"]'),
    ("any choices", ["Red, Blue"], '["r","Blue"]'),
    ("any choices", "['Red', 'Blue']", '["r","Blue"]'),
    ("any choices", "- Red\n- Blue", '["r","Blue"]'),
    ("any choices", "Red, and Blue", '["r","Blue"]'),
    ("any choices", "none", "[]"),
    ("any choices", ["None of these"], "[]"),
    ("one path", {"Animal": "Dog"}, "ani / Dog"),
    ("one path", "Animal: Dog", "ani / Dog"),
    ("one path", "Dog", "ani / Dog"),
    ("one path", ["Animal", "Dog"], "ani / Dog"),
    ("one path", "animal > dog", "ani / Dog"),
    ("rating", "4/7", "4"),
    ("rating", "4 stars", "4"),
    ("rating", [4], "4"),
    ("rating", "4", "4"),
    ("rating", 4.0, "4"),
    ("rating", "★★★★☆☆☆", "4"),
    ("rating", "⭐⭐⭐", "3"),
    ("number", "-1.50", "-1.5"),
    ("moment", "2024-05-01T10:00:59", "2024-05-01T10:00"),
    ("moment", "2024-05-01 10:00", "2024-05-01T10:00"),
    ("date", "2024-05-01T00:00:00Z", "2024-05-01"),
    ("date", {"date": "x", "value": "2024-05-01"}, "2024-05-01"),
    ("year", 2024, "2024"),
    ("short text", '```\n"Ada Lovelace."\n```', "Ada Lovelace"),
    ("pair", "Left", "left"),
    ("pair", "text", "left"),
    ("order", ["ä", 7, "b"], '["ä","7","b"]'),
    ("order", "b, 7, ä", '["b","7","ä"]'),
    ("order", "b > 7 > ä", '["b","7","ä"]'),
    ("short text", ["Ada"], "Ada"),
    ("short text", {"text": "Ada"}, "Ada"),
]


@pytest.mark.parametrize(("name", "answer", "vote"), ACCEPTED)
def test_an_answer_is_brought_into_its_one_form(name: str, answer: object, vote: str) -> None:
    assert TAGS[name].asked.vote_from_answer(answer) == vote


@pytest.mark.parametrize(
    ("name", "content", "vote"),
    [
        ("any choices", '["Red"]', '["r"]'),
        ("rating", "4", "4"),
        ("rating", "Rating: 4/7", "4"),
        ("short text", "Ada.", "Ada"),
    ],
)
def test_a_single_question_may_be_answered_bare(name: str, content: str, vote: str) -> None:
    assert parse_answer(content, [TAGS[name].asked]) == {"c": vote}


@pytest.mark.parametrize("said", ['"<short answer>"', '"..."', '{"no": "text"}', '"BEGIN 742f0a1b2c3d"'])
def test_json_without_an_answer_is_not_read_as_a_text(said: str) -> None:
    for content in (f'{{"c": {said}}}', f'```json\n{{"c": {said}}}\n```', f'[{{"c": {said}}}]'):
        with pytest.raises(BadAnswerError):
            parse_answer(content, [TAGS["short text"].asked])


@pytest.mark.parametrize("name", ["any choices", "any paths", "any nested choices"])
def test_where_no_label_fits_nothing_is_stored(name: str) -> None:
    assert TAGS[name].asked.result_items("[]") == []


@pytest.mark.parametrize(
    "condition", ['visibleWhen="choice-selected"', 'visibleWhen="choice-unselected" whenTagName="other"']
)
def test_a_control_that_was_perhaps_not_seen_is_not_answered_by_silence(condition: str) -> None:
    always = choices('choice="multiple"')
    other = always.replace('name="c"', 'name="other"')
    for control in (choices(f'choice="multiple" {condition}'), f"<View {condition}>{always}</View>"):
        assert Tag(control + other, st.nothing()).asked.config.vote_from_annotation([]) is None


def test_a_condition_that_the_editor_ignores_is_none() -> None:
    control = choices('choice="multiple" whenTagName="other"')
    assert Tag(control, st.nothing()).asked.config.vote_from_annotation([]) == "[]"


@pytest.mark.parametrize("name", sorted(TAGS.keys() - {"short text"}))
def test_what_is_no_vote_cannot_be_stored(name: str) -> None:
    with pytest.raises(InvalidParameterError):
        TAGS[name].asked.result_items("no vote")


def test_the_visible_choices_of_a_list_that_is_not_nested_are_the_outermost() -> None:
    assert Tag(choices(content=TREE), st.nothing()).asked.options == ("ani", "Plant")


def test_models_see_a_list_with_its_ids() -> None:
    assert TAGS["order"].asked.texts == {"items": '"b": Second\nwords\n"7": Third\nmore words\n"ä": First'}


@pytest.mark.parametrize(
    "items",
    [[], ITEMS[:1], [ITEMS[0], ITEMS[0]], [{"title": "no id"}] * 2, "words", None, [1, 2]],
)
def test_a_list_without_two_items_of_their_own_is_not_asked_about(items: object) -> None:
    with pytest.raises(TaskError) as caught:
        parse_label_config(TAGS["order"].xml).questions[0].about({"items": items})
    assert caught.value.where == "data.items"


@pytest.mark.parametrize(
    ("control", "objects", "part"),
    [
        (choices('choice="many"'), TEXT, "single-radio"),
        (taxonomy('apiUrl="/tree"'), TEXT, "not in the label config"),
        (taxonomy('maxUsages="3"'), TEXT, "maxUsages"),
        ('<Taxonomy name="c" toName="text"><Choice value="A"/></Taxonomy>', TEXT, "fewer than two labels"),
        (taxonomy('perRegion="true"'), TEXT, "perRegion"),
        (plain("Rating", 'maxRating="1"'), TEXT, 'maxRating="1"'),
        (plain("Rating", 'maxRating="many"'), TEXT, 'maxRating="many"'),
        (plain("Number", 'min="3" max="1"'), TEXT, "low < high"),
        (plain("Number", 'min="3" max="3"'), TEXT, "low < high"),
        (plain("Number", 'min="low"'), TEXT, 'min="low"'),
        (plain("Number", 'step="0"'), TEXT, "step"),
        (plain("Number", 'camvo_tolerance="-1"'), TEXT, "camvo_tolerance"),
        (plain("DateTime", 'only="month,year"'), TEXT, "only="),
        (plain("DateTime", 'format="%d.%m."'), TEXT, "no year"),
        (plain("DateTime", 'format="%G-%V"'), TEXT, "%G"),
        (plain("DateTime", 'min="yesterday"'), TEXT, 'min="yesterday"'),
        (plain("TextArea"), TEXT, "camvo_instructions"),
        (plain("TextArea", SENTENCE + ' perRegion="true"'), TEXT, "perRegion"),
        ('<Pairwise name="c" toName="text"/>', BOTH, "two names"),
        ('<Pairwise name="c" toName="text,text"/>', BOTH, "two objects"),
        ('<Pairwise name="c" toName="text,other" camvo_fields="text"/>', BOTH, "two objects"),
        ('<Ranker name="c" toName="text"><Bucket name="x"/></Ranker>', LIST, "Bucket"),
        (plain("Ranker"), TEXT, "one List"),
        (plain("Ranker", 'camvo_fields="text"'), LIST, "leaves out its List"),
    ],
)
def test_what_cannot_be_voted_on_is_skipped_with_the_reason(control: str, objects: str, part: str) -> None:
    config = parse_label_config(f"<View>{objects}{control}</View>")
    assert config.questions == ()
    assert part in config.skipped[0].reason


@pytest.mark.parametrize("tag", ["Text", "HyperText", "Paragraphs"])
@pytest.mark.parametrize("name", [name for name, tag in TAGS.items() if tag.objects == TEXT])
def test_a_tag_is_asked_on_every_object_that_holds_text(name: str, tag: str) -> None:
    objects = f'<{tag} name="text" value="$text"/>'
    (question,) = parse_label_config(f"<View>{objects}{TAGS[name].control}</View>").questions
    assert question.fields[0].tag == tag
    assert question.about(DATA).texts == {"text": "Some words."}


def test_another_rule_needs_another_version_of_the_prompt() -> None:
    rules = [asdict(tag.asked.config.control.answer_format) for tag in TAGS.values()]
    for rule in rules:
        del rule["packs"]  # it is no part of the prompt
    wording = hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:12]
    assert (PROMPT_VERSION, wording) == ("3", "64cb7d073624")
