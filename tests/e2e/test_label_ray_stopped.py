"""``camvo label --engine ray`` that is stopped: it says what is kept, and the same command does the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from server_process import PATIENCE, child, config_for, wait_until
from whole_backend import prompt_of

from backend.testing import OpenAIServer, Reply

pytest.importorskip("ray", reason='needs the extra "ray": pip install -e ".[ray]"')
pyarrow_parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TEXTS = [f"Day {number}." for number in range(200)]
COMMAND = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--engine", "ray", "--yes"]


def glad(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "Glad"})


def test_sigterm_ends_a_run_on_ray_with_its_summary_and_the_same_command_does_the_rest(
    tmp_path: Path,
) -> None:
    (tmp_path / "in.csv").write_text("\n".join(["text", *TEXTS]))
    with OpenAIServer(glad) as server:
        config = config_for(server, tmp_path, concurrency=4)

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "backend", *COMMAND, "--out", "labels", "--config", str(config)],
                cwd=tmp_path,
                env=child(
                    CAMVO_DATABASE_URL=f"sqlite:///{tmp_path / 'ledger.sqlite'}",
                    OPENAI_API_KEY="none",
                    RAY_ADDRESS="local",  # not the cluster of another test
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        stopped = start()
        wait_until(lambda: server.count() >= 30, "answers of the first run", 2 * PATIENCE)
        stopped.send_signal(signal.SIGTERM)
        said, _ = stopped.communicate(timeout=PATIENCE)
        assert stopped.returncode == 130, said
        assert "the same command continues with them" in said
        before = server.count()
        said, _ = (again := start()).communicate(timeout=2 * PATIENCE)
        assert again.returncode == 0, said
    asked = Counter((request.model, prompt_of(request.body)) for request in server.requests)
    assert len(asked) == len(TEXTS) * 3
    assert 30 <= before < len(asked)
    assert asked.total() - len(asked) <= 4 * 3  # the calls that were under way
    rows = [
        row
        for part in sorted((tmp_path / "labels").iterdir())
        for row in pyarrow_parquet.read_table(part).to_pylist()
    ]
    assert [row["text"] for row in rows] == TEXTS
    assert {row["camvo_label"] for row in rows} == {"Glad"}
