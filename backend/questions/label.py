"""One label of a question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """A label with its stored value and its visible text.

    Field names are part of a question's identity (:attr:`ConfigQuestion.digest`).

    Attributes:
        value: what votes, decisions and the ledger hold: the alias if there is one, else the visible text.
            Nested labels have the whole path here, joined.
        text: the visible text, which models see and answer with; for nested labels the whole path, joined.
        hint: explains the label to annotators and to models.
        path: for nested labels, the list that Label Studio stores in place of ``value``.
    """

    value: str
    text: str
    hint: str | None = None
    path: tuple[str, ...] | None = None

    @property
    def stored(self) -> str | list[str]:
        """The label's entry in Label Studio's list of chosen labels."""
        return self.value if self.path is None else list(self.path)
