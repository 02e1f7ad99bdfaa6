"""Every template of Label Studio: parsed, asked, answered and predicted, with nothing left out silently."""

from __future__ import annotations

import label_studio_templates
import pytest
from label_studio_sdk.label_interface.interface import LabelInterface
from label_studio_templates import Template, run, table

from backend.questions.xml import Tree

FOUND = [] if label_studio_templates.folder() is None else list(label_studio_templates.templates())

pytestmark = pytest.mark.skipif(not FOUND, reason=label_studio_templates.MISSING)


def test_the_package_has_its_templates() -> None:
    assert len(FOUND) > 90


@pytest.mark.parametrize("template", FOUND, ids=lambda template: template.name)
def test_every_part_of_a_template_is_sent_or_named_with_a_reason(template: Template) -> None:
    config = template.config
    said = {question.name for question in config.questions} | {skipped.control for skipped in config.skipped}
    assert said == {str(control.get("name")) for control in Tree.parse(template.xml).controls}
    assert all(skipped.reason for skipped in config.skipped)
    prompts = "\n".join(run(config).prompts) if config.questions else ""
    for part in config.page:
        assert bool(part.sent) != bool(part.unsent), part
        if part.kind == "words" and part.sent == "always":
            assert all(f"> {line}" in prompts for line in part.text.split("\n"))


@pytest.mark.parametrize(
    "template", [each for each in FOUND if each.config.questions], ids=lambda template: template.name
)
def test_answers_to_a_template_give_a_prediction_that_label_studio_accepts(template: Template) -> None:
    found = run(template.config)
    assert {region["from_name"] for region in found.prediction["result"]} == set(found.asked)
    assert found.asked
    assert LabelInterface(template.xml).validate_prediction(found.prediction)


def test_the_table_of_the_documentation_is_up_to_date() -> None:
    assert table() in label_studio_templates.PAGE.read_text("utf-8"), "run python docs/site_templates.py"
