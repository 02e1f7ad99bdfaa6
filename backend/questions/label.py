"""One label of a question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """A label under its two names: the one that is stored and the one that is read.

    ``value`` is what Label Studio stores and what every vote, decision and ledger row holds: the alias where
    there is one, the visible text otherwise. ``text`` is the visible text, which models see and answer with.
    ``hint`` explains the label to annotators and to models. Where labels are nested both names are those of
    the whole path, joined, and Label Studio stores the list ``path`` in place of ``value``.
    """

    value: str
    text: str
    hint: str | None = None
    path: tuple[str, ...] | None = None

    @property
    def stored(self) -> str | list[str]:
        """What Label Studio's list of labels holds."""
        return self.value if self.path is None else list(self.path)
