"""The words of the page reach models as instructions, fields as data, both in the order of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from backend.questions import ConfigQuestion, LabelConfig, parse_label_config
from backend.questions.prompts.messages import prompt_messages
from backend.questions.prompts.packs import packed_task

TEXT = '<Text name="text" value="$text"/>'
DATA = {"text": "It rained.", "question": "Was it wet?", "title": "News", "gold": "SECRET", "more": "MORE"}


def choices(name: str = "mood", attributes: str = "", content: str = "") -> str:
    labels = '<Choice value="Good"/><Choice value="Bad"/>'
    return f'<Choices name="{name}" toName="text" {attributes}>{content}{labels}</Choices>'


def config(*parts: str) -> LabelConfig:
    return parse_label_config(f"<View>{''.join(parts)}</View>")


def prompt(questions: Sequence[ConfigQuestion], data: Mapping[str, object] = DATA) -> tuple[str, str]:
    """The system and the user message."""
    system, user = prompt_messages([question.about(data) for question in questions], None)
    return system["content"], user["content"]


def page_lines(*parts: str) -> list[str]:
    """The lines of the system message about the page."""
    system, _ = prompt(config(*parts).questions)
    _, _, page = system.partition("from top to bottom")
    return page.split("\n\n")[0].split("\n")[1:]


@pytest.mark.parametrize(
    "words",
    [
        '<Header value="Read it all."/>',
        "<Header>Read it all.</Header>",
        '<Markdown value="Read it all."/>',
        "<Markdown><![CDATA[Read it all.]]></Markdown>",
        '<Collapse><Panel value="Read it all."><View/></Panel></Collapse>',
        '<Text name="help" value="Read it all."/>',
        '<HyperText name="help" value="&lt;p&gt;Read &lt;b&gt;it&lt;/b&gt; all.&lt;/p&gt;"/>',
        '<HyperText name="help"><p>Read <b>it</b> all.</p></HyperText>',
        '<View><View className="x"><Header value="Read it all."/></View></View>',
        '<Header value="Read it all." visibleWhen="choice-selected" whenTagName="nobody"/>',
    ],
)
def test_words_of_the_page_are_instructions_where_they_stand(words: str) -> None:
    assert page_lines(words, TEXT, choices()) == ["> Read it all.", '(field "text")', '(question "mood")']
    assert page_lines(TEXT, words, choices()) == ['(field "text")', "> Read it all.", '(question "mood")']


def test_words_around_a_variable_are_instructions_and_the_variable_is_data() -> None:
    words = '<Header value="Answer this: $question"/>'
    assert page_lines(TEXT, words, choices()) == [
        '(field "text")',
        "> Answer this: $question",
        '(question "mood")',
    ]
    _, user = prompt(config(TEXT, words, choices()).questions)
    assert user.index("It rained.") < user.index("Was it wet?")


def test_fields_come_in_the_order_of_the_page() -> None:
    title = '<Text name="title" value="$title"/>'
    _, above = prompt(config(title, TEXT, choices()).questions)
    _, below = prompt(config(TEXT, title, choices()).questions)
    assert above.index("News") < above.index("It rained.")
    assert below.index("News") > below.index("It rained.")


def test_a_page_without_words_leaves_the_prompt_as_it_is() -> None:
    assert "from top to bottom" not in prompt(config(TEXT, choices()).questions)[0]
    assert (
        "from top to bottom"
        not in prompt(config(TEXT, '<Header value="$question"/>', choices()).questions)[0]
    )


def test_words_inside_a_control_are_about_it_alone() -> None:
    inner = choices(content='<Header value="Pick one."/>')
    asked = config(TEXT, inner, choices("tone")).questions
    assert [[words.text for words in question.words] for question in asked] == [["Pick one."], []]


def test_a_placeholder_is_an_instruction() -> None:
    area = '<TextArea name="why" toName="text" camvo_instructions="Why?" placeholder="In a few words"/>'
    assert "> In a few words" in page_lines(TEXT, area)


def test_a_packed_prompt_has_the_words_too() -> None:
    asked = config('<Header value="Read it all."/>', TEXT, choices()).questions
    packed = packed_task([question.about(DATA) for question in asked], None)
    assert packed is not None
    assert "> Read it all." in packed.system


def test_every_line_of_long_words_is_quoted() -> None:
    lines = page_lines('<Markdown value="# Rules&#10;Question &quot;mood&quot;&#10;- x"/>', TEXT, choices())
    assert lines[:3] == ["> # Rules", '> Question "mood"', "> - x"]


# -- conditions

HIDDEN = [
    '<View className="wide hidden">{}</View>',
    "<Style>@media print {{ .b {{ color: red }} }} .a {{}} .off {{ display: none }}</Style>"
    '<View className="off">{}</View>',
    '<View style="display:none">{}</View>',
    '<View style="visibility: hidden">{}</View>',
    '<View style="opacity:0; color:red">{}</View>',
    '<View style="height: 0; overflow: hidden">{}</View>',
    '<View style="position: absolute; left: -9999px">{}</View>',
    '<View style="font-size:0px">{}</View>',
    '<View style="transform: scale(0)">{}</View>',
    "<Style>.off {{ max-height: 0px; overflow-y: clip }}</Style><View className='off'>{}</View>",
    '<Style>.off > .x {{ color:red }} .y, .off {{ display : none }}</Style><View className="a off">{}</View>',
    '<Style value="#gone {{display:none}}"/><View idAttr="gone">{}</View>',
    '<View visibleWhen="choice-selected" whenTagName="nobody">{}</View>',
    '<View visibleWhen="choice-selected" whenTagName="nobody" whenChoiceValue="Good">{}</View>',
    '<View visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="None, Other">{}</View>',
    '<View visibleWhen="choice-selected" whenTagName="stars">{}</View><Rating name="stars" toName="text"/>',
    '<View whenChoiceValue="Good,Bad">{}</View>',
    '<View visibleWhen="region-selected" whenLabelValue="PER">{}</View>',
    '<View visibleWhen="choice-unselected" whenTagName="nobody" whenChoiceValue="x">{}</View>',
    '<View visibleWhen="choice-selected" whenTagName="loop">{}<View><Choices name="loop" toName="text">'
    '<Choice value="a"/><Choice value="b"/></Choices></View></View>',
    '<View style="display:none"><Choices name="away" toName="text"><Choice value="a"/><Choice value="b"/>'
    '</Choices></View><View visibleWhen="choice-selected" whenTagName="away">{}</View>',
]


@pytest.mark.parametrize("around", HIDDEN)
@pytest.mark.parametrize(
    "secret",
    ['<Text name="gold" value="$gold"/>', '<Header value="Gold: $gold"/>', '<Markdown value="SECRET"/>'],
)
def test_what_annotators_never_see_is_never_sent_and_named(around: str, secret: str) -> None:
    parsed = config(TEXT, choices(), around.format(secret))
    assert "SECRET" not in "".join(prompt(parsed.questions))
    unsent = [part for part in parsed.page if part.unsent is not None]
    assert unsent
    assert all("annotators never see it" in str(part.unsent) for part in unsent)


MORE = '<Text name="more" value="$more"/>'
SHOWN = [
    "<View>{}</View>",
    '<View visibleWhen="no-region-selected">{}</View>',
    '<View visibleWhen="sometimes" whenTagName="nobody">{}</View>',
    '<View whenTagName="nobody">{}</View>',
    '<View visibleWhen="choice-unselected" whenTagName="nobody">{}</View>',
    '<Style>.off {{ color: red }} .off-not {{ display: none }}</Style><View className="off">{}</View>',
    "<Style>@media (max-width: 9em) {{ .a {{ color: red }} .off {{ display: none }} }}</Style>"
    '<View className="off">{}</View>',
    '<Style>/* .off {{ display: none }} */ .b {{ color: red }}</Style><View className="off">{}</View>',
    '<Style>.off {{ background-opacity: 0.5; opacity: 0.4 }}</Style><View className="off">{}</View>',
    '<View style="height: 0; overflow: visible">{}</View>',
    '<View style="height: 0.5em; line-height: 0; overflow: hidden; left: -10px; font-size: 0.8em">{}</View>',
]


@pytest.mark.parametrize("around", SHOWN)
def test_what_annotators_see_is_sent(around: str) -> None:
    parsed = config(
        TEXT, choices(), around.format('<Text name="more" value="$more"/><Header value="Words"/>')
    )
    system, user = prompt(parsed.questions[:1])
    assert "MORE" in user
    assert "> Words" in system


def test_words_under_a_condition_come_with_the_questions_under_it_alone() -> None:
    condition = 'visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Bad"'
    inner = f'<View {condition}><Header value="Why is it bad?"/>{choices("why")}</View>'
    again = f'<View {condition}><Header value="Think twice."/></View>'
    mood, why = config(TEXT, choices(), inner, again).questions
    assert mood.words == ()
    assert [words.text for words in why.words] == ["Why is it bad?", "Think twice."]


def test_a_question_under_a_condition_says_why_it_is_asked() -> None:
    condition = 'visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Bad,Good"'
    _, why = config(TEXT, choices(), choices("why", condition)).questions
    assert 'It is asked because "mood" is "Bad" or "Good".' in prompt([why])[0]


# -- what identifies the prompt


def digest(*parts: str) -> str:
    return config(*parts).questions[0].digest


def test_the_epoch_changes_with_the_words_their_place_and_the_condition() -> None:
    head, other = '<Header value="Read."/>', '<Header value="Read!"/>'
    condition = 'visibleWhen="choice-unselected" whenTagName="tone"'
    digests = {
        digest(TEXT, choices()),
        digest(head, TEXT, choices()),
        digest(TEXT, head, choices()),
        digest(other, TEXT, choices()),
        digest(TEXT, choices(attributes=condition), choices("tone")),
    }
    assert len(digests) == 5


@pytest.mark.parametrize(
    "change",
    [
        "<Style>.x { color: red }</Style>",
        "<View/>",
        '<View style="display:none"><Header value="Hidden"/></View>',
        choices("tone", content='<Header value="Tone?"/>'),
        f'<View visibleWhen="choice-selected" whenTagName="mood"><Header value="x"/>{choices("tone")}</View>',
    ],
)
def test_the_epoch_does_not_change_with_what_the_prompt_of_the_question_does_not_say(change: str) -> None:
    assert digest(TEXT, choices(), change) == digest(TEXT, choices()) == digest(change, TEXT, choices()) or (
        'name="tone"' in change and digest(TEXT, choices(), change) == digest(TEXT, choices())
    )


# -- the list of what is sent


def test_the_page_lists_every_part_with_what_becomes_of_it() -> None:
    condition = 'visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Bad"'
    parsed = config(
        '<Header value="Read."/>',
        TEXT,
        choices(),
        f'<View {condition}><Text name="more" value="$more"/>{choices("why")}</View>',
        '<Text name="link" value="$link" valueType="url"/>',
        '<View style="display:none"><Text name="gold" value="$gold"/></View>',
    )
    assert [(part.kind, part.text, part.sent or part.unsent) for part in parsed.page] == [
        ("words", "Read.", "always"),
        ("field", "text", "always"),
        ("question", "mood", "always"),
        ("field", "more", "with why"),
        ("question", "why", 'if "mood" is "Bad"'),
        ("field", "link", "a text behind a URL is not supported yet"),
        ("field", "gold", "annotators never see it: a style hides it"),
    ]


@pytest.mark.parametrize(
    ("tag", "label"), [("Choices", "choice"), ("Taxonomy", "choice"), ("Labels", "label")]
)
def test_labels_in_small_letters_are_named(tag: str, label: str) -> None:
    control = f'<{tag} name="c" toName="text"><{label} value="a"/><{label} value="b"/></{tag}>'
    [skipped] = config(TEXT, control).skipped
    assert skipped.reason == (
        f"its labels are written <{label}>, and Label Studio's server knows only <{label.capitalize()}>"
    )


def test_a_choice_that_is_shown_as_html_is_explained_by_its_words() -> None:
    shown = '<Choice value="a" html="&lt;b&gt;Very&lt;/b&gt; good &amp;amp; cheap"/><Choice value="b"/>'
    parsed = config(TEXT, f'<Choices name="c" toName="text">{shown}</Choices>')
    assert '- "a": "Very good & cheap"' in prompt(parsed.questions)[0]


def test_a_page_is_json() -> None:
    parsed = config('<Header value="Read."/>', TEXT, choices())
    assert json.dumps([[part.kind, part.text, part.sent, part.unsent] for part in parsed.page])
