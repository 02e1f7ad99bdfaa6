"""`pip install camvo` brings the library; the extra `[server]` brings the rest."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import page_examples
import pytest
from core_only import run_with_core_only

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

USE_THE_LIBRARY = """
import doctest
import camvo
for name in camvo.__all__:
    public = getattr(camvo, name)
    names = vars(sys.modules[public.__module__]).copy()
    test = doctest.DocTestParser().get_doctest(public.__doc__, names, name, None, None)
    assert doctest.DocTestRunner().run(test).failed == 0, name
print("all examples ran")
"""

START_THE_COMMAND = "from backend.__main__ import main; main()"


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0].lower() for requirement in requirements}


def extras_of(name: str) -> set[str]:
    """The extras that an extra includes, itself among them."""
    included = {name}
    for requirement in EXTRAS[name]:
        if match := re.match(r"camvo\[(.*)\]", requirement):
            included |= {each for extra in match[1].split(",") for each in extras_of(extra)}
    return included


def test_the_library_needs_numpy_and_scipy_only() -> None:
    assert requirement_names(PROJECT["dependencies"]) == {"numpy", "scipy"}


@pytest.mark.parametrize("extra", ["demo", "test", "benchmark", "notebook", "parquet", "postgres"])
def test_what_runs_or_serves_the_backend_includes_the_server(extra: str) -> None:
    assert "server" in extras_of(extra)


def test_the_image_installs_an_extra_that_includes_the_server() -> None:
    (extras,) = re.findall(r'pip install .*"\.\[([\w,-]+)\]"', (ROOT / "Dockerfile").read_text("utf-8"))
    assert "server" in {included for extra in extras.split(",") for included in extras_of(extra)}


def test_the_examples_run_without_the_server() -> None:
    done = run_with_core_only(USE_THE_LIBRARY)
    assert (done.returncode, done.stdout) == (0, "all examples ran\n"), done.stderr


def test_the_command_without_the_server_says_what_to_install_in_one_line() -> None:
    done = run_with_core_only(START_THE_COMMAND)
    assert done.stdout == ""
    assert done.stderr == (
        'camvo: the package typer is missing; the command needs: pip install "camvo[server]"\n'
    )


def test_the_command_without_the_server_ends_with_code_2() -> None:
    assert run_with_core_only(START_THE_COMMAND).returncode == 2


def test_a_mistake_in_our_own_imports_is_not_taken_for_a_missing_package() -> None:
    hide_a_module = "import sys; sys.modules['backend.cli'] = None\n"
    code = f"{hide_a_module}from backend.__main__ import main; main()"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment into which `pip install .` put the library alone."""
    folder = tmp_path_factory.mktemp("core")
    source = folder / "source"
    source.mkdir()  # a copy: building leaves folders behind
    for name in ("camvo", "backend", "label_config"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)  # noqa: S603 - our own
    programs = folder / "venv" / "bin"
    install = [programs / "python", "-m", "pip", "install", "-q", ".", "-c", "constraints.txt"]
    subprocess.run(install, cwd=source, check=True)  # noqa: S603 - our own
    shutil.rmtree(source)
    return programs


def run_in(core: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own
        [core / command[0], *command[1:]], capture_output=True, text=True, check=False, cwd=core, env={}
    )


@pytest.mark.e2e
@pytest.mark.timeout(900)
class TestInAFreshEnvironment:
    def test_numpy_and_scipy_are_all_that_is_installed(self, core: Path) -> None:
        listed = run_in(core, "python", "-m", "pip", "list", "--format", "freeze").stdout
        names = {line.partition("==")[0].lower() for line in listed.splitlines()}
        assert names - {"pip", "setuptools"} == {"camvo", "numpy", "scipy"}

    def test_the_library_example_runs(self, core: Path) -> None:
        done = run_in(core, "python", "-c", f"import sys\n{USE_THE_LIBRARY}")
        assert (done.returncode, done.stdout) == (0, "all examples ran\n"), done.stderr

    def test_the_examples_of_the_readme_run(self, core: Path) -> None:
        done = run_in(core, "python", str(Path(page_examples.__file__)), str(ROOT / "README.md"))
        assert done.returncode == 0, done.stderr

    def test_the_bare_command_says_in_one_line_that_the_server_is_missing(self, core: Path) -> None:
        done = run_in(core, "camvo")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert 'pip install "camvo[server]"' in done.stderr
