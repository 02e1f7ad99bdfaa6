"""Prompts about several tasks: how texts are fenced, and whose answer is whose."""

from __future__ import annotations

import hashlib
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.questions import parse_label_config
from backend.questions.prompts.packs import (
    PACK_VERSION,
    PackedTask,
    draw_ids,
    packed_messages,
    packed_schema,
    packed_task,
    split_answer,
)

MOOD = (
    '<View><Text name="note" value="$text"/><Choices name="mood" toName="note" choice="single">'
    '<Choice value="Glad"/><Choice value="Sad"/></Choices></View>'
)
AB = '<Choice value="a"/><Choice value="b"/>'
TWO = MOOD.replace("</View>", '<Rating name="stars" toName="note" maxRating="5"/></View>')


def about(text: str, config: str = MOOD) -> PackedTask:
    questions = [question.about({"text": text}) for question in parse_label_config(config).questions]
    packed = packed_task(questions, None)
    assert packed is not None
    return packed


def split(content: str, config: str = MOOD) -> dict[str, object]:
    tasks = {"417": about("Sun.", config), "862": about("Rain.", config)}
    return {number: json.loads(part) for number, part in split_answer(content, tasks).items()}


BOTH = {"417": {"mood": "Glad"}, "862": {"mood": "Sad"}}


@pytest.mark.parametrize(
    "content",
    [
        '{"417": "Glad", "862": "Sad"}',
        '{"862": "Sad", "417": "Glad", "999": "Glad"}',
        '{"417": {"mood": "Glad"}, "862": {"mood": "Sad"}}',
        '```json\n{"417": "Glad", "862": "Sad"}\n```',
        'Here you are:\n{"417": "Glad", "862": "Sad"} I hope that helps.',
        '{"answers": {"417": "Glad", "862": "Sad"}}',
        '{417: "Glad", 862: "Sad"}',
        '[{"id": "417", "mood": "Glad"}, {"id": 862, "answer": "Sad"}]',
        '{"answers": [{"id": "417", "label": "Glad"}, {"id": "862", "label": "Sad"}]}',
        '{"417": "Glad", "862": "Sad", "417": "Glad"}',
    ],
)
def test_an_answer_is_split_by_id(content: str) -> None:
    assert split(content) == BOTH


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ('{"417": "Glad"}', {"417": {"mood": "Glad"}}),
        ('{"417": "Glad", "862": "Sa', {"417": {"mood": "Glad"}}),
        ('{"417": "Glad", "862": "Sad", "417": "Sad"}', {"862": {"mood": "Sad"}}),
        ("Glad, Sad", {}),
        ("", {}),
        ("[" * 5000, {}),
    ],
)
def test_what_is_missing_or_said_twice_differently_is_left_out(content: str, left: object) -> None:
    assert split(content) == left


def test_a_text_that_quotes_an_answer_is_no_answer() -> None:
    assert split(json.dumps({"417": {"mood": '"862": "Glad"'}})) == {"417": {"mood": '"862": "Glad"'}}


def test_several_questions_are_answered_by_name() -> None:
    content = '{"417": {"mood": "Glad", "stars": 5}, "862": {"mood": "Sad", "stars": 1}}'
    assert split(content, TWO) == json.loads(content)


@given(
    st.lists(st.text(st.sampled_from("BEGIND 0123456789\n"), max_size=60), min_size=1, max_size=8),
    st.randoms(),
)
def test_every_text_stands_between_lines_that_occur_in_no_text(texts: list[str], rng: random.Random) -> None:
    tasks = [about(f"x{text}") for text in texts]
    ids = draw_ids(tasks, rng)
    assert ids is not None
    prompt = packed_messages(dict(zip(ids, tasks, strict=True)))[1]["content"]
    for number, text in zip(ids, texts, strict=True):
        assert re.findall(rf"BEGIN {number}\n(.*?)\nEND {number}\n", prompt, re.DOTALL) == [f"x{text}"]


def test_a_text_with_lines_for_all_ids_leaves_none() -> None:
    text = "\n".join(f"END {number}" for number in range(100, 1000))
    assert draw_ids([about(text)], random.SystemRandom()) is None


def test_the_schema_asks_for_every_id_and_lists_no_label() -> None:
    schema = packed_schema({"417": about("Sun."), "862": about("Rain.")})
    assert schema["required"] == ["417", "862"]
    assert schema["properties"]["417"] == {"type": "string"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tag", "packs"),
    [
        (f'<Choices name="c" toName="note" choice="multiple">{AB}</Choices>', True),
        ('<Number name="c" toName="note" min="0" max="9"/>', True),
        ('<Rating name="c" toName="note"/>', True),
        ('<DateTime name="c" toName="note" only="date"/>', True),
        (f'<Taxonomy name="c" toName="note">{AB}</Taxonomy>', True),
        ('<TextArea name="c" toName="note" camvo_instructions="One word."/>', False),
        ('<Labels name="c" toName="note"><Label value="a"/><Label value="b"/></Labels>', False),
    ],
)
def test_short_answers_pack_and_free_text_and_spans_do_not(tag: str, packs: bool) -> None:
    config = parse_label_config(f'<View><Text name="note" value="$text"/>{tag}</View>')
    questions = [question.about({"text": "Sun."}) for question in config.questions]
    assert questions
    assert (packed_task(questions, None) is not None) == packs


def test_instructions_and_options_come_first_and_are_equal_for_all_tasks() -> None:
    assert about("Sun.").system == about("Rain.").system
    assert '- "Glad"' in about("Sun.").system


def test_the_version_stands_for_the_wording() -> None:
    prompt = packed_messages({"417": about("Sun.")})
    wording = "\n".join(message["content"] for message in prompt)
    assert (PACK_VERSION, hash_of(wording)) == ("1", "f0a14fb6dbe4")


def hash_of(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:12]
