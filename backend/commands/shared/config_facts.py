"""Which controls of a label config get predictions, and why the others stay blank."""

from __future__ import annotations

from collections.abc import Iterator

from backend.commands.shared.output import Fact
from backend.errors import BadLabelConfigError
from backend.models import model as litellm_info
from backend.questions import parse_label_config
from backend.questions.controls import lists_labels
from backend.questions.objects import IMAGE
from backend.questions.question import ConfigQuestion
from backend.settings import ModelSettings, Settings

_NAME = "label config"


def config_facts(xml: str, settings: Settings) -> Iterator[Fact]:
    """Report for each control whether it gets predictions; the last fact fails if none of them does."""
    try:
        config = parse_label_config(xml)
    except BadLabelConfigError as error:
        yield Fact(_NAME, str(error), holds=False)
        return
    obstacles = {question.name: _obstacle(question, settings) for question in config.questions}
    for question in config.questions:
        if (reason := obstacles[question.name]) is None:
            yield _predicted(question)
        else:
            yield Fact(_NAME, f"{question.name} ({question.tag}) stays blank: {reason}", holds=None)
    for control in config.skipped:
        text = f"{control.control} ({control.tag}) stays blank: {control.reason}"
        yield Fact(_NAME, text, holds=None)
    if all(obstacles.values()):
        text = "no control gets a prediction: add one that can be voted on (docs/tags.md)"
        yield Fact(_NAME, text, holds=False)


def _predicted(question: ConfigQuestion) -> Fact:
    text = f"{question.name} ({question.tag}) gets predictions"
    if any(field.tag == "Chat" for field in question.fields):
        return Fact(_NAME, f"{text}, but Label Studio's open-source editor cannot draw a Chat", holds=None)
    return Fact(_NAME, text)


def _obstacle(question: ConfigQuestion, settings: Settings) -> str | None:
    """Return why no model can answer a question, or ``None``."""
    if not lists_labels(question.control) and all(model.is_embedded for model in settings.models):
        return "the embedded voters answer only lists of labels; name other models in camvo.yaml"
    shows_image = any(field.tag == IMAGE for field in question.fields)
    if shows_image and not any(map(_sees, settings.models)):
        return "it shows an image, and no model accepts images; name one, or set its vision: true"
    return None


def _sees(model: ModelSettings) -> bool:
    if model.vision is None:
        return not model.is_embedded and litellm_info.accepts_images(model.model)
    return model.vision
