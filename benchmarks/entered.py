"""Which files and functions one ``POST /predict`` of a new task enters, with five scripted models.

    python benchmarks/entered.py [--list]

The server's app, the ledger and the embedder run in this process, and have answered for some tasks before. A
function counts once however often it is entered; its lambdas and comprehensions are counted apart. Fits for
later tasks, which may start in the background, are left out: whether one is due depends on the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "support")]
from label_studio_requests import task  # noqa: E402
from whole_backend import Backend, votes  # noqa: E402

from backend.learning.states import FitCache  # noqa: E402

NAMES = ("red", "green", "blue", "cyan", "grey")
BEFORE = 3
"""Tasks that are predicted first, so that caches are filled."""


def entered(folder: Path) -> set[CodeType]:
    """The functions of this repository that a request for one new task enters, in any thread."""
    found: set[CodeType] = set()
    counting = threading.Event()
    ours, scripted = (f"{ROOT}/backend/", f"{ROOT}/camvo/"), f"{ROOT}/backend/testing.py"

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and counting.is_set() and file.startswith(ours) and file != scripted:
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    settings: dict[str, Any] = {"policy": {"name": "joint"}}
    with (
        mock.patch.object(FitCache, "is_old", return_value=False),
        Backend(folder, votes(**dict.fromkeys(NAMES, "Glad")), NAMES, **settings) as backend,
    ):
        for number in range(BEFORE):
            backend.predict(task(number + 1))
        counting.set()
        backend.predict(task(BEFORE + 1))
        counting.clear()
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name each function, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="camvo-entered-") as folder:
        found = entered(Path(folder))
    named = {code for code in found if not code.co_name.startswith("<")}
    files = Counter(code.co_filename.removeprefix(f"{ROOT}/") for code in named)
    print(f"{len(files)} files, {len(named)} functions, {len(found) - len(named)} lambdas and comprehensions")
    for file, number in files.most_common():
        print(f"{number:5} {file}")
        if options.list:
            names = sorted(
                (code.co_firstlineno, code.co_qualname)
                for code in named
                if code.co_filename == f"{ROOT}/{file}"
            )
            print("".join(f"      {line:5} {name}\n" for line, name in names), end="")


if __name__ == "__main__":
    main()
