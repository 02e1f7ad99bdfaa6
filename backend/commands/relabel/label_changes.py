"""What is to become of labels, as it is written on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.errors import ConfigError
from backend.questions import ConfigQuestion
from backend.questions.relabelling import LabelFates, label_values


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """What is to become of labels, as it is written on the command line.

    Attributes:
        renames: ``old=new``, one label each.
        merges: ``a,b=c``, labels that become one.
        drops: labels that nobody gives any more.
        splits: ``old=a,b``, labels that become several.
        adds: ``new=a,b``, a new label with those of whose tasks some may get it, or ``new`` alone.
        below: tasks with a lower score are asked about again too; ``None`` for no others.
        control: the question; ``None`` if only one has these labels.
        label_config: the new label config; ``None`` to change the present one.
        undo: whether the latest change is taken back.
        anew: whether the new labels are others, so that everything begins anew.
    """

    renames: Sequence[str] = ()
    merges: Sequence[str] = ()
    drops: Sequence[str] = ()
    splits: Sequence[str] = ()
    adds: Sequence[str] = ()
    below: float | None = None
    control: str | None = None
    label_config: Path | None = None
    undo: bool = False
    anew: bool = False

    def fates(self, before: Mapping[str, ConfigQuestion]) -> LabelFates:
        """Return what becomes of labels.

        Args:
            before: the questions with their labels now.

        Raises:
            ConfigError: a label is unknown or has two fates, or two labels would become one unsaid.
        """
        return _Fates(before, self).read()


class _Fates:
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

    def read(self) -> LabelFates:
        """What becomes of labels."""
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
        parts, added = self._split_labels(maps), self._added_labels()
        fates = LabelFates(maps, parts, added)
        self._require_free_names(fates)
        return fates

    def _split_labels(self, maps: dict[str, dict[str, str | None]]) -> dict[str, dict[str, list[str]]]:
        """Question → label → its parts; the label itself is given up."""
        parts: dict[str, dict[str, list[str]]] = {}
        for text in self._wanted.splits:
            old, new = self._split("--split", text)
            names = [part.strip() for part in new.split(",") if part.strip()]
            if len({*names}) < 2:
                raise ConfigError(f"{text!r} is not old=a,b", where="--split", fix="name two parts or more")
            control = self._control("--split", text, [old])
            if maps.setdefault(control, {}).setdefault(old, None) is not None:
                raise ConfigError(f"says twice what becomes of {old!r}", where="--split", fix="say it once")
            parts.setdefault(control, {})[old] = names
        return parts

    def _added_labels(self) -> dict[str, dict[str, list[str]]]:
        """Question → label that is added → the labels of whose tasks some may get it."""
        added: dict[str, dict[str, list[str]]] = {}
        for text in self._wanted.adds:
            new, _, near = (part.strip() for part in text.partition("="))
            listed = self._listed(near)
            control = self._control("--add", text, listed)
            added.setdefault(control, {})[new] = listed
        return added

    def _require_free_names(self, fates: LabelFates) -> None:
        """Check that no new label has the name of a label that is there: its answers would become those."""
        for name, labels in self._labels.items():
            there = [*labels, *(to for to in fates.maps.get(name, {}).values() if to is not None)]
            new = fates.new(name)
            taken = next((label for place, label in enumerate(new) if label in [*there, *new[:place]]), None)
            if taken is not None:
                raise ConfigError(
                    f"{name}: {taken!r} is the name of another label",
                    where="--split" if name in fates.parts else "--add",
                    fix="give every new label a name of its own, also the largest part of the old one",
                )

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
            example = {"--rename": "old=new", "--merge": "a,b=c", "--split": "old=a,b"}[option]
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
