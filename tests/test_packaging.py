"""What a wheel of this repository holds, and that it works without the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from backend.settings import load

ROOT = Path(__file__).parent.parent
SOURCES = ("backend", "camvo", "label_config")


def run(*command: str, cwd: Path, **environment: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(  # noqa: S603 - our own
        command,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, built from a copy: building leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=copy)
    (built,) = folder.glob("camvo-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "content")
    shutil.rmtree(copy)
    return folder / "content"


def test_every_module_and_every_data_file_is_in_the_wheel(wheel: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for name in SOURCES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"backend/py.typed", "camvo/py.typed", "backend/commands/resources/demo_texts.json"} <= wanted
    assert {"label_config/sentiment.xml", "label_config/topic.xml"} <= wanted
    packed = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    assert wanted - packed == set()


def test_nothing_but_the_three_packages_is_in_the_wheel(wheel: Path) -> None:
    folders = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert folders == set(SOURCES)


def test_the_command_line_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    assert "serve" in run(sys.executable, "-m", "backend.cli", "--help", cwd=tmp_path, PYTHONPATH=str(wheel))


def test_a_ledger_is_migrated_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    code = """
import sys
import backend.ledger, backend.models, backend.questions, camvo.policies.camvo
from backend.ledger import Ledger
from backend.ledger.database import statements
ledger = Ledger("sqlite:///new.sqlite")
ledger.migrate()
with ledger.write() as connection:
    statements.try_write(connection)
print(backend.ledger.__file__)
"""
    printed = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(wheel))
    assert printed.strip() == str(wheel / "backend" / "ledger" / "__init__.py")


def test_compose_gives_label_studio_the_two_settings_it_needs() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    variables = services["label-studio"]["environment"]
    assert variables == variables | {"ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false"}


def test_the_backend_in_compose_is_on_the_port_it_listens_on() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert services["camvo"]["ports"] == ["127.0.0.1:9090:9090"]
    assert "EXPOSE 9090" in (ROOT / "Dockerfile").read_text()


def test_compose_is_closed_to_the_network_and_does_not_start_without_secrets() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    variables = services["camvo"]["environment"]
    for name in ("BASIC_AUTH_PASS", "CAMVO_WEBHOOK_SECRET", "LABEL_STUDIO_API_KEY"):
        assert variables[name].startswith(f"${{{name}:?")


def test_compose_connects_once_both_are_healthy_with_links_for_a_browser() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    connect = services["connect"]
    assert connect["depends_on"] == {
        name: {"condition": "service_healthy"} for name in ("label-studio", "camvo")
    }
    assert "http://localhost:8080" in connect["environment"]["LABEL_STUDIO_PUBLIC_URL"]
    assert services["camvo"]["build"]["args"]["TORCH_INDEX"].startswith("${TORCH_INDEX:?")


def test_compose_starts_two_workers_on_a_postgresql_with_a_database_for_each_program() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    database, studio, camvo = (compose["services"][name] for name in ("postgres", "label-studio", "camvo"))
    assert camvo["environment"]["CAMVO_WORKERS"] == "2"
    assert camvo["environment"]["CAMVO_DATABASE_URL"].endswith("@postgres/camvo")
    assert "CREATE DATABASE camvo" in compose["configs"]["ledger"]["content"]
    variables = studio["environment"]
    assert (variables["DJANGO_DB"], variables["POSTGRE_HOST"]) == ("default", "postgres")
    assert variables["POSTGRE_NAME"] == database["environment"]["POSTGRES_DB"]
    assert variables["POSTGRE_PASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    for service in (studio, camvo):
        assert service["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert (camvo["read_only"], camvo["tmpfs"]) == (True, ["/tmp"])  # noqa: S108 - in the container


def test_compose_gives_a_server_time_to_finish_what_is_under_way() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["camvo"]
    assert int(service["stop_grace_period"].removesuffix("s")) >= load(None).deadline + 15


def test_the_image_runs_as_somebody_without_privileges() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]


@pytest.mark.parametrize("name", ["Dockerfile", "constraints.txt", "pyproject.toml"])
def test_no_package_index_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text.replace("git+https://github.com/", "").replace("http://127.0.0.1", "").replace(
        "sqlite:////", ""
    )


@pytest.mark.parametrize(
    "source", ["camvo", "backend", "label_config", "pyproject.toml", "README.md", "LICENSE"]
)
def test_the_image_is_given_what_the_build_reads(source: str) -> None:
    copied = [
        line.split()[1:-1]
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY")
    ]
    assert source in [word for words in copied for word in words]
