"""Answers as models wrap them: a label comes out of every wrapping, and no other words are a label."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import BadAnswerError
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.controls import AnyOf, OneOf
from backend.questions.naming import label_named, labels_named
from backend.questions.prompts.answers import json_values, parse_answer
from backend.questions.prompts.packs import packed_task, split_answer
from backend.questions.xml import Label

FOLDER = Path(__file__).parents[3] / "label_config"
TREE = (
    '<Choice value="Science"><Choice value="Physics"/><Choice value="Bio-tech"/></Choice>'
    '<Choice value="Arts"/>'
)
FLAT = {
    "amp": ("Science &amp; Tech", "News"),
    "numbers": ("0", "1", "2"),
    "truth": ("true", "false"),
    "null": ("null", "other"),
    "hyphens": ("well-known", "unknown"),
}


def choices(values: Sequence[str], attributes: str = "") -> str:
    listed = "".join(f'<Choice value="{value}"/>' for value in values)
    return f'<Choices name="topic" toName="t" {attributes}>{listed}</Choices>'


MORE = [
    *map(choices, FLAT.values()),
    f'<Taxonomy name="topic" toName="t" maxUsages="1">{TREE}</Taxonomy>',
    choices(("A b", "C, d", "e"), 'choice="multiple"'),
]


def questions() -> list[TaskQuestion]:
    """Every question of every label config that asks for labels."""
    configs = [path.read_text() for path in sorted(FOLDER.glob("*.xml"))]
    configs += [f'<View><Text name="t" value="$t"/>{control}</View>' for control in MORE]
    asked = []
    for xml in configs:
        for question in parse_label_config(xml).questions:
            if isinstance(question.control, OneOf | AnyOf):
                data = {field.key: "words" for field in question.fields}
                asked.append(question.about(data))
    return asked


QUESTIONS = questions()
assert len(QUESTIONS) > 12


def labels_of(question: TaskQuestion) -> tuple[Label, ...]:
    assert isinstance(question.config.control, OneOf | AnyOf)
    return question.config.control.labels


CASES = [(question, label) for question in QUESTIONS for label in labels_of(question)]


def as_json(name: str, text: str) -> str:
    return json.dumps({name: text}, ensure_ascii=False)


WRAPPINGS: dict[str, Callable[[str, str], str]] = {
    "plain": as_json,
    "words around a fence": lambda n, t: f"Sure! Here you go:\n```json\n{as_json(n, t)}\n```\nAnything else?",
    "unclosed fence": lambda n, t: f"```json\n{as_json(n, t)}",
    "words before": lambda n, t: f"Here is the JSON you asked for:\n{as_json(n, t)}",
    "words after": lambda n, t: f"{as_json(n, t)}\n\nThe text speaks for itself.",
    "thinking without its opening": lambda n, t: f'Is it {{"{n}": "x"}}?\n</think>\n\n{as_json(n, t)}',
    "thinking": lambda n, t: f"<think>Hm.</think>{as_json(n, t)}",
    "channels": lambda n, t: (
        f"<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>{as_json(n, t)}"
    ),
    "array": lambda n, t: f"[{as_json(n, t)}]",
    "wrapped": lambda n, t: f'{{"answer": {as_json(n, t)}}}',
    "wrapped in a text": lambda n, t: json.dumps({"answer": as_json(n, t)}),
    "key in another case": lambda n, t: as_json(n.upper(), t),
    "key with blanks": lambda n, t: as_json(f" {n} ", t),
    "trailing comma": lambda n, t: as_json(n, t)[:-1] + ",}",
    "single quotes": lambda n, t: f"{{'{n}': '{t}'}}",
    "typographic quotes": lambda n, t: f"{{“{n}”: “{t}”}}",
    "byte order mark": lambda n, t: "\ufeff" + as_json(n, t),
    "end of turn": lambda n, t: f"{as_json(n, t)}<|im_end|>",
    "two ends of turns": lambda n, t: f"{as_json(n, t)}</s>\n<|eot_id|>",
    "bold JSON": lambda n, t: f"**{as_json(n, t)}**",
    "list of one": lambda n, t: json.dumps({n: [t]}),
    "usual key": lambda n, t: json.dumps({"label": t, "confidence": 0.9}),
    "object of one": lambda n, t: json.dumps({n: {"label": t}}),
    "twice the same": lambda n, t: f"{as_json(n, t)}\n{as_json(n, t)}",
    "sentence": lambda n, t: f"The answer is {t}.",
    "bold sentence": lambda n, t: f"**Answer:** {t}",
    "line after an explanation": lambda n, t: f"The words are clear.\nFinal answer: {t}",
    "line with its name": lambda n, t: f"{n}: {t}",
    "bare": lambda n, t: t,
    "bold": lambda n, t: f"**{t}**",
    "quoted": lambda n, t: f"“{t}”",
    "code": lambda n, t: f"`{t}`",
    "other spaces": lambda n, t: as_json(n, t.replace(" ", "\u00a0")),
    "zero width": lambda n, t: as_json(n, "\u200b" + t),
    "entities": lambda n, t: as_json(n, t.replace("&", "&amp;")),
    "full width": lambda n, t: as_json(n, "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t)),
    "typographic hyphen": lambda n, t: as_json(n, t.replace("-", "\u2011")),
    "other case": lambda n, t: as_json(n, t.upper()),
    "decomposed": lambda n, t: as_json(n, unicodedata.normalize("NFD", t)),
    "a tag": lambda n, t: f"<answer>{t}</answer>",
    "a tag with its name": lambda n, t: f"Words.\n<{n}>\n{t}\n</{n}>",
    "a tag around JSON": lambda n, t: f"<answer>{as_json(n, t)}</answer>",
    "boxed": lambda n, t: f"The answer is \\boxed{{{t}}}.",
    "item": lambda n, t: as_json(n, f"- {t}"),
    "numbered item": lambda n, t: as_json(n, f"2. {t}"),
    "heading": lambda n, t: f"## {t}",
    "first line": lambda n, t: f"**{t}**\n\nExplanation: the words are clear.",
    "last line": lambda n, t: f"The words are clear.\n\n{t}",
    "words of a tool's call": lambda n, t: (
        f'<tool_call>{{"name": "labels", "arguments": {as_json(n, t)}}}</tool_call>'
    ),
    "deep inside": lambda n, t: f'{{"status": "ok", "data": {{"labels": {as_json(n, t)}, "n": 1}}}}',
    "another turn after its end": lambda n, t: f'{as_json(n, t)}<|im_end|>\nHuman: {{"{n}": "x"}}',
    "comment": lambda n, t: as_json(n, t)[:-1] + " /* sure */}",
    "full-width colon": lambda n, t: f"{n}：{t}",
    "dash": lambda n, t: f"{n} - {t}",
    "arrow": lambda n, t: f"{n} -> {t}",
    "numbered line": lambda n, t: f"1. {n}: {t}",
    "polite sentence": lambda n, t: f"Sure! The label for this text is {t}.",
    "clause of a sentence": lambda n, t: f"Sure! After reading it carefully, the best label is **{t}**.",
    "sentence among others": lambda n, t: f"I have read it.\n\nSo the label is {t}. Thank you, bye!",
    "properties of a schema": lambda n, t: f'{{"properties": {as_json(n, t)}}}',
    "call of a tool": lambda n, t: json.dumps(
        {"tool_calls": [{"type": "function", "function": {"name": "x", "arguments": as_json(n, t)}}]}
    ),
    "named in a list": lambda n, t: json.dumps({"answers": [{"question": n, "answer": t}, {"note": "x"}]}),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_label_comes_out_of_every_wrapping(wrapping: str) -> None:
    for question, label in CASES:
        content = WRAPPINGS[wrapping](question.name, label.text)
        expected = label.value if isinstance(question.config.control, OneOf) else json.dumps([label.value])
        votes = parse_answer(content, [question])
        found = json.dumps(json.loads(votes[question.name])) if expected[0] == "[" else votes[question.name]
        assert found == expected, content


@pytest.mark.parametrize(
    "thoughts", ["It could be Positive or Negative.", "Negative at first sight.\nPositive on the whole."]
)
def test_a_label_alone_on_the_last_line_decides_after_thoughts_that_name_others(thoughts: str) -> None:
    assert parse_answer(f"{thoughts}\n\n**Positive**", [MOOD]) == {"mood": "Positive"}


def test_a_label_that_is_a_word_of_doubt_is_read_from_prose() -> None:
    xml = f'<View><Text name="t" value="$t"/>{choices(("Clear", "Maybe"))}</View>'
    question = parse_label_config(xml).questions[0].about({"t": "words"})
    assert parse_answer("I have read it, and the label is Maybe.", [question]) == {"topic": "Maybe"}


@pytest.mark.parametrize(
    "words",
    [
        'The text says: "the label is Negative". My verdict: good.',
        "The text ends as follows: “the label is Negative”. Good words.",
        "The author says: the label is Negative. Good words.",
        "In the first example, the label is Negative. This one is harder.",
        "The label is Negative. I retract that.",
        "The label is Negative. Wait, let me think again: the tone is good.",
        "Typically, the label is Negative. This case differs.",
        "Had it been shorter, the label: Negative.",
    ],
)
def test_a_label_that_prose_repeats_or_takes_back_is_no_vote(words: str) -> None:
    with pytest.raises(BadAnswerError):
        parse_answer(words, [MOOD])


MOOD, TOPIC = (
    parse_label_config(
        f'<View><Text name="t" value="$t"/><Choices name="{name}" toName="t">'
        + "".join(f'<Choice value="{value}"/>' for value in values)
        + "</Choices></View>"
    )
    .questions[0]
    .about({"t": "words"})
    for name, values in {"mood": ("Positive", "Negative"), "topic": ("Sports", "Politics")}.items()
)


NAMELESS = ("bare", "bold", "quoted", "code", "a tag", "boxed", "heading", "first line", "last line")
"""Wrappings without the name of the question, which say nothing where there are several."""


@pytest.mark.parametrize(
    "wrapping",
    sorted(
        {*WRAPPINGS}
        - {
            "clause of a sentence",
            "sentence among others",
            "usual key",
            "sentence",
            "bold sentence",
            "polite sentence",
            "object of one",
        }
    ),
)
def test_two_questions_are_read_from_one_object_or_not_at_all(wrapping: str) -> None:
    content = WRAPPINGS[wrapping]("mood", "Positive")
    try:
        votes = parse_answer(content, [MOOD, TOPIC])
    except BadAnswerError:
        votes = {"mood": "Positive"} if wrapping in NAMELESS else {}
    if "line after" not in wrapping:
        assert votes == {"mood": "Positive"}


@pytest.mark.parametrize(
    "content", ["- **Mood:** Negative\n- **Topic:** Sports", "mood: Negative, topic: Sports"]
)
def test_lines_with_names_answer_several_questions(content: str) -> None:
    assert parse_answer(content, [MOOD, TOPIC]) == {"mood": "Negative", "topic": "Sports"}


@pytest.mark.parametrize(
    "content",
    [
        '{"mood": "Positive"} or rather {"mood": "Negative"}',
        '{"mood": ["Positive", "Negative"]}',
        "Answer: Positive\nAnswer: Negative",
        "Positive, Negative",
        "It is not Positive.",
        "The answer is neither Positive nor Negative.",
        '<think>{"mood": "Positive"}',
        '{"mood": {"Positive": true, "Negative": true}}',
        '{"mood": "Positive", "mood": "Negative"}',
        "I cannot answer this, although others would say Positive.",
        '{"mood": "I am sorry, but I cannot help with that."}',
        '{"mood": "<label>"}',
        '{"mood": "Posit',
        "Positive\n\nI would not say so.",
        "Positive\n\nNegative is what others would say.",
        "Is it\n\nPositive\n\nNo.",
        "Negative\nor\n\nPositive",
        "One would say Negative, and I would not say\n\nPositive",
        "<answer>Positive</answer> <answer>Negative</answer>",
        '{"a": {"mood": "Positive"}, "b": {"mood": "Negative"}}',
        '{"type": "object", "properties": {"mood": {"type": "string", "enum": ["Positive"]}}}',
        "[1] Positive words were found, as were [2] Negative ones.",
        '{"mood": "cannot tell", "rejected": {"mood": "Positive"}}',
        '{"mood": null, "alternatives": [{"mood": "Positive"}]}',
        '{"mood": null, "answer": "Positive"}',
        '{"mood": {"rejected": "Positive"}}',
        '{"mood": null} If forced: {"mood": "Positive"}',
        '{"answer": "I cannot tell", "if_forced": {"mood": "Positive"}}',
        '{"answer": "I cannot tell", "data": {"mood": "Positive"}}',
        '{"rejected": {"mood": "Positive"}}',
        '{"question": "mood", "answer": "Positive", "value": "Negative"}',
        '{"question": "mood", "answer": "Positive", "label": "cannot tell"}',
        '{"answer": "Positive", "label": "Negative"}',
        "I could answer <answer>Positive</answer> if this were a review, but it is not, so I refuse.",
        "Not <label>Positive</label> but rather unclear",
        "<label>Positive</label> or negative",
        "Positive\n\nReason: none.\nMood: Negative",
        "<s>Positive</s> Negative",
        "Is the answer: Positive",
        "Positive/Negative",
        "Sure! One could argue, the best label is Positive.",
        "I am not sure. After all, the label is Positive.",
        "It sounds Negative, but I think, the label is Positive.",
        "Is it clear? After all, the label is Positive.",
        "At first, the label is Positive. In the end, the label is Negative.",
        "If I had to choose, the label is Positive.",
    ],
)
def test_what_fits_two_labels_or_none_is_no_vote(content: str) -> None:
    with pytest.raises(BadAnswerError):
        parse_answer(content, [MOOD])


@pytest.mark.parametrize(
    "content",
    [
        '{"rejected": {"topic": "Sports", "mood": "Negative"}, "final": {"topic": null, "mood": "Positive"}}',
        '[{"topic": "Sports"}, {"topic": null, "mood": "Positive"}]',
        '{"topic": null, "mood": "Positive", "data": {"topic": "Sports"}}',
    ],
)
def test_a_refusal_of_one_of_several_questions_is_no_vote_on_it(content: str) -> None:
    assert parse_answer(content, [MOOD, TOPIC]) == {"mood": "Positive"}


@pytest.mark.parametrize(
    "content",
    [
        '{"question": "mood", "answer": "Positive", "value": 0.9}',
        '{"mood": {"mood": "Positive"}}',
        'The form is {"mood": "<label>"}, so: {"mood": "Positive"}',
        '{"function": {"name": "label", "arguments": {"mood": "Positive"}}, "id": 1}',
    ],
)
def test_what_stands_beside_a_label_without_denying_it_costs_no_vote(content: str) -> None:
    assert parse_answer(content, [MOOD]) == {"mood": "Positive"}


RATING = (
    parse_label_config(
        '<View><Text name="t" value="$t"/><Rating name="stars" toName="t" maxRating="5"/></View>'
    )
    .questions[0]
    .about({"t": "words"})
)


@pytest.mark.parametrize(
    "content",
    [
        "4\n\nExplanation: the food is a 5 but the service is a 2, so 3 overall.",
        "4\n\nReason: none.\nRating: 2",
        "Food: 5 stars. Service: 1 star.\n\n2",
        "<rating>4</rating> or 2",
    ],
)
def test_a_number_among_others_is_no_vote(content: str) -> None:
    with pytest.raises(BadAnswerError):
        parse_answer(content, [RATING])


@pytest.mark.parametrize("content", ["4\n\nExplanation: the food is good.", "Good food.\n<rating>4</rating>"])
def test_a_number_alone_is_a_vote(content: str) -> None:
    assert parse_answer(content, [RATING]) == {"stars": "4"}


SHORT_WORDS = (
    parse_label_config(
        '<View><Text name="t" value="$t"/>'
        '<TextArea name="sum" toName="t" camvo_instructions="Sum it up"/></View>'
    )
    .questions[0]
    .about({"t": "words"})
)


def test_struck_words_of_an_answer_do_not_end_it() -> None:
    content = json.dumps({"sum": "write <s>old</s> new text"})
    assert parse_answer(content, [SHORT_WORDS]) == {"sum": "write <s>old</s> new text"}


def test_a_number_close_to_a_step_is_the_number_of_the_scale() -> None:
    assert parse_answer('{"stars": 3.0000000001}', [RATING]) == {"stars": "3"}


NEWS = [
    Label("News", "News", path=("News",)),
    *(Label(f"News/{leaf}", f"News / {leaf}", path=("News", leaf)) for leaf in ("Politics", "Sports")),
]


@pytest.mark.parametrize(
    "said",
    [
        "Primary: Sports\nSecondary: Politics",
        "Definitely not: Sports",
        {"rejected": "Sports"},
        {"Sports": "Politics"},
        "Sports > Politics",
    ],
)
def test_words_beside_a_leaf_that_are_no_path_name_nothing(said: object) -> None:
    assert (label_named(NEWS, said), labels_named(NEWS, said)) == (None, None)


@pytest.mark.parametrize("said", ["News: Sports", "Sports", {"News": "Sports"}])
def test_a_whole_path_or_its_leaf_names_the_label(said: object) -> None:
    assert label_named(NEWS, said) == "News/Sports"


NOISE = [
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ",",
    ":",
    "\n",
    " ",
    "```",
    "json",
    "mood",
    "topic",
    "answer",
    "the",
    "is",
]
NOISE += [
    "null",
    "true",
    "0",
    "1.5",
    "<think>",
    "</think>",
    "sorry",
    "cannot",
    "Pos",
    "neg.",
    "é",
    "&amp;",
    "**",
]


def test_ten_thousand_random_non_answers_are_no_vote() -> None:
    rng = random.Random(20260101)  # noqa: S311 - no secret
    for _ in range(10_000):
        content = "".join(rng.choices(NOISE, k=rng.randint(0, 25)))
        with pytest.raises(BadAnswerError):
            parse_answer(content, [MOOD])


@given(st.text(max_size=60))
def test_any_text_gives_a_vote_of_the_question_or_none(content: str) -> None:
    for question in QUESTIONS[-3:]:
        try:
            vote = parse_answer(content, [question])[question.name]
        except BadAnswerError:
            continue
        values = json.loads(vote) if isinstance(question.config.control, AnyOf) else [vote]
        assert set(values) <= set(question.options)


@pytest.mark.parametrize(
    "wrapping", ["plain", "words around a fence", "trailing comma", "single quotes", "array"]
)
def test_packed_answers_are_read_out_of_the_same_wrappings(wrapping: str) -> None:
    task = packed_task([MOOD], None)
    assert task is not None
    tasks = {"123456": task, "654321": task}
    content = WRAPPINGS[wrapping]("123456", "Positive")
    [(number, answer)] = split_answer(content, tasks).items()
    assert (number, parse_answer(answer, [MOOD])) == ("123456", {"mood": "Positive"})


def names(texts: Sequence[str]) -> list[Label]:
    return [Label(text, text) for text in texts]


@pytest.mark.parametrize(
    ("texts", "said", "named"),
    [
        (("C", "C++"), "C++", "C++"),
        (("C", "c"), "C", "C"),
        (("well-known", "well known"), "well\u2013known", "well-known"),
        (("Yes", "Yes."), "yes", "Yes"),
        (("Yes", "YES"), "yes", None),
        (("1", "2"), "1.0", "1"),
        (("1", "2"), 1.0, "1"),
        (("1", "1.0"), "1.0", "1.0"),
        (("1.0", "2.0"), 1, "1.0"),
        (("1.0", "2.0"), "1", "1.0"),
        (("1", "01"), "1.00", None),
        (("1", "2"), "1.5", None),
        (("A & B", "C"), "A and B", "A & B"),
        (("A & B", "A and B"), "a AND b", "A and B"),
        (("1. Sports", "2. Politics"), "Sports", "1. Sports"),
        (("True", "False"), True, "True"),
        (("None", "Some"), None, "None"),
        (("café", "tea"), "cafe\u0301", "café"),
        (("not_spam", "spam"), "Not spam", "not_spam"),
        (("non-fiction", "fiction"), "non fiction", "non-fiction"),
        (("a_b", "a-b"), "a b", None),
        (("1", "2"), "-1", None),
        (("10", "20"), "1 0", None),
    ],
)
def test_words_name_the_label_that_they_fit_best(
    texts: Sequence[str], said: object, named: str | None
) -> None:
    assert label_named(names(texts), said) == named


@pytest.mark.parametrize("mark", ["<|message|>", "</think>", "<|im_end|>", "<think>"])
def test_what_looks_like_a_mark_of_a_turn_in_a_text_is_a_part_of_it(mark: str) -> None:
    answer = {"note": f"It writes {mark} here."}
    assert [*json_values(json.dumps(answer))] == [answer]
