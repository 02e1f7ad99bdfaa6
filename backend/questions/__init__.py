"""Label configs: the questions a project asks, the data annotators see, the results Label Studio stores.

``parse_label_config`` returns one ``ConfigQuestion`` for each control that can be voted on, and lists the
other controls with the reasons. ``ConfigQuestion.about(data)`` makes the question about one task.

The rooms inside, lowest first; imports only go downwards:

- ``xml``: the elements of a config and their attributes
- ``visibility``: when annotators see an element
- ``objects``: object tags, and the plain text of a task's data
- ``redaction``: what models see instead of a text, and the way back
- ``controls``: what a question needs from its control, and controls that several tags share
- ``spans``: controls whose votes are labelled spans of a text
- ``tags``: one module per control tag; a new control tag is added here
- ``prompts``: the messages sent to models, and the votes read from their answers

Code inside this package imports from the modules, never from this facade.
"""

from __future__ import annotations

from backend.questions.label_config import LabelConfig, SkippedControl, parse_label_config
from backend.questions.question import ConfigQuestion, TaskQuestion

__all__ = ["ConfigQuestion", "LabelConfig", "SkippedControl", "TaskQuestion", "parse_label_config"]
