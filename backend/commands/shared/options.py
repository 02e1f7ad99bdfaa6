"""The options of a run, shared by the command and the notebook function."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from backend.datasets.sources import Source
from backend.datasets.tasks import WHOLE, Dataset, Shard, plain_label_config, text_key
from backend.errors import ConfigError
from backend.ledger.money import Purse
from backend.questions import parse_label_config
from backend.questions.label_config import require_questions
from camvo.errors import CamvoError
from camvo.votes.labels import ErrorName

_NAME = re.compile(r"(?!\d+(\.|$))[!-~]{1,100}")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 80


def _project_named(stem: str) -> str:
    """The key of the project of a file with this name, without its accents.

    A hash keeps files apart whose names have letters that no key can have.
    """
    parted = unicodedata.normalize("NFKD", stem)
    letters = "".join(sign for sign in parted if not unicodedata.combining(sign))
    name = _OTHER.sub("-", letters)[:_LONGEST_NAME]
    if len(letters) > _LONGEST_NAME or any(sign.isalnum() and not sign.isascii() for sign in letters):
        name = f"{name.strip('-') or 'file'}-{hashlib.sha256(parted.encode()).hexdigest()[:8]}"
    return name if _NAME.fullmatch(name) and not name.startswith("-") else f"file-{name}"


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """How a dataset is to be labelled. The help texts of ``camvo label`` and ``camvo predict`` explain it.

    Attributes:
        label_config: the label config as XML; ``None`` with ``labels``.
        ordered: the error that the answer minimises if the labels are a scale; ``None`` without an order.
        budget: the most that the job may cost over all its runs, in $.
        ask_more: the most that further votes may cost then, over all runs, in $; ``None`` for none.
        aim: the cost that the job's plans try to keep to, in $; ``None`` for none.
    """

    label_config: str | None = None
    labels: Sequence[str] = ()
    text_column: str | None = None
    ordered: ErrorName | None = None
    id_column: str | None = None
    name: str | None = None
    blind: int = 0
    blind_file: Path = Path("blind.csv")
    budget: float | None = None
    yes: bool = False
    pilot: int = 0
    sample: int = 0
    retry_failed: bool = False
    recount: bool = False
    ask_more: float | None = None
    shard: Shard = WHOLE
    aim: float | None = None
    batch: bool = False
    wait: bool = False
    in_order: bool = False
    no_wait: bool = False
    below: float = 0.0
    spreadsheet: bool = False
    refresh: bool = False
    failed: bool = False
    annotated: bool = False
    at_once: int = 50

    def dataset(self, source: Source) -> Dataset:
        """The source with the label config.

        Raises:
            ConfigError: the options do not fit each other, or nothing can be asked.
            BadLabelConfigError: the label config cannot be read.
        """
        if self.labels and not self.text_column and self.label_config is None:
            columns = [repr(column) for row in islice(source.rows(), 1) for column in list(row.data)[:20]]
            raise ConfigError(
                "which column holds the texts that get these labels?",
                where="--text-column",
                fix=f"name one of {', '.join(columns)}" if columns else "name it",
            )
        if (self.label_config is None) == (not self.labels) or bool(self.labels) != bool(self.text_column):
            raise ConfigError(
                "say what to label",
                where="--label-config",
                fix="give --label-config FILE, or --labels A,B with --text-column NAME",
            )
        if self.ordered and not self.labels:
            raise ConfigError(
                "is for --labels",
                where="--ordered",
                fix='write camvo_ordered="true" into the label config (docs/tags.md)',
            )
        with self.named_as_written():
            return self._dataset(source)

    def _dataset(self, source: Source) -> Dataset:
        if self.label_config is not None:
            dataset = Dataset(source, self.label_config, self.id_column, shard=self.shard)
        else:
            column = str(self.text_column)
            xml = plain_label_config(self.labels, column, self.ordered)
            if self.ordered and (skipped := parse_label_config(xml).skipped):
                raise ConfigError(skipped[0].reason, where="--ordered", fix="leave it out")
            dataset = Dataset(source, xml, self.id_column, {text_key(column): column}, self.shard)
        require_questions(parse_label_config(dataset.label_config))
        return dataset

    @contextmanager
    def named_as_written(self) -> Iterator[None]:
        """Let errors about the label config name the option that was given."""
        try:
            yield
        except CamvoError as error:
            if error.where == "label_config":
                error.where = "--labels" if self.labels else "--label-config"
            raise

    def project(self, path: Path) -> str:
        """The project's key in the ledger."""
        if self.name is None:
            return _project_named(path.stem)
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} cannot name a project",
                where="--name",
                fix="use letters, digits and signs, at most 100, beginning with a letter",
            )
        return self.name

    @property
    def purse(self) -> Purse:
        """The account of the job, with its budget."""
        if self.budget is not None and not self.budget >= 0:
            raise ConfigError("is negative", where="--budget", fix="give an amount in dollars")
        return Purse("job", self.budget)
