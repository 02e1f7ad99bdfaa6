"""``camvo label`` in this process, with scripted models and embeddings, and the real ledger and litellm.

::

    with LabelFolder(tmp_path, by_words(red="Glad", green="Glad")) as folder:
        folder.write("in.csv", "text\\nlovely\\n")
        folder.label("in.csv", labels=("Glad", "Sad"), text_column="text")
        folder.rows()[0]["camvo_label"]         # Glad
        folder.server.count()
"""

from __future__ import annotations

import csv
import io
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any
from unittest.mock import patch

import migrated
import yaml
from rich.console import Console
from scripted_litellm import HashedTexts

from backend import runtime
from backend.commands.bulk.labelling import RunTally
from backend.commands.label.run import label_into
from backend.commands.shared.options import LabelOptions
from backend.ledger import Ledger
from backend.settings import Environment
from backend.testing import OpenAIServer, Reply

Script = Callable[[dict[str, Any]], Reply]

PLAIN = {"labels": ("Glad", "Sad"), "text_column": "text"}
"""The options of a plain question."""


def always(label: str) -> Script:
    """A script of models that all say the same."""
    return lambda body: Reply.says({"label": label})


class Says(io.StringIO):
    """A terminal that sets an event when certain words are printed."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words, self.said = words, threading.Event()

    def write(self, text: str) -> int:
        if self._words in text:
            self.said.set()
        return super().write(text)


class LabelFolder:
    """A folder with a ledger, a ``camvo.yaml`` of models, and a scripted provider."""

    def __init__(
        self,
        folder: Path,
        script: Script,
        *,
        server: Any = None,
        of_models: Mapping[str, object] = MappingProxyType({}),
        models: Mapping[str, Mapping[str, object]] | Sequence[str] = ("red", "green"),
        **settings: Any,
    ) -> None:
        self.path, self._of_models = folder, of_models
        self._models = models if isinstance(models, Mapping) else {name: {} for name in models}
        self.server: Any = OpenAIServer(script) if server is None else server
        self._settings = {"retries": 0, "policy": {"name": "baseline"}, "concurrency": 1, **settings}
        self.console = Console(file=io.StringIO(), width=200)

    def __enter__(self) -> LabelFolder:
        self.server.__enter__()
        self._open()
        return self

    def _open(self) -> None:
        common = {"api_base": self.server.url, "input_price": 1.0, "output_price": 2.0}
        common |= self._of_models
        models = [
            {"name": name, "model": f"openai/{name}", **common, **own} for name, own in self._models.items()
        ]
        config = self.path / "camvo.yaml"
        config.write_text(yaml.safe_dump({"models": models, **self._settings}))
        url = migrated.sqlite(self.path / "ledger.sqlite")
        self.environment = Environment(database_url=url, config=config)
        self.ledger = Ledger(url)
        self._patches = ExitStack()
        self._patches.enter_context(patch.dict("os.environ", OPENAI_API_KEY="none", CAMVO_DATABASE_URL=url))
        self._patches.enter_context(patch.object(runtime, "Embedder", return_value=HashedTexts()))

    @contextmanager
    def copied(self, path: Path) -> Iterator[LabelFolder]:
        """A copy of the folder with its ledger, which asks the same provider."""
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        copy = LabelFolder(path, self.server.script, **self._settings)
        copy.server = self.server
        copy._open()
        yield copy
        copy.ledger.close()
        copy._patches.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patches.close()
        self.ledger.close()
        self.server.__exit__(kind, error, trace)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text, "utf-8")
        return path

    def table(self, *texts: str, name: str = "in.csv") -> Path:
        """A CSV file with the column ``text``."""
        return self.write(name, "\n".join(["text", *texts]) + "\n")

    def label(self, name: str = "in.csv", out: str = "out.csv", **options: Any) -> RunTally:
        """Label a file with a plain question, unless the options say otherwise."""
        options = {"blind_file": self.path / "blind.csv", **PLAIN, **options}
        return label_into(
            self.path / out,
            self.path / name,
            LabelOptions(**options),
            self.environment,
            self.console,
        )

    def rows(self, name: str = "out.csv") -> list[dict[str, str]]:
        with (self.path / name).open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    def change(self, name: str, **labels: str) -> None:
        """Write labels into a file for people: text → label."""
        rows = self.rows(name)
        for row in rows:
            row["camvo_label"] = labels.get(row["text"], row["camvo_label"])
        with (self.path / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
