"""The ledger of a quote, which leaves no file behind if there was none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from backend.ledger import Ledger
from backend.settings import Environment


@contextmanager
def ledger_of_quote(environment: Environment, *, asking: bool) -> Iterator[Environment]:
    """The environment; in place of a SQLite file that is not there yet, with an empty one for the time being.

    Args:
        environment: the ledger's address.
        asking: whether models are asked, whose answers are to stay.
    """
    if asking or _exists(environment):
        yield environment
        return
    with TemporaryDirectory(prefix="camvo-quote-") as folder:
        yield environment.model_copy(update={"database_url": f"sqlite:///{Path(folder) / 'ledger.sqlite'}"})


def _exists(environment: Environment) -> bool:
    ledger = Ledger(environment.database_url)
    try:
        return ledger.exists()
    finally:
        ledger.close()
