from __future__ import annotations

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface

from backend.errors import BadLabelConfigError, MissingFieldError
from backend.questions import LabelConfig, parse_label_config
from backend.questions.controls import OneOf
from backend.questions.label_config import require_questions
from backend.questions.objects import Field
from backend.questions.xml import Label

CHOICES = '<Choice value="Good"/><Choice value="Bad"/>'
TEXT = '<Text name="text" value="$text"/>'


def config(control: str, objects: str = TEXT) -> LabelConfig:
    return parse_label_config(f"<View>{objects}{control}</View>")


def choices(attributes: str = "", content: str = CHOICES, name: str = "mood", to_name: str = "text") -> str:
    return f'<Choices name="{name}" toName="{to_name}" {attributes}>{content}</Choices>'


def labels(control: str) -> tuple[Label, ...]:
    (question,) = config(control).questions
    assert isinstance(question.control, OneOf)
    return question.control.labels


def reasons(control: str, objects: str = TEXT) -> list[str]:
    parsed = config(control, objects)
    assert parsed.questions == ()
    return [skipped.reason for skipped in parsed.skipped]


def test_a_choices_becomes_a_question() -> None:
    (question,) = config(choices()).questions
    assert (question.name, question.to_name, question.tag) == ("mood", "text", "Choices")
    assert question.control == OneOf((Label("Good", "Good", None), Label("Bad", "Bad", None)), "choices")
    assert question.fields == (Field("text", "Text", "text"),)
    assert question.instructions is None


@pytest.mark.parametrize("mode", ["", 'choice="single"', 'choice="single-radio"', 'layout="select"'])
def test_every_way_to_show_a_single_choice_is_supported(mode: str) -> None:
    assert len(config(choices(mode)).questions) == 1


def test_the_alias_is_stored_and_the_value_is_read() -> None:
    content = '<Choice value="Very good" alias="good" hint="praise"/><Choice value="Bad"/>'
    assert labels(choices(content=content))[0] == Label("good", "Very good", "praise")


def test_choices_inside_views_are_found() -> None:
    content = f"<View><View>{CHOICES}</View></View>"
    assert len(labels(choices(content=content))) == 2


def test_instructions_come_from_the_control() -> None:
    assert config(choices('camvo_instructions="Judge."')).questions[0].instructions == "Judge."


def test_attributes_of_camvo_pass_label_studios_own_validation() -> None:
    control = choices('camvo_instructions="Judge." camvo_fields="text"')
    LabelInterface(f"<View>{TEXT}{control}</View>").validate()


def test_several_controls_keep_the_order_of_the_config() -> None:
    parsed = config(choices(name="b") + choices(name="a"))
    assert [question.name for question in parsed.questions] == ["b", "a"]


def test_a_config_is_parsed_once() -> None:
    assert config(choices()) is config(choices())


@pytest.mark.parametrize(
    ("control", "part"),
    [
        (choices('value="$options"', ""), "task's data are not supported yet"),
        (choices('apiUrl="/labels"', ""), "task's data are not supported yet"),
        (choices(content='<Choice value="A"><View><Choice value="B"/></View></Choice>'), "fewer than two"),
        (choices('perRegion="true"'), "perRegion needs Labels on the same text"),
        (choices('perregion="true"'), "perRegion needs Labels on the same text"),
        ('<Rating name="stars" toName="text" perRegion="true"/>', "perRegion is not supported for Rating"),
        (choices('perItem="true"'), "perItem is not supported yet"),
        (choices(to_name="txt"), 'toName="txt" names no object'),
        (choices(content='<Choice value="A"/>'), "fewer than two labels"),
        (choices(content=""), "fewer than two labels"),
        (choices(content='<Choice value="A"/><Choice/>'), "a Choice has no value"),
        (choices(content='<Choice value="A"/><Choice value="A"/>'), 'stored as "A"'),
        (choices(content='<Choice value="A" alias="x"/><Choice value="B" alias="x"/>'), 'stored as "x"'),
        (choices(content='<Choice value="A"/><Choice value="B" alias="A"/>'), 'stored as "A"'),
        (choices(content='<Choice value="A" alias="x"/><Choice value="A" alias="y"/>'), 'read "A"'),
        (choices(name="c_{{idx}}"), "inside a Repeater"),
        (f'<Repeater on="$turns" indexFlag="i">{choices()}</Repeater>', "inside a Repeater"),
        ('<Relations name="links" toName="text"/>', "Relations is not supported yet"),
        ('<Chat name="chat" value="$messages"/>', "add to a Chat are not voted on"),
        ('<Chat name="chat"/>', "add to a Chat are not voted on"),
    ],
)
def test_a_control_that_cannot_be_voted_on_is_skipped_with_the_reason(control: str, part: str) -> None:
    (reason,) = reasons(control)
    assert part in reason


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        (
            '<Choice value="A" alias="x"/><Choice value="B" alias="x"/>',
            "give each an alias, or value, of its own",
        ),
        ('<Choice value="A" alias="x"/><Choice value="A" alias="y"/>', "give each a value of its own"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused_with_what_to_give_them(content: str, cure: str) -> None:
    with pytest.raises(BadLabelConfigError) as refused:
        require_questions(parse_label_config(f"<View>{TEXT}{choices(content=content)}</View>"))
    assert cure in refused.value.message
    assert refused.value.fix is not None
    assert "correct what is said" in refused.value.fix


@pytest.mark.parametrize(
    ("shown", "part"),
    [
        ('<Video name="text" value="$clip"/>', "Video is not supported yet"),
        ('<Image name="text" valueList="$images"/>', "several images in one tag"),
        ('<Table name="text" value="$table" valueType="csv|url"/>', "behind a URL is not supported yet"),
        ('<Text name="text" value="$text" valueType="url"/>', "behind a URL is not supported yet"),
        (
            '<HyperText name="text" value="$text" encoding="base64"/>',
            "encoded as base64 is not supported yet",
        ),
        ('<Text name="text" value="Always the same"/>', 'value="$key"'),
        (TEXT + '<HyperText name="text" value="$html"/>', "more than one tag"),
    ],
)
def test_a_control_on_something_unreadable_is_skipped_with_the_reason(shown: str, part: str) -> None:
    (reason,) = reasons(choices(), shown)
    assert part in reason


def test_controls_with_the_same_name_are_all_skipped() -> None:
    assert reasons(choices() + choices()) == ['the name "mood" is used more than once in this config'] * 2


def test_a_control_named_like_an_object_is_skipped() -> None:
    assert any("more than once" in reason for reason in reasons(choices(name="text")))


def test_the_rest_of_a_config_works_beside_a_skipped_control() -> None:
    parsed = config('<TextArea name="why" toName="text"/>' + choices())
    assert [question.name for question in parsed.questions] == ["mood"]
    assert [(skipped.control, skipped.tag) for skipped in parsed.skipped] == [("why", "TextArea")]


@pytest.mark.parametrize(
    "xml",
    [
        "",
        "  ",
        "hello",
        "<View>",
        "<View></Viev>",
        "<View/><View/>",
        "<View>&nbsp;</View>",
        "<View/>\x00",
        '<View a="\ud800"/>',
        "<a>" * 400 + "</a>" * 400,
    ],
)
def test_a_config_that_is_no_xml_is_refused(xml: str) -> None:
    with pytest.raises(BadLabelConfigError, match="label_config: the label config cannot be read"):
        parse_label_config(xml)


def test_a_label_with_an_ampersand_as_people_type_it_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(BadLabelConfigError, match="write each & as &amp;"):
        parse_label_config('<View><Choices name="c"><Choice value="Food & drink"/></Choices></View>')


@pytest.mark.parametrize("xml", ["<View/>", f"<View>{TEXT}</View>", '<View><Choices name="c"/></View>'])
def test_a_config_without_a_control_is_refused_with_what_to_add(xml: str) -> None:
    with pytest.raises(BadLabelConfigError, match="add one: <Choices"):
        parse_label_config(xml)


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "b">', '<!ENTITY a SYSTEM "file:///etc/hostname">', '<!ENTITY a "b"><!ENTITY c "&a;&a;">'],
)
def test_a_config_that_declares_entities_is_refused(entity: str) -> None:
    control = choices(content=f'{CHOICES}<Choice value="&a;"/>')
    with pytest.raises(BadLabelConfigError, match="DOCTYPE"):
        parse_label_config(f"<!DOCTYPE View [{entity}]><View>{TEXT}{control}</View>")


def test_comments_and_processing_instructions_are_no_controls() -> None:
    parsed = config("<!-- <Rating name='r' toName='text'/> --><?php x?>" + choices())
    assert (len(parsed.questions), parsed.skipped) == (1, ())


@pytest.mark.parametrize("tag", ["Text", "HyperText", "Paragraphs"])
def test_choices_work_on_every_object_that_holds_text(tag: str) -> None:
    (question,) = config(choices(), f'<{tag} name="text" value="$body"/>').questions
    assert question.fields == (Field("body", tag, "text"),)


def test_keys_of_a_dialogue_come_from_the_tag() -> None:
    shown = '<Paragraphs name="text" value="$talk" nameKey="who" textKey="what"/>'
    assert config(choices(), shown).questions[0].fields == (
        Field("talk", "Paragraphs", "text", "who", "what"),
    )


def keys(control: str, objects: str) -> list[str]:
    return [field.key for field in config(control, objects).questions[0].fields]


FOUR = "".join(f'<Text name="{name}" value="${name}"/>' for name in ("title", "text", "option_a", "option_b"))


def test_the_attached_object_comes_first_and_then_the_free_ones_in_document_order() -> None:
    assert keys(choices(), FOUR) == ["text", "title", "option_a", "option_b"]


def test_an_object_that_another_control_is_attached_to_is_no_field() -> None:
    assert keys(choices() + '<TextArea name="why" toName="title"/>', FOUR) == ["text", "option_a", "option_b"]


def test_two_questions_on_two_objects_do_not_share_them() -> None:
    parsed = config(choices() + choices(name="second", to_name="title"), FOUR)
    shown = [[field.key for field in question.fields] for question in parsed.questions]
    assert shown == [["text", "option_a", "option_b"], ["title", "option_a", "option_b"]]


def test_objects_that_hold_no_text_of_the_task_are_no_fields() -> None:
    extra = '<Image name="image" value="$image"/><Text name="rule" value="Read it"/><Header value="Title"/>'
    assert keys(choices(), TEXT + extra) == ["text"]


def test_a_control_on_a_fixed_text_reads_the_free_objects() -> None:
    assert keys(choices(), '<Text name="text" value="Is it good?"/><Text name="body" value="$body"/>') == [
        "body"
    ]


def test_a_key_that_two_objects_show_is_one_field() -> None:
    assert keys(choices(), TEXT + '<Text name="again" value="$text"/>') == ["text"]


def test_camvo_fields_overrides_what_is_read() -> None:
    assert keys(choices('camvo_fields="option_b, text,option_b"'), FOUR) == ["option_b", "text"]


def test_camvo_fields_keeps_the_tag_that_shows_a_key() -> None:
    objects = TEXT + '<HyperText name="page" value="$html"/>'
    fields = config(choices('camvo_fields="html,meta.lang"'), objects).questions[0].fields
    assert fields == (Field("html", "HyperText", "page"), Field("meta.lang", "Text", "meta.lang"))


_SOUND = '<View><Audio name="sound" value="$url"/>{}</View>'
_MOOD = '<Choices name="mood" toName="sound"{}><Choice value="a"/><Choice value="b"/></Choices>'


def test_a_recording_is_judged_by_its_transcript() -> None:
    config = parse_label_config(_SOUND.format(_MOOD.format(' camvo_fields="transcript"')))
    [question] = config.questions
    assert question.about({"url": "/a.wav", "transcript": "Hello."}).texts == {"transcript": "Hello."}
    assert question.to_name == "sound"


@pytest.mark.parametrize("control", [_MOOD.format(""), '<Labels name="l" toName="sound" camvo_fields="t"/>'])
def test_a_recording_without_a_transcript_or_its_regions_are_skipped(control: str) -> None:
    config = parse_label_config(_SOUND.format(control))
    assert (config.questions, len(config.skipped)) == ((), 1)


ATTRIBUTES = " ".join(f"a{each}='x'" for each in range(101))
LARGE = {
    "elements": f"<View>{TEXT}{choices(content=CHOICES * 2_500)}</View>",
    "characters": f"<View>{TEXT}{choices()}{' ' * 1_000_000}</View>",
    "controls and objects": f"<View>{TEXT}{''.join(choices(name=f'c{each}') for each in range(300))}</View>",
    "attributes in one tag": f"<View {ATTRIBUTES}>{TEXT}{choices()}</View>",
    "names in one toName": f"<View>{TEXT}{choices(to_name='text,' * 100 + 'text')}</View>",
}


@pytest.mark.parametrize("what", LARGE)
def test_a_label_config_that_takes_seconds_to_read_is_refused_with_its_size(what: str) -> None:
    with pytest.raises(BadLabelConfigError, match=rf"has [\d,]+ {what}, and at most [\d,]+ are read"):
        parse_label_config(LARGE[what])


def test_a_label_config_of_thousands_of_choices_is_read() -> None:
    many = "".join(f'<Choice value="{each}"/>' for each in range(4_900))
    assert len(labels(choices(content=many))) == 4_900


@pytest.mark.parametrize(
    "caption",
    [
        '<Header value="$claim"/>',
        '<Header name="head" value="Is this right: $claim?"/>',
        '<Markdown value="## $claim"/>',
        '<Collapse><Panel value="$claim"><Header value="Details"/></Panel></Collapse>',
        '<Text name="claim" value="Claim: $claim."/>',
    ],
)
def test_models_read_the_variables_of_captions(caption: str) -> None:
    assert keys(choices(), TEXT + caption) == ["text", "claim"]


def test_models_read_every_variable_among_words() -> None:
    assert keys(choices(), '<Text name="text" value="From $sender to $receiver: $letter"/>') == [
        "sender",
        "receiver",
        "letter",
    ]


CAPTIONED = '<Header value="$claim"/><Markdown value="See $a.b and $text"/><Panel value="$claim"/>'


def test_the_variable_of_a_caption_that_a_task_lacks_is_blank() -> None:
    (question,) = config(choices(), TEXT + CAPTIONED).questions
    blank = {"text": "It rained.", "claim": "", "a.b": ""}
    assert question.texts({"text": "It rained."}) == blank
    assert question.texts({"text": "It rained.", "claim": None, "a": {}}) == blank


def test_a_caption_shows_a_list_of_texts_as_a_line_and_no_object() -> None:
    (question,) = config(choices(), TEXT + CAPTIONED).questions
    assert question.texts({"text": "It rained.", "claim": ["a", 2]})["claim"] == "a, 2"
    with pytest.raises(MissingFieldError, match=r"data\.claim"):
        question.texts({"text": "It rained.", "claim": {"no": "text"}})


def test_a_task_without_a_key_that_label_studio_requires_is_refused() -> None:
    (question,) = config(choices(), TEXT + '<Text name="title" value="$title"/>').questions
    with pytest.raises(MissingFieldError):
        question.texts({"text": "It rained."})


@pytest.mark.parametrize(
    "hidden",
    [
        '<View style="color: red; display:none"><Text name="gold" value="$gold"/></View>',
        '<View style="DISPLAY : none !important"><View><Header value="$gold"/></View></View>',
        '<Text name="gold" value="$gold" style="display: none"/>',
        "<Style>.away, #off { color: red; display:none }</Style>"
        '<View className="big away"><Header value="$gold"/></View>'
        '<View idAttr="off"><Header value="$gold"/></View>',
        '<View visibleWhen="choice-selected" whenTagName="nothing"><Text name="gold" value="$gold"/></View>',
        '<View visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="None">'
        '<Text name="gold" value="$gold"/></View>',
        '<View visibleWhen="region-selected"><Text name="gold" value="$gold"/></View>',
    ],
)
def test_models_do_not_read_what_annotators_never_see(hidden: str) -> None:
    assert keys(choices(), TEXT + hidden) == ["text"]


def test_text_under_a_condition_is_read_for_the_questions_under_it_alone() -> None:
    condition = 'visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Good"'
    shown = f'<View {condition}><Text name="more" value="$more"/>{choices(name="why")}</View>'
    asked = config(choices() + shown).questions
    assert [[field.key for field in question.fields] for question in asked] == [["text"], ["text", "more"]]


def test_a_control_that_annotators_never_see_is_skipped() -> None:
    assert reasons(f'<View style="display:none">{choices()}</View>') == [
        "annotators never see it: a style hides it"
    ]


@pytest.mark.parametrize("start", ["", "\n  ", "\ufeff"])
def test_an_xml_declaration_with_an_encoding_is_accepted(start: str) -> None:
    xml = f'{start}<?xml version="1.0" encoding="UTF-8"?><View>{TEXT}{choices()}</View>'
    assert len(parse_label_config(xml).questions) == 1


@pytest.mark.parametrize(
    "xml",
    [
        "<?xml version='1.0' encoding='utf-8'?>\n{}",
        '<?xml version="1.0" encoding="UTF-16"?>{}',
        '<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>\r\n{}',
        '<?xml version="1.0"?>{}',
        "<!-- ours -->\n{}",
        '{}\n<!-- [{{"data": {{"text": "words"}}}}] -->\n',
        '<?xml-stylesheet href="style.css"?>{}',
        "<View><!-- <Choices name='mood' toName='text'><Choice value='z'/></Choices> -->{}</View>",
        "<View><Style><![CDATA[.a > .b {{ color: red }} /* & */]]></Style>{}</View>",
        "<View><Style>.root .a > .b {{ color: red }}</Style>{}</View>",
        '<View xmlns:a="http://example.org" a:b="c">words {} words</View>',
        '<View><Header value="&lt;!-- no comment --&gt; &#160; &#x1F600;"/>{}</View>',
    ],
)
def test_what_label_studio_passes_over_changes_no_question(xml: str) -> None:
    content = CHOICES.replace("<Choice ", "<!-- one --><Choice ")
    parsed = parse_label_config(xml.format(f"<View>{TEXT}{choices(content=content)}</View>"))
    [question] = parsed.questions
    assert [text for text, _ in question.control.answer_format.labels] == ["Good", "Bad"]
    assert [field.key for field in question.fields] == ["text"]
