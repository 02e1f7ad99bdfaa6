"""Programs that run as if NumPy and SciPy were the only packages installed beside this repository."""

from __future__ import annotations

import subprocess
import sys

_BLOCK = """
import sys
from importlib.metadata import packages_distributions

class Block:
    hidden = packages_distributions().keys() - {"numpy", "scipy", "camvo", "backend", "label_config"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""


def run_with_core_only(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program; every package but NumPy and SciPy is missing in it."""
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", _BLOCK + code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
