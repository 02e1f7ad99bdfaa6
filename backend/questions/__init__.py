"""Label configs: which questions a project asks, what its annotators read, and what Label Studio stores.

``parse`` turns the XML into ``Question`` objects, one for each control tag that can be voted on, and names
the controls that cannot and why. A new control tag is one module beside ``choices``, entered in ``tags``.
"""

from __future__ import annotations

from backend.questions.label import Label
from backend.questions.label_config import LabelConfig, Skipped, parse
from backend.questions.objects.field import Field
from backend.questions.question import Question, TaskQuestion

__all__ = ["Field", "Label", "LabelConfig", "Question", "Skipped", "TaskQuestion", "parse"]
