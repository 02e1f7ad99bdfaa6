"""Label configs: which questions a project asks, what its annotators read, and what Label Studio stores.

``parse`` turns the XML into ``ConfigQuestion`` objects, one for each control tag that can be voted on, and
says which controls cannot. A new control tag is one module in ``controls``, entered in ``controls.tags``.
"""

from __future__ import annotations

from backend.questions.label import Label
from backend.questions.label_config import LabelConfig, Skipped, parse
from backend.questions.objects.field import Field
from backend.questions.question import ConfigQuestion, TaskQuestion

__all__ = ["ConfigQuestion", "Field", "Label", "LabelConfig", "Skipped", "TaskQuestion", "parse"]
