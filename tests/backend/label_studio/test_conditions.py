from __future__ import annotations

import pytest

from backend.label_studio.predictions import _prediction
from backend.questions import parse_label_config

XML = """<View><Text name="text" value="$text"/>
<Choices name="animal" toName="text"><Choice value="Bird" alias="b"/><Choice value="Fish"/></Choices>
<View visibleWhen="choice-selected" whenTagName="animal" whenChoiceValue="Fish">
<Choices name="water" toName="text"><Choice value="Salt"/><Choice value="Sweet"/></Choices></View>
<Choices name="sea" toName="text" visibleWhen="choice-selected" whenTagName="water" whenChoiceValue="Salt">
<Choice value="North"/><Choice value="South"/></Choices>
<Choices name="nest" toName="text"
visibleWhen="choice-unselected" whenTagName="animal" whenChoiceValue="Fish">
<Choice value="Tree"/><Choice value="Ground"/></Choices></View>"""


def shown(prefill: float = 0.0, **labels: tuple[str, float]) -> tuple[list[str], float]:
    questions = {question.name: question for question in parse_label_config(XML).questions}
    answers = [(questions[name].about({"text": "It swims."}), *given) for name, given in labels.items()]
    prediction = _prediction(answers, "v", prefill)
    return [region["from_name"] for region in prediction["result"]], prediction["score"]


def test_a_hidden_answer_is_neither_stored_nor_counted() -> None:
    bird = shown(animal=("b", 0.9), water=("Salt", 0.5), sea=("North", 0.5), nest=("Tree", 0.8))
    assert bird == (["animal", "nest"], pytest.approx(0.72))


def test_a_chain_of_conditions_that_hold_is_stored_and_counted() -> None:
    fish = shown(animal=("Fish", 0.9), water=("Salt", 0.5), sea=("North", 0.5), nest=("Tree", 0.8))
    assert fish == (["animal", "water", "sea"], pytest.approx(0.225))


def test_a_form_without_the_doubtful_answer_lacks_those_that_depend_on_it() -> None:
    assert shown(0.6, animal=("Fish", 0.5), water=("Salt", 0.9)) == ([], pytest.approx(0.45))
