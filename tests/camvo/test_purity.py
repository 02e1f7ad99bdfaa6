from __future__ import annotations

import pkgutil

from core_only import run_with_core_only

import camvo

MODULES = sorted(module.name for module in pkgutil.walk_packages(camvo.__path__, "camvo."))

IMPORT_ALL = f"""
import importlib
for name in {MODULES!r}:
    importlib.import_module(name)
"""


def test_every_module_of_the_algorithm_imports_with_numpy_and_scipy_alone():
    done = run_with_core_only(IMPORT_ALL)
    assert done.returncode == 0, done.stderr
