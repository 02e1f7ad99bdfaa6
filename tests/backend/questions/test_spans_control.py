from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_sdk.label_interface.interface import LabelInterface

from backend.questions import TaskQuestion, parse_label_config
from backend.questions.spans import _MOST_NESTED, _MOST_SPANS
from camvo.errors import InvalidParameterError
from camvo.votes.spans import Span, read_spans, write_spans

LABELS = '<Label value="Person" alias="PER" hint="a human being"/><Label value="Place"/>'
SHAPES = {
    "Labels": ("Labels", '<Text name="text" value="$text"/>'),
    "Labels on HyperText": ("Labels", '<HyperText name="text" value="$text"/>'),
    "HyperTextLabels": ("HyperTextLabels", '<HyperText name="text" value="$text"/>'),
    "ParagraphLabels": ("ParagraphLabels", '<Paragraphs name="text" value="$text" textKey="says"/>'),
}
CONTENT: Mapping[str, Any] = {
    "Labels": "Alice met Bob.\r\nALICE 😀 left for Paris",
    "Labels on HyperText": "<p>Alice met <b>Bob</b>.</p>\n<p>ALICE 😀 left for<br>Paris</p>",
    "HyperTextLabels": "<p>Alice met <b>Bob</b>.</p>\n<p>ALICE 😀 left for<br>Paris</p>",
    "ParagraphLabels": [
        {"author": "Eve", "says": "Alice met Bob."},
        {"author": "Paris", "says": "ALICE 😀 left for Paris"},
    ],
}
ANSWER = [
    {"quote": "Alice", "before": "", "label": "Person"},
    {"quote": "Bob", "before": "met", "label": "Person"},
    {"quote": "ALICE 😀", "before": "", "label": "Person"},
    {"quote": "Paris", "before": "left for", "label": "Place"},
]


def xml(shape: str, attributes: str = "", labels: str = LABELS) -> str:
    tag, shown = SHAPES[shape]
    return f'<View><{tag} name="ner" toName="text" {attributes}>{labels}</{tag}>{shown}</View>'


def asked(shape: str = "Labels", content: object = None, **attributes: str) -> TaskQuestion:
    written = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    (question,) = parse_label_config(xml(shape, written)).questions
    return question.about({"text": CONTENT[shape] if content is None else content})


def vote(question: TaskQuestion, *entries: object) -> str:
    vote_ = question.vote_from_answer(list(entries))
    assert vote_ is not None
    return vote_


def quoted(quote: str, label: str = "Person", before: str = "") -> dict[str, str]:
    return {"quote": quote, "before": before, "label": label}


shapes = pytest.mark.parametrize("shape", SHAPES)


@shapes
def test_quotations_become_regions_with_their_words(shape: str) -> None:
    question = asked(shape)
    key = question.config.tag.lower()
    regions = question.result_items(vote(question, *ANSWER))
    assert {region["type"] for region in regions} == {key}
    assert [(region["value"]["text"], region["value"][key]) for region in regions] == [
        ("Alice", ["PER"]),
        ("Bob", ["PER"]),
        ("ALICE 😀", ["PER"]),
        ("Paris", ["Place"]),
    ]


@shapes
def test_label_studio_accepts_the_regions(shape: str) -> None:
    question = asked(shape)
    prediction = {"result": question.result_items(vote(question, *ANSWER)), "score": 0.5}
    assert LabelInterface(xml(shape)).validate_prediction(prediction, return_errors=True) == []


@shapes
def test_regions_are_read_back_as_the_vote(shape: str) -> None:
    question = asked(shape)
    original = vote(question, *ANSWER)
    assert question.config.vote_from_annotation(question.result_items(original)) == original


@shapes
def test_nothing_to_mark_is_an_answer_of_models_and_of_people(shape: str) -> None:
    question = asked(shape)
    assert question.vote_from_answer([]) == question.config.vote_from_annotation([]) == "[]"
    assert question.result_items("[]") == []


def test_text_is_counted_in_code_points_as_the_editor_does() -> None:
    regions = asked().result_items(vote(asked(), *ANSWER))
    assert [(r["value"]["start"], r["value"]["end"]) for r in regions] == [
        (0, 5),
        (10, 13),
        (16, 23),
        (33, 38),
    ]


def test_hypertext_goes_by_global_offsets() -> None:
    question = asked("HyperTextLabels")
    values = [region["value"] for region in question.result_items(vote(question, *ANSWER))]
    assert [(v["globalOffsets"]["start"], v["globalOffsets"]["end"]) for v in values] == [
        (0, 5),
        (10, 13),
        (15, 22),
        (32, 37),
    ]
    assert {(v["start"], v["end"]) for v in values} == {("", "")}


def test_paragraphs_are_counted_in_utf_16_line_by_line() -> None:
    question = asked("ParagraphLabels")
    values = [region["value"] for region in question.result_items(vote(question, *ANSWER))]
    assert [(v["start"], v["startOffset"], v["endOffset"]) for v in values] == [
        ("0", 0, 5),
        ("0", 10, 13),
        ("1", 0, 8),
        ("1", 18, 23),
    ]


def test_an_answer_of_more_than_a_thousand_spans_is_none() -> None:
    spans = [quoted("Bob")] * (_MOST_SPANS + 1)
    assert asked().vote_from_answer(spans) is None
    assert asked().vote_from_answer(spans[1:]) is not None


def test_an_answer_with_more_than_ten_spans_over_one_character_is_none() -> None:
    question = asked(content="abcdefghijklmnop")
    nested = [quoted("abcdefghijklmnop"[:end]) for end in range(1, _MOST_NESTED + 2)]
    assert question.vote_from_answer(nested) is None
    assert question.vote_from_answer(nested[1:]) is not None


def test_the_names_of_those_who_speak_are_not_marked() -> None:
    assert asked("ParagraphLabels").vote_from_answer([quoted("Eve")]) is None


def test_a_quotation_over_two_lines_of_a_dialogue_is_not_marked() -> None:
    assert asked("ParagraphLabels").vote_from_answer([quoted("met Bob.\nALICE")]) is None


def test_repeated_quotations_go_through_the_text() -> None:
    question = asked(content="Bob and Bob and Bob")
    assert vote(question, quoted("Bob"), quoted("Bob")) == '[[0,3,"PER"],[8,11,"PER"]]'
    assert vote(question, *[quoted("Bob")] * 4) == '[[0,3,"PER"],[8,11,"PER"],[16,19,"PER"]]'


def test_a_quotation_that_is_not_found_is_dropped() -> None:
    assert vote(asked(), quoted("Carol"), quoted("Bob")) == '[[10,13,"PER"]]'


@pytest.mark.parametrize(
    "entry",
    [
        quoted("Carol"),
        quoted("Bob", label="Animal"),
        {"quote": "Bob"},
        {"label": "Person"},
        {"quote": 3, "label": "Person"},
        "Bob",
        None,
        ["Bob", "Person"],
    ],
)
def test_an_answer_in_which_nothing_is_found_is_no_vote(entry: object) -> None:
    assert asked().vote_from_answer([entry]) is None


@pytest.mark.parametrize("given", ["Bob", {"quote": "Bob", "label": "Person"}, None, 3])
def test_anything_but_a_list_is_no_vote(given: object) -> None:
    assert asked().vote_from_answer(given) is None


def test_a_person_s_region_with_two_labels_is_two_spans() -> None:
    item = {"from_name": "ner", "type": "labels", "value": {"start": 0, "end": 5, "labels": ["PER", "Place"]}}
    assert asked().config.vote_from_annotation([item]) == '[[0,5,"PER"],[0,5,"Place"]]'


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("Labels", {"start": 0, "end": 5, "labels": ["Person"]}),
        ("Labels", {"start": 5, "end": 5, "labels": ["PER"]}),
        ("Labels", {"start": "0", "end": "5", "labels": ["PER"]}),
        ("Labels", {"start": 0, "end": 5, "labels": "PER"}),
        ("Labels", {"start": 0, "end": 5, "labels": [["PER"]]}),
        ("Labels", {"labels": ["PER"]}),
        ("Labels", None),
        ("HyperTextLabels", {"start": "/p[1]/text()[1]", "startOffset": 0, "hypertextlabels": ["PER"]}),
        (
            "ParagraphLabels",
            {"start": "0", "end": "1", "startOffset": 0, "endOffset": 5, "paragraphlabels": ["PER"]},
        ),
    ],
)
def test_a_person_s_region_that_cannot_be_read_spoils_the_answer(shape: str, value: object) -> None:
    question = asked(shape).config
    good = asked(shape).result_items(vote(asked(shape), quoted("Bob")))
    bad = {"from_name": "ner", "type": question.tag.lower(), "value": value}
    assert question.vote_from_annotation(good) is not None
    assert question.vote_from_annotation([*good, bad]) is None


def test_what_the_editor_writes_for_hypertext_is_read() -> None:
    value = {
        "start": "/p[1]/text()[1]",
        "end": "/p[1]/b[1]/text()[1]",
        "startOffset": 6,
        "endOffset": 3,
        "globalOffsets": {"start": 6, "end": 13},
        "text": "met Bob",
        "hypertextlabels": ["PER"],
    }
    item = {
        "from_name": "ner",
        "to_name": "text",
        "type": "hypertextlabels",
        "value": value,
        "origin": "manual",
    }
    assert asked("HyperTextLabels").config.vote_from_annotation([item]) == '[[6,13,"PER"]]'


def test_a_control_that_people_see_only_sometimes_says_nothing_when_left_alone() -> None:
    mood = '<Choices name="mood" toName="text"><Choice value="Good"/><Choice value="Bad"/></Choices>'
    hidden = f'<View visibleWhen="choice-selected" whenTagName="mood">{xml("Labels")}</View>'
    _, question = parse_label_config(f"<View>{mood}{hidden}</View>").questions
    assert question.vote_from_annotation([]) is None
    assert asked(visibleWhen="choice-selected").config.vote_from_annotation([]) == "[]"  # Labels ignore it


def test_models_are_asked_for_quotations() -> None:
    request = asked().config.control.answer_format
    assert request.labels == (("Person", "a human being"), ("Place", None))
    assert json.dumps(request.schema).count('"required": ["quote", "before", "label"]') == 1
    assert '"text"' in request.rule


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (xml("Labels", 'value="$labels"'), "task's data"),
        (xml("Labels", labels=""), "no label"),
        (xml("Labels", labels="<Label/>"), "no value"),
        (xml("Labels", labels='<Label value="A"/><Label value="A"/>'), '2 of its labels are stored as "A"'),
        (xml("Labels", 'camvo_fields="title"'), "camvo_fields"),
        (
            xml("Labels")
            .replace("<Text", '<Text name="more" value="$more"/><Text')
            .replace('toName="text"', 'toName="text,more"'),
            "several objects",
        ),
        (xml("Labels").replace("Labels", "ParagraphLabels"), "ParagraphLabels on Text"),
        (xml("ParagraphLabels").replace("ParagraphLabels", "Labels"), "Labels on Paragraphs"),
    ],
)
def test_labels_that_cannot_be_voted_on_are_skipped_with_the_reason(config: str, reason: str) -> None:
    parsed = parse_label_config(config)
    assert parsed.questions == ()
    assert reason in parsed.skipped[0].reason


@pytest.mark.parametrize("text", ['[[0,5,"Person"]]', "", "[[0,5]]"])
def test_there_are_no_regions_for_a_vote_on_something_else(text: str) -> None:
    with pytest.raises(InvalidParameterError):
        asked().result_items(text)


def test_one_label_is_enough_to_mark_spans() -> None:
    assert parse_label_config(xml("Labels", labels='<Label value="A"/>')).questions


WORDS = ["Alice", "met", "Bob", "in", "Paris", "Straße", "😀", "<", "&"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)


@given(texts, st.data())
@settings(deadline=None)
@shapes
def test_any_words_of_the_text_are_marked_where_they_stand(
    shape: str, words: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    text = " ".join(words)
    html = text.replace("&", "&amp;").replace("<", "&lt;")
    content = {
        "Labels": text,
        "ParagraphLabels": [{"says": "Hm."}, {"says": text}],
    }.get(shape, f"<div>\n<p>{html}</p></div>")
    question = asked(shape, content)
    quote = " ".join(words[first : last + 1])
    given_vote = vote(question, quoted(quote, before=" ".join(words[:first])))
    (region,) = question.result_items(given_vote)
    assert region["value"]["text"] == quote
    assert question.config.vote_from_annotation([region]) == given_vote
    if shape == "Labels":
        (span,) = read_spans(given_vote)
        assert text[span.start : span.end] == quote


@given(
    st.sets(st.tuples(st.integers(0, 30), st.integers(1, 6), st.sampled_from(["PER", "Place"])), max_size=5)
)
@settings(deadline=None)
@shapes
def test_any_set_of_spans_makes_the_round_trip(shape: str, drawn: set[tuple[int, int, str]]) -> None:
    question = asked(shape)
    text = write_spans(Span(start, start + length, label) for start, length, label in drawn)
    assert question.config.vote_from_annotation(question.result_items(text)) == text
