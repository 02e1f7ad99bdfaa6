from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.labels import Field
from camvo.errors import MissingFieldError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def text(content: object, tag: str = "Text", key: str = "x") -> str:
    return Field(key, tag, "shown").text({"x": content})


@pytest.mark.parametrize(
    ("content", "shown"), [("a", "a"), (4, "4"), (0, "0"), (0.5, "0.5"), (True, "true"), (None, "")]
)
def test_a_text_is_read_as_the_editor_shows_it(content: object, shown: str) -> None:
    assert text(content) == shown


@pytest.mark.parametrize(
    ("tag", "content"), [("Text", ["a"]), ("Text", {"a": "b"}), ("HyperText", []), ("Paragraphs", 3)]
)
def test_data_that_is_no_text_counts_as_missing(tag: str, content: object) -> None:
    with pytest.raises(MissingFieldError, match=r"data\.x"):
        text(content, tag)


def test_an_error_does_not_repeat_the_data() -> None:
    with pytest.raises(MissingFieldError) as caught:
        text(["secret"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["a.b", "a[0]", "a.c[1].d"])
def test_a_dotted_key_reaches_into_the_data(key: str) -> None:
    data = {"a.b": {"b": "hit"}, "a[0]": ["hit"], "a.c[1].d": {"c": ["x", {"d": "hit"}]}}[key]
    assert Field(key, "Text", "t").text({"a": data}) == "hit"


def test_a_key_with_a_dot_in_its_name_comes_first() -> None:
    assert Field("a.b", "Text", "t").text({"a.b": "literal", "a": {"b": "nested"}}) == "literal"


@pytest.mark.parametrize("key", ["b", "x.y", "x[0]", "x.0", "list[2]", "list.y", "list[-1]", "list[²]"])
def test_a_path_that_leads_nowhere_is_missing(key: str) -> None:
    with pytest.raises(MissingFieldError):
        Field(key, "Text", "t").text({"x": "text", "list": ["a", "b"]})


@given(st.sampled_from(["Text", "HyperText", "Paragraphs"]), JSON)
def test_any_json_gives_storable_text_or_a_task_error(tag: str, content: object) -> None:
    try:
        found = text(content, tag)
    except MissingFieldError:
        return
    assert "\x00" not in found
    assert found.encode("utf-8").decode("utf-8") == found


def test_the_halves_of_a_surrogate_pair_are_joined_and_a_single_half_is_replaced() -> None:
    assert text("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"


def test_a_dialogue_becomes_lines() -> None:
    talk = [
        {"author": "Ann", "text": "Hi"},
        {"text": "Hello"},
        "aside",
        {"author": "Bob", "text": "Bye\nnow"},
    ]
    assert text(talk, "Paragraphs") == "Ann: Hi\nHello\naside\nBob: Bye\nnow"


def test_a_dialogue_may_be_a_plain_string() -> None:
    assert text("Ann: Hi", "Paragraphs") == "Ann: Hi"


def test_the_keys_of_a_dialogue_can_be_chosen() -> None:
    field = Field("x", "Paragraphs", "t", name_key="who", text_key="what")
    assert field.text({"x": [{"who": "Ann", "what": "Hi", "author": "no", "text": "no"}]}) == "Ann: Hi"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("just text", "just text"),
        ("<p>one</p><p>two</p>", "one\ntwo"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("a <b>bold</b>  word", "a bold word"),
        ("  spread\n over\tlines ", "spread over lines"),
        ("<pre>a\n b</pre>", "a\nb"),
        ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1 2\n3"),
        ("x<script>alert('<p>no</p>')</script>y", "xy"),
        ("<style>p { color: red }</style>seen", "seen"),
        ("<script>never closed", ""),
        ("<head><title>tab</title></head><body>page</body>", "page"),
        ("<!-- hidden -->seen", "seen"),
        ("fish &amp; chips &#8364;5 &lt;b&gt;", "fish & chips €5 <b>"),
        ("a < b and 3<4", "a < b and 3<4"),
        ('<p title="a > b">x</p>', "x"),
        ("<ul><li>a<li>b</ul>", "a\nb"),
        ("<?xml version='1.0' encoding='latin1'?><p>é</p>", "é"),
        ("<custom-tag>x</custom-tag>y", "xy"),
        ("", ""),
        ("<br>", ""),
    ],
)
def test_html_becomes_the_text_a_reader_sees(html: str, shown: str) -> None:
    assert text(html, "HyperText") == shown


@given(st.text(alphabet="abc \n", max_size=40))
def test_html_without_markup_only_loses_white_space(html: str) -> None:
    assert text(html, "HyperText") == " ".join(html.split())


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<!--", "</a ", "<![x", "<a x='", "<b>", "<p>", "&#", "<table>", "<script>"]
)
def test_hostile_html_is_read_in_linear_time(piece: str) -> None:
    start = time.perf_counter()
    text(piece * (500_000 // len(piece)), "HyperText")
    assert time.perf_counter() - start < 5
