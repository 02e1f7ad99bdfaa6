"""The redactor of a configuration: it replaces parts of every text before a model sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from backend.errors import RedactionError
from backend.questions.redaction.redacted_text import RedactedText, read_edits
from backend.settings.redaction import RedactFunction, load_redact_function


@dataclass(frozen=True, slots=True, eq=False)
class Redactor:
    """A redact function with the name that ``camvo.yaml`` gives it.

    Attributes:
        name: ``module:function``.
        function: takes a text and returns what to replace. It may be called from several threads.
    """

    name: str
    function: RedactFunction

    @property
    def identity(self) -> str:
        """The name and, if the function has an attribute ``version``, the version. Part of the epoch."""
        version = getattr(self.function, "version", None)
        return self.name if version is None else f"{self.name} {version}"

    def redact(self, texts: Mapping[str, str]) -> dict[str, RedactedText]:
        """Redact texts: field key → redacted text.

        Raises:
            RedactionError: the function raised or returned no valid edits; the error does not quote the text.
        """
        return {key: _redacted(self, text, f"data.{key}") for key, text in texts.items()}


@lru_cache(maxsize=16)
def redactor_named(name: str | None) -> Redactor | None:
    """The redactor of the setting ``redact``; ``None`` if it is not set.

    Raises:
        ConfigError: the function cannot be loaded.
    """
    return None if name is None else Redactor(name, load_redact_function(name))


@lru_cache(maxsize=256)
def _redacted(redactor: Redactor, text: str, where: str) -> RedactedText:
    """Redact one text; questions on the same field, and requests for the same task, share the result."""
    try:
        edits, problem = redactor.function(text), ""
    except Exception as error:  # its text may quote the task
        edits, problem = (), f"it raised {type(error).__name__}"
    if not problem:
        try:
            return RedactedText(text, read_edits(edits, text))
        except ValueError as error:
            problem = str(error)
    raise RedactionError(
        f"the redact function failed, so the text is shown to no model: {problem}",
        where=where,
        fix=f"correct the function {redactor.name}",
    )
