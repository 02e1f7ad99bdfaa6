from __future__ import annotations

import pkgutil
import subprocess

import pytest
from core_only import run_with_core_only

import camvo

MODULES = sorted(module.name for module in pkgutil.walk_packages(camvo.__path__, "camvo."))

IMPORT_ALL = f"""
import importlib
for name in {MODULES!r}:
    importlib.import_module(name)
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def imported() -> subprocess.CompletedProcess[str]:
    return run_with_core_only(IMPORT_ALL)


def test_every_module_of_the_algorithm_imports_with_numpy_and_scipy_alone(
    imported: subprocess.CompletedProcess[str],
) -> None:
    assert imported.returncode == 0, imported.stderr


def test_importing_the_algorithm_spares_the_statistics_of_scipy(
    imported: subprocess.CompletedProcess[str],
) -> None:
    """Importing ``scipy.stats`` takes 0.7 s, in every command and every worker."""
    assert "camvo.annotators" in imported.stdout.split()
    assert "scipy.stats" not in imported.stdout.split()
