"""CaMVo under the real label-studio-ml 2.x, built from a pinned archive, by the commands that the docs give.

Without a network ``backend/server/test_camvo_model.py`` holds the class to the contract, on a stand-in of the
package. ``CAMVO_LABEL_STUDIO_ML`` may name another address of the archive, or a file.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from label_studio_requests import (
    SENTIMENT,
    Annotation,
    Project,
    annotated,
    annotations_deleted,
    predict,
    setup,
    task,
)
from server_process import child, wait_until

from backend.ledger import Ledger
from backend.ledger.rounds import ProjectRounds

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

COMMIT = "d02cedf"
ARCHIVE = os.environ.get(
    "CAMVO_LABEL_STUDIO_ML",
    f"https://github.com/HumanSignal/label-studio-ml-backend/archive/{COMMIT}.tar.gz",
)
SOURCE = Path(__file__).parents[2]
PROJECT = Project(number=7)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with label-studio-ml and what it needs beyond CaMVo, built from the archive."""
    folder = tmp_path_factory.mktemp("label_studio_ml")
    archive = folder / "label-studio-ml.tar.gz"
    address = ARCHIVE if "://" in ARCHIVE else Path(ARCHIVE).resolve().as_uri()
    try:
        with urllib.request.urlopen(address, timeout=10.0) as answer:  # noqa: S310 - pinned, or chosen by us
            archive.write_bytes(answer.read())
    except OSError as error:
        pytest.skip(f"the archive of label-studio-ml cannot be reached: {error}")
    wanted = [str(archive), "colorama", "semver>=3,<4"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site")]
    subprocess.run([*pip, *wanted], check=True)  # noqa: S603 - our own
    return folder


@pytest.fixture(scope="module")
def server(package: Path) -> Iterator[httpx.Client]:
    """A client of ``label-studio-ml start``, as the docs say it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = child(
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        PYTHONPATH=os.pathsep.join([str(package / "site"), str(SOURCE)]),
        CAMVO_DATABASE_URL=f"sqlite:///{package / 'ledger.sqlite'}",
    )
    program = [sys.executable, "-m", "label_studio_ml.server"]
    script = f"{SOURCE / 'backend' / 'server' / 'camvo_model.py'}:CamvoModel"
    create = [*program, "create", "my_backend", "--script", script]
    subprocess.run(create, cwd=package, env=environment, check=True)  # noqa: S603 - our own
    start = [*program, "start", "my_backend", "-p", str(port), "--host", "127.0.0.1"]
    with (
        (package / "log").open("wb") as log,
        subprocess.Popen(  # noqa: S603 - our own
            start, cwd=package, env=environment, stdout=log, stderr=log, start_new_session=True
        ) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100.0) as client,
    ):
        try:
            wait_until(lambda: process.poll() is not None or is_healthy(client), "answer to /health")
            assert process.poll() is None, (package / "log").read_text()
            yield client
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def is_healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").is_success
    except httpx.TransportError:
        return False


def post(server: httpx.Client, path: str, body: Any) -> Any:
    answer = server.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def taught_by(package: Path, number: int) -> list[str | None]:
    ledger = Ledger(f"sqlite:///{package / 'ledger.sqlite'}")
    with ledger.read() as connection:
        found = [round_.taught_by for round_ in ProjectRounds(connection, "7").of_task(number)]
    ledger.close()
    return found


def test_it_predicts_learns_and_unlearns(server: httpx.Client, package: Path) -> None:
    version = post(server, "/setup", setup(PROJECT, extra_params={"k_min": 1}))
    assert version == {"model_version": "camvo"}
    [prediction] = post(server, "/predict", predict([task(1)], PROJECT))["results"]
    assert prediction["model_version"] == "camvo"
    assert prediction["result"][0]["from_name"] in SENTIMENT
    post(server, "/webhook", annotated(Annotation(number=11, task=1, mood="Sad"), PROJECT))
    wait_until(lambda: taught_by(package, 1) == ["human"], "label that was learnt")
    post(server, "/webhook", annotations_deleted(11, project=PROJECT))
    wait_until(lambda: taught_by(package, 1) == ["vote"], "label that was unlearnt")
