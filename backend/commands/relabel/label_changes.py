"""What is to become of labels, as it is written on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.errors import ConfigError
from backend.questions import ConfigQuestion
from backend.questions.relabelling import label_values


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """What is to become of labels, as it is written on the command line.

    Attributes:
        renames: ``old=new``, one label each.
        merges: ``a,b=c``, labels that become one.
        drops: labels that nobody gives any more.
        control: the question; ``None`` if only one has these labels.
        label_config: the new label config; ``None`` to change the present one.
        undo: whether the latest change is taken back.
        anew: whether the new labels are others, so that everything begins anew.
    """

    renames: Sequence[str] = ()
    merges: Sequence[str] = ()
    drops: Sequence[str] = ()
    control: str | None = None
    label_config: Path | None = None
    undo: bool = False
    anew: bool = False

    def maps(self, before: Mapping[str, ConfigQuestion]) -> dict[str, dict[str, str | None]]:
        """Return what becomes of labels: question → old label → new label, ``None`` for one that is dropped.

        Args:
            before: the questions with their labels now.

        Raises:
            ConfigError: a label is unknown or has two fates, or two labels would become one unsaid.
        """
        return _Maps(before, self).read()


class _Maps:
    """Reads what is to become of labels.

    Args:
        before: the questions with their labels now.
        wanted: what is written on the command line.
    """

    def __init__(self, before: Mapping[str, ConfigQuestion], wanted: LabelChanges) -> None:
        self._wanted = wanted
        if wanted.control is not None and wanted.control not in before:
            raise ConfigError(
                f"no question is called {wanted.control!r}",
                where="--control",
                fix=f"one of {', '.join(before)}",
            )
        names = before if wanted.control is None else [wanted.control]
        self._labels = {name: label_values(before[name]) for name in names}

    def read(self) -> dict[str, dict[str, str | None]]:
        """Question → old label → new label."""
        maps: dict[str, dict[str, str | None]] = {}
        said: list[tuple[str, str, str, list[str], str]] = []
        for option, text, sources, target in self._changes():
            control = self._control(option, text, sources)
            labels = maps.setdefault(control, {})
            for source in sources:
                if labels.setdefault(source, target) != target:
                    raise ConfigError(
                        f"says twice what becomes of {source!r}", where=option, fix="say it once"
                    )
            if target is not None:
                said.append((control, option, text, sources, target))
        for control, option, text, sources, target in said:
            new = {label: maps[control].get(label, label) for label in self._labels[control]}
            if {label for label, to in new.items() if to == target} != {*sources}:
                raise ConfigError(
                    f"{text!r} would give {target!r} two sources",
                    where=option,
                    fix=f"if they are to be one label, say so: --merge {','.join(sources)},…={target}",
                )
        return maps

    def _changes(self) -> Iterator[tuple[str, str, list[str], str | None]]:
        for text in self._wanted.renames:
            old, new = self._split("--rename", text)
            yield "--rename", text, [old], new
        for text in self._wanted.merges:
            old, new = self._split("--merge", text)
            yield "--merge", text, self._listed(old), new
        for text in self._wanted.drops:
            yield "--drop", text, [text], None

    @staticmethod
    def _split(option: str, text: str) -> tuple[str, str]:
        old, equals, new = (part.strip() for part in text.partition("="))
        if not old or not equals or not new:
            example = "old=new" if option == "--rename" else "a,b=c"
            raise ConfigError(f"{text!r} is not {example}", where=option, fix=f"write {example}")
        return old, new

    def _listed(self, text: str) -> list[str]:
        """The labels in a list; a label may have a comma."""
        known = {label for labels in self._labels.values() for label in labels}
        if text in known:
            return [text]
        return [part.strip() for part in text.split(",") if part.strip()]

    def _control(self, option: str, text: str, sources: Sequence[str]) -> str:
        having = [name for name, labels in self._labels.items() if {*sources} <= {*labels}]
        if len(having) == 1:
            return having[0]
        if having:
            raise ConfigError(
                f"{text!r}: {', '.join(having)} have this label",
                where=option,
                fix="say which: --control NAME",
            )
        known = "; ".join(f"{name}: {', '.join(labels)}" for name, labels in self._labels.items() if labels)
        raise ConfigError(f"{text!r}: no question has this label", where=option, fix=f"labels are {known}")
