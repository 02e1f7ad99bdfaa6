"""The identity of a round: the epoch of its question, and the hash of the texts that models are shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from backend.questions.prompts.messages import PROMPT_VERSION
from backend.questions.question import ConfigQuestion
from backend.questions.redaction.redactor import Redactor


def epoch_of(
    question: ConfigQuestion, instructions: str | None, embedder: str, redactor: Redactor | None = None
) -> str:
    """Return the epoch of a question, 16 hexadecimal digits. A new epoch starts with a fresh state.

    The epoch depends on the question itself (labels, hints, instructions and fields), the project's
    instructions, the wording of the prompt, the embedder and, if texts are redacted, the redactor. It does
    not depend on other controls of the same config, so changing one control keeps what was learnt about the
    others.
    """
    redaction = [] if redactor is None else [redactor.identity]
    return _digest([question.digest, instructions, PROMPT_VERSION, embedder, *redaction])[:16]


def question_hash(texts: Mapping[str, str]) -> str:
    """Hash one task's texts for one question, 32 hexadecimal digits. An edited task is a new round."""
    return _digest(sorted(texts.items()))[:32]


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()
