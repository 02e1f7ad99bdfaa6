from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import EmptyTextError, MissingFieldError
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.objects import Field

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
        read = text(content, tag)
    except MissingFieldError:
        return
    assert "\x00" not in read
    assert read.encode("utf-8").decode("utf-8") == read


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
def test_hostile_html_is_read(piece: str) -> None:
    """A parser with quadratic time, such as ``html.parser``, would need an hour here."""
    assert isinstance(text(piece * (500_000 // len(piece)), "HyperText"), str)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"b": 1, "A": "x", "c": {"d": [None, True]}}, 'A: x\nb: 1\nc: {"d": [null, true]}'),
        ([{"a": 1}, {"a": 2, "b": "y"}], "a: 1\n\na: 2\nb: y"),
        (["x", 2], "0: x\n1: 2"),
        ("a,b\n1,2", "a,b\n1,2"),
        (None, ""),
    ],
)
def test_a_table_is_lines_of_key_and_value(content: object, expected: str) -> None:
    assert Field("key", "Table", "t").text({"key": content}) == expected


def test_a_chat_is_a_dialogue() -> None:
    (question,) = parse_label_config(
        '<View><Chat name="chat" value="$chat"/><Choices name="tone" toName="chat">'
        '<Choice value="Warm"/><Choice value="Cold"/></Choices></View>'
    ).questions
    messages = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hi!"}]
    assert question.texts({"chat": messages}) == {"chat": "user: Hello?\nassistant: Hi!"}


IMAGE = '<Image name="photo" value="$photo"/><Text name="caption" value="$caption"/>'
ON_IMAGE = '<Choices name="animal" toName="photo"><Choice value="Cat"/><Choice value="Dog"/></Choices>'


def shown(photo: str, caption: str = "") -> TaskQuestion:
    (question,) = parse_label_config(f"<View>{IMAGE}{ON_IMAGE}</View>").questions
    return question.about({"photo": photo, "caption": caption})


def test_an_image_is_no_text_but_an_address() -> None:
    question = shown("https://example.org/cat.jpg", "My cat.")
    assert (question.texts, question.images) == (
        {"caption": "My cat."},
        {"photo": "https://example.org/cat.jpg"},
    )


def test_an_image_is_embedded_by_its_caption_and_else_by_the_name_of_its_file() -> None:
    assert shown("https://example.org/red_cat-2.jpg", "My cat.").context == "My cat."
    assert shown("https://example.org/red_cat-2.jpg?size=9").context == "red cat 2"
    assert shown("/data/local-files/?d=cats/red%20cat.png").context == "red cat"
    assert shown("data:image/png;base64,AA==").context == ""


def test_a_task_without_its_image_is_an_error() -> None:
    with pytest.raises(EmptyTextError, match="no image"):
        shown(" ", "My cat.")


def test_an_image_beside_a_text_is_left_out_unless_it_is_named() -> None:
    on_text = ON_IMAGE.replace('toName="photo"', 'toName="caption"')
    (question,) = parse_label_config(f"<View>{IMAGE}{on_text}</View>").questions
    assert [field.key for field in question.fields] == ["caption"]
    named = on_text.replace("<Choices", '<Choices camvo_fields="caption,photo"')
    (question,) = parse_label_config(f"<View>{IMAGE}{named}</View>").questions
    assert [field.key for field in question.fields] == ["caption", "photo"]
