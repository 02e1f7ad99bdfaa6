"""Forms with a condition, and whether Label Studio's editor shows the control under it.

The end-to-end test opens each of them in the editor.
"""

from __future__ import annotations

TEXT = '<Text name="text" value="$text"/>'
ON, OFF = 'visibleWhen="choice-selected"', 'visibleWhen="choice-unselected"'
LABELS = '<Choice value="Red"/><Choice value="Blue"/>'


def choices(name: str, attributes: str = "", labels: str = LABELS) -> str:
    """A Choices."""
    return f'<Choices name="{name}" toName="text" {attributes}>{labels}</Choices>'


TOPIC = choices("topic", labels='<Choice value="Sports"/><Choice value="Politics" alias="pol"/>')


def conditional(attributes: str, *, around: bool) -> str:
    """A label config whose control "party" has a condition of its own, or a View around it has it."""
    party = (
        f"<View {attributes}><View>{choices('party')}</View></View>"
        if around
        else choices("party", attributes)
    )
    return f"<View>{TEXT}{TOPIC}{party}</View>"


FORMS = [
    (f'{ON} whenTagName="topic" whenChoiceValue="Politics"', "pol", True),
    (f'{ON} whenTagName="topic" whenChoiceValue="Politics"', "Sports", False),
    (f'{ON} whenTagName="topic" whenChoiceValue="Politics"', None, False),
    (f'{ON} whenTagName="topic" whenChoiceValue="pol"', "pol", True),
    (f'{ON} whenTagName="topic" whenChoiceValue="Sports,Politics"', "pol", True),
    (f'{ON} whenTagName="topic" whenChoiceValue="Sports, Politics"', "pol", False),
    (f'{ON} whenTagName="topic" whenChoiceValue="Politics,"', "pol", True),
    (f'{ON} whenTagName="topic" whenChoiceValue="politics,Sports"', "pol", False),
    (f'{ON} whenTagName="topic"', "pol", True),
    (f'{ON} whenTagName="topic"', None, False),
    (ON, "pol", True),
    (ON, None, False),
    (f'{ON} whenChoiceValue="Sports"', "pol", True),
    (f'{OFF} whenTagName="topic" whenChoiceValue="Sports"', "pol", True),
    (f'{OFF} whenTagName="topic" whenChoiceValue="Sports"', "Sports", False),
    (f'{OFF} whenTagName="topic" whenChoiceValue="Sports"', None, True),
    (f'{OFF} whenTagName="topic" whenChoiceValue="Nothing"', "Sports", True),
    (f'{OFF} whenTagName="topic"', "pol", False),
    (f'{OFF} whenTagName="nobody"', "pol", True),
    ('whenChoiceValue="Sports"', "Sports", True),
    ('whenChoiceValue="Politics"', "pol", False),
    ('whenChoiceValue="pol"', "pol", True),
    ('whenChoiceValue="Sports,pol"', "pol", False),
    ('whenTagName="nobody"', None, True),
    ('visibleWhen="sometimes" whenTagName="nobody"', None, True),
    ('visibleWhen="no-region-selected"', None, True),
    ('whenLabelValue="PER"', None, True),
]
"""The condition, the label of "topic", and whether annotators see "party"."""
