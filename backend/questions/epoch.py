"""What a round is about: the epoch of a question, and the hash of what the models are shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from backend.questions.prompts.prompts import PROMPT_VERSION
from backend.questions.question import ConfigQuestion


def epoch_of(question: ConfigQuestion, instructions: str | None, embedder: str) -> str:
    """The epoch of a question, 16 hexadecimal digits; a new one starts a fresh state.

    It changes with the question's own label set, hints, instructions and fields, with the project's
    instructions, with the wording of the prompt and with the embedder. Another control of the same config
    leaves it alone: what was learnt about one question outlives a change to its neighbour.
    """
    return _digest([question.digest, instructions, PROMPT_VERSION, embedder])[:16]


def question_hash(texts: Mapping[str, str]) -> str:
    """The hash of one task's texts for one question; an edited task is a new round."""
    return _digest(sorted(texts.items()))[:32]


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()
