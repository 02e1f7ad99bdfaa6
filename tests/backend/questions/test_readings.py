"""Answers as real models write them, read by each control in the only way in which they can be read."""

from __future__ import annotations

import json

import pytest

from backend.errors import BadAnswerError
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.prompts.answers import parse_answer

TEXT = "Paris Hilton said: “it’s cold” in Zoë’s Paris."
DATA = {"text": TEXT, "items": [{"id": name, "title": f"title {name}"} for name in ("a", "b", "3")]}
TREE = (
    '<Choice value="Animal"><Choice value="Dog"/><Choice value="Cat"/></Choice>'
    '<Choice value="Plant"><Choice value="Tree"/><Choice value="Cat"/></Choice>'
)


def asked(control: str) -> TaskQuestion:
    objects = '<Text name="t" value="$text"/><List name="l" value="$items"/>'
    [question] = parse_label_config(f"<View>{objects}{control}</View>").questions
    return question.about(DATA)


def labels(*values: str) -> str:
    listed = "".join(f'<Choice value="{value}"/>' for value in values)
    return f'<Choices name="c" toName="t">{listed}</Choices>'


def read(control: str, content: str) -> str | None:
    try:
        return parse_answer(content, [asked(control)])["c"]
    except BadAnswerError:
        return None


MOODS = labels("Good", "Not good")
CHINESE = labels("好评", "差评")
STARS = '<Rating name="c" toName="t"/>'
SCORE = '<Number name="c" toName="t" min="0" max="100" step="1"/>'
SHARE = '<Number name="c" toName="t" min="0" max="1"/>'
COUNT = '<Number name="c" toName="t" step="1"/>'
ANY = '<Number name="c" toName="t"/>'
DATE, TIME = ('<DateTime name="c" toName="t" only="{}"/>'.format(only) for only in ("date", "time"))  # noqa: UP032
ORDER = '<Ranker name="c" toName="l"/>'
LEAF = f'<Taxonomy name="c" toName="t" maxUsages="1">{TREE}</Taxonomy>'
LEAVES = f'<Taxonomy name="c" toName="t">{TREE}</Taxonomy>'
SPANS = '<Labels name="c" toName="t"><Label value="PER"/><Label value="LOC"/></Labels>'


@pytest.mark.parametrize(
    ("control", "content", "vote"),
    [
        (MOODS, 'I think the answer is "Good".', "Good"),
        (MOODS, '{"c": "Good (90%)"}', "Good"),
        (MOODS, "Not good (confidence: 0.8)", "Not good"),
        (CHINESE, "好评。", "好评"),
        (CHINESE, '{"c": "【差评】"}', "差评"),
        (CHINESE, "答案：差评", "差评"),
        (labels("سلبي", "إيجابي"), "الإجابة: سلبي،", "سلبي"),
        (labels("👍", "👎"), '{"c": "👍\ufe0f"}', "👍"),
        (STARS, "⭐\ufe0f⭐\ufe0f⭐\ufe0f", "3"),
        (STARS, "Four stars", "4"),
        (STARS, "4 of 5 stars", "4"),
        (SCORE, "75%", "75"),
        (SCORE, '{"c": "75,0"}', "75"),
        (SHARE, '{"c": "75 %"}', "0.75"),
        (COUNT, '{"c": "12,500"}', "12500"),
        (ANY, '{"c": "1,234.5"}', "1234.5"),
        (ANY, '{"c": "1.234,5"}', "1234.5"),
        (ANY, '{"c": "1\u00a0234\u00a0567"}', "1234567"),
        (ANY, '{"c": "$12"}', "12"),
        (ANY, '{"c": "−3.5"}', "-3.5"),
        (DATE, "March 5, 2024", "2024-03-05"),
        (DATE, '{"c": "2024年3月5日"}', "2024-03-05"),
        (DATE, '{"c": "2024/03/05"}', "2024-03-05"),
        (TIME, '{"c": "2:30 PM"}', "14:30"),
        (ORDER, "1. b\n2. 3\n3. a", '["b","3","a"]'),
        (ORDER, "b → 3 → a", '["b","3","a"]'),
        (ORDER, '{"c": ["b: title b", "3: title 3", "a: title a"]}', '["b","3","a"]'),
        (LEAF, '{"c": {"Animal": ["Dog"]}}', "Animal / Dog"),
        (LEAVES, "Animal / Dog, Plant / Tree", '["Animal / Dog","Plant / Tree"]'),
        (LEAVES, '{"c": {"Animal": ["Dog", "Cat"], "Plant": "Tree"}}', None),
    ],
)
def test_what_can_be_read_in_one_way_is_a_vote(control: str, content: str, vote: str | None) -> None:
    assert read(control, content) == (vote or '["Animal / Dog","Animal / Cat","Plant / Tree"]')


@pytest.mark.parametrize(
    ("control", "content"),
    [
        (MOODS, '{"c": "Good (2)"}'),
        (MOODS, "I think the answer is Good, or Not good."),
        (STARS, "4 of 10"),
        (SCORE, '{"c": "1,000"}'),
        (ANY, '{"c": "1,000"}'),
        (ANY, '{"c": "12%"}'),
        (ANY, '{"c": "70–80"}'),
        (ANY, '{"c": "12 million"}'),
        (DATE, '{"c": "05/03/2024"}'),
        (ORDER, "2. b\n1. 3\n3. a"),
        (ORDER, '{"c": ["a: 3", "b: 1", "3: 2"]}'),
        (LEAF, '{"c": "Plant / Dog"}'),
        (LEAF, '{"c": "Animal / Dog, Plant / Tree"}'),
        (LEAVES, '{"c": {"Animal": ["Dog", "Bird"]}}'),
    ],
)
def test_what_can_be_read_in_several_ways_is_none(control: str, content: str) -> None:
    assert read(control, content) is None


SPAN = {"quote": "Paris Hilton", "before": "", "label": "PER"}


def test_a_bare_array_with_one_span_is_read_as_one_with_several() -> None:
    assert read(SPANS, json.dumps([SPAN])) == '[[0,12,"PER"]]'
    assert read(SPANS, f"```json\n[{json.dumps(SPAN)},]\n```") == '[[0,12,"PER"]]'
    assert read(SPANS, f"[{json.dumps(SPAN)}, {{") is None  # it was cut off


@pytest.mark.parametrize(
    ("quote", "words"),
    [("it's cold", "it’s cold"), ('"it\'s cold"', "“it’s cold”"), ("Zoe\u0308", "Zoë"), ("Zoë's", "Zoë’s")],
)
def test_a_quotation_in_plain_quotes_or_another_unicode_form_is_found(quote: str, words: str) -> None:
    start = TEXT.index(words)
    vote = f'[[{start},{start + len(words)},"LOC"]]'
    assert read(SPANS, json.dumps({"c": [{"text": quote, "label": "LOC"}]})) == vote
