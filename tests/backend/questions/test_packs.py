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
from backend.questions.prompts import packs
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
    tasks = {"417082": about("Sun.", config), "862305": about("Rain.", config)}
    return {number: json.loads(part) for number, part in split_answer(content, tasks).items()}


BOTH = {"417082": {"mood": "Glad"}, "862305": {"mood": "Sad"}}


@pytest.mark.parametrize(
    "content",
    [
        '{"417082": "Glad", "862305": "Sad"}',
        '{"862305": "Sad", "417082": "Glad", "999": "Glad"}',
        '{"417082": {"mood": "Glad"}, "862305": {"mood": "Sad"}}',
        '```json\n{"417082": "Glad", "862305": "Sad"}\n```',
        'Here you are:\n{"417082": "Glad", "862305": "Sad"} I hope that helps.',
        '{"answers": {"417082": "Glad", "862305": "Sad"}}',
        '{417082: "Glad", 862305: "Sad"}',
        '[{"id": "417082", "mood": "Glad"}, {"id": 862305, "answer": "Sad"}]',
        '{"answers": [{"id": "417082", "label": "Glad"}, {"id": "862305", "label": "Sad"}]}',
        '{"417082": "Glad", "862305": "Sad", "417082": "Glad"}',
    ],
)
def test_an_answer_is_split_by_id(content: str) -> None:
    assert split(content) == BOTH


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ('{"417082": "Glad"}', {"417082": {"mood": "Glad"}}),
        ('{"417082": "Glad", "862305": "Sa', {"417082": {"mood": "Glad"}}),
        ('{"417082": "Glad", "862305": "Sad", "417082": "Sad"}', {"862305": {"mood": "Sad"}}),
        ("Glad, Sad", {}),
        ("", {}),
        ("[" * 5000, {}),
    ],
)
def test_what_is_missing_or_said_twice_differently_is_left_out(content: str, left: object) -> None:
    assert split(content) == left


def test_a_text_that_quotes_an_answer_is_no_answer() -> None:
    assert split(json.dumps({"417082": {"mood": '"862305": "Glad"'}})) == {
        "417082": {"mood": '"862305": "Glad"'}
    }


def test_several_questions_are_answered_by_name() -> None:
    content = '{"417082": {"mood": "Glad", "stars": 5}, "862305": {"mood": "Sad", "stars": 1}}'
    assert split(content, TWO) == json.loads(content)


@given(
    st.lists(st.text(st.sampled_from("BEGIND 0123456789\n"), max_size=60), min_size=1, max_size=8),
    st.randoms(),
)
def test_every_text_stands_between_lines_that_occur_in_no_text(texts: list[str], rng: random.Random) -> None:
    tasks = [about(f"x{text}") for text in texts]
    ids = draw_ids(tasks, rng)
    prompt = packed_messages(dict(zip(ids, tasks, strict=True)))[1]["content"]
    for number, text in zip(ids, texts, strict=True):
        assert re.findall(rf"BEGIN {number}\n(.*?)\nEND {number}\n", prompt, re.DOTALL) == [f"x{text}"]


@pytest.mark.parametrize(
    "line",
    [
        "BEGIN {}",
        "end {}",
        "Begin  {}",
        "BEGIN\t{}",
        "BEGIN\u00a0{}",
        "END\u3000{}",
        "\uff22\uff25\uff27\uff29\uff2e {}",
        "\uff45\uff4e\uff44\u00a0 {}",
        "END: {}",
        "**END** `{}`",
        "BEGIN_{}",
        "BE\u200bGIN\u2060 {}",
        "x BEGIN{} y",
        "END\n{}",
    ],
)
@pytest.mark.parametrize("zero", ["0", "\uff10", "\u0660"], ids=["ASCII", "full width", "Arabic"])
def test_no_task_gets_an_id_that_a_text_names_in_a_form_like_a_marker(
    line: str, zero: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digits(number: int) -> str:
        return "".join(chr(ord(zero) + int(digit)) for digit in str(number))

    monkeypatch.setattr(packs, "_IDS", range(100_000, 100_021))
    text = "\n".join(line.format(digits(number)) for number in range(100_000, 100_019))
    # The text may name the other task's id as little as its own.
    assert {*draw_ids([about(text), about("Sun.")], random.SystemRandom())} == {"100019", "100020"}


def test_a_text_that_lists_some_ids_does_not_determine_those_of_its_prompt() -> None:
    tasks = [about("\n".join(f"BEGIN {number}" for number in range(100_000, 110_000)))]
    assert len({draw_ids(tasks, random.SystemRandom())[0] for _ in range(50)}) > 40


def test_the_schema_asks_for_every_id_and_lists_the_labels_once() -> None:
    schema = packed_schema({"417082": about("Sun."), "862305": about("Rain.")})
    assert schema["required"] == ["417082", "862305"]
    assert schema["properties"] == {key: {"$ref": "#/$defs/answer"} for key in schema["required"]}
    assert schema["$defs"] == {"answer": {"type": "string", "enum": ["Glad", "Sad"]}}
    assert schema["additionalProperties"] is False


def test_questions_whose_names_no_provider_takes_as_keys_are_split_by_safe_ones() -> None:
    config = MOOD.replace('name="mood"', 'name="Stimmung: wie?"')
    task = about(
        "Sun.", config.replace("</View>", f'<Choices name="größe" toName="note">{AB}</Choices></View>')
    )
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", key) for key in task.schemas)
    mood, size = task.schemas
    split = split_answer(json.dumps({"417082": {mood: "Glad", size: "a"}}), {"417082": task})
    assert json.loads(split["417082"]) == {mood: "Glad", size: "a"}


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
    prompt = packed_messages({"417082": about("Sun.")})
    wording = "\n".join(message["content"] for message in prompt)
    assert (PACK_VERSION, hash_of(wording)) == ("3", "33fb637c1e8b")


def hash_of(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def test_an_answer_with_a_thousand_entries_that_cannot_be_read_is_read_no_further() -> None:
    unread = "417082: no JSON\n"
    assert split(unread * 999 + '"417082": "Glad"') == {"417082": {"mood": "Glad"}}
    assert split(unread * 1000 + '"417082": "Glad"') == {}
