"""The redactor of a configuration: it replaces parts of every text before a model sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from backend.errors import RedactionError
from backend.questions.objects import LocatedText
from backend.settings.settings import Edit, RedactFunction, load_redact_function


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A text in which parts are replaced.

    Attributes:
        original: the text before.
        edits: the replacements, in the order of the text; they do not overlap, and none is of an empty part.
    """

    original: str
    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        """The redacted text."""
        parts, end = [], 0
        for start, stop, replacement in self.edits:
            parts += [self.original[end:start], replacement]
            end = stop
        return "".join([*parts, self.original[end:]])

    def located(self, located: LocatedText) -> LocatedText:
        """Return a text of the original with its parts replaced, too.

        Each character of a replacement has the position of everything that was replaced, so a quotation that
        touches a replacement covers all of the original part.
        """
        offsets = (located.offsets or range(len(located.text)))[: len(located.text)]
        characters: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        index = 0
        for start, stop, replacement in (*self.edits, (len(self.original), len(self.original), "")):
            while index < len(offsets) and offsets[index] < start:
                first, after = located.positions_of(index, index + 1)
                characters.append(located.text[index])
                starts.append(first)
                ends.append(after)
                index += 1
            first_replaced = index
            while index < len(offsets) and offsets[index] < stop:
                index += 1
            if index > first_replaced:
                first, after = located.positions_of(first_replaced, index)
                characters.extend(replacement)
                starts.extend([first] * len(replacement))
                ends.extend([after] * len(replacement))
        return LocatedText("".join(characters), starts, ends=ends)


def _read_edits(edits: object, text: str) -> tuple[Edit, ...]:
    """Check what a redact function returned, and sort it."""
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        kind = type(edits).__name__
        raise ValueError(f"it returned {kind} where a list of (start, end, replacement) is expected")
    checked: list[Edit] = []
    for edit in edits:
        match edit:
            case (int(start), int(stop), str(replacement)) if 0 <= start < stop <= len(text):
                checked.append((start, stop, replacement))
            case _:
                raise ValueError("it returned an entry that is not (start, end, replacement) within the text")
    checked.sort()
    if any(second[0] < first[1] for first, second in pairwise(checked)):
        raise ValueError("it returned entries that overlap")
    return tuple(checked)


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
            return RedactedText(text, _read_edits(edits, text))
        except ValueError as error:
            problem = str(error)
    raise RedactionError(
        f"the redact function failed, so the text is shown to no model: {problem}",
        where=where,
        fix=f"correct the function {redactor.name}",
    )
