"""The command line as a person meets it: what it prints, how it ends; processes where that may matter."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from command_line import called
from server_process import child, run_cli
from sqlalchemy import create_engine, text

from backend.commands.shared.arguments import listed

HEAVY = ("torch", "litellm", "sentence_transformers", "transformers", "label_studio_sdk", "scipy", "flask")
SECRET = "sk-never-to-be-printed-4711"

MODEL = {"name": "one", "model": "openai/some-model", "input_price": 1.0, "output_price": 1.0}


def configured(folder: Path, content: object) -> str:
    (folder / "bad.yaml").write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return "bad.yaml"


def only_line(done: CompletedProcess[str]) -> str:
    """What was printed, if it is one line on standard error."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    probe = f"""
import sys
sys.argv = ["camvo", "--help"]
from backend.cli import main
try:
    main()
except SystemExit as end:
    print("ended with", end.code)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", probe], cwd=tmp_path, env=child(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["ended with 0", "[]"]


@pytest.fixture(scope="module")
def printed_help(tmp_path_factory: pytest.TempPathFactory) -> str:
    return called("--help", cwd=tmp_path_factory.mktemp("help")).stdout


@pytest.mark.parametrize(
    "command",
    ["demo", "serve", "check", "report", "replay", "connect", "disconnect", "predict"],
)
def test_help_names_the_command(command: str, printed_help: str) -> None:
    assert re.search(rf"\b{command}\b", printed_help)


# serve: mistakes that are found before a worker is started


def test_a_value_out_of_range_is_one_line_with_file_key_value_and_fix(tmp_path: Path) -> None:
    path = configured(tmp_path, {"policy": {"name": "camvo", "delta": 1.7}})
    done = run_cli("serve", "--config", path, cwd=tmp_path)
    assert done.returncode == 2
    line = only_line(done)
    assert re.match(r"camvo: bad\.yaml: policy\.delta: .*1\.7.*\(.+\)$", line)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("models: [\n", "bad.yaml: line "),
        (
            {"models": [{**MODEL, "input_prise": 3}], "policy": {"name": "camvo", "k_min": 1}},
            "models[0].input_prise",
        ),
        ({"models": [MODEL], "policy": {"name": "camvo", "k_min": 2}}, "policy.k_min"),
    ],
)
def test_a_broken_file_is_named_with_the_place(content: object, named: str, tmp_path: Path) -> None:
    done = called("serve", "--config", configured(tmp_path, content), cwd=tmp_path)
    assert done.returncode == 2
    assert named in only_line(done)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = called("serve", "--config", "nowhere.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere.yaml" in only_line(done)


def test_a_port_in_use_is_one_line_and_not_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = called("serve", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert only_line(done).startswith(f"camvo: 127.0.0.1:{port}: cannot listen there: Address already in use")


def test_a_ledger_in_a_missing_folder_is_one_line_with_the_fix(tmp_path: Path) -> None:
    done = called("serve", cwd=tmp_path, CAMVO_PORT="0", CAMVO_DATABASE_URL="sqlite:///nowhere/l.sqlite")
    assert done.returncode == 2
    assert re.search(r"nowhere/l\.sqlite: unable to open.*\(.*CAMVO_DATABASE_URL.*\)", only_line(done))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_ledger_in_a_folder_without_permission_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    done = called("serve", cwd=tmp_path, CAMVO_PORT="0", CAMVO_DATABASE_URL="sqlite:///locked/l.sqlite")
    assert done.returncode == 2
    assert "locked/l.sqlite" in only_line(done)


def test_a_password_of_the_database_is_not_printed(tmp_path: Path) -> None:
    url = f"postgresql://somebody:{SECRET}@127.0.0.1:1/ledger"
    done = called("serve", cwd=tmp_path, CAMVO_PORT="0", CAMVO_DATABASE_URL=url)
    assert done.returncode == 2
    assert SECRET not in only_line(done)


# serve: a mistake that only a worker finds


@pytest.mark.e2e
def test_a_model_without_a_price_ends_the_server_with_the_reason_and_no_traceback(tmp_path: Path) -> None:
    unpriced = {"name": "one", "model": "openai/nobody-knows-it"}
    path = configured(tmp_path, {"models": [unpriced], "policy": {"name": "camvo", "k_min": 1}})
    done = run_cli("serve", "--config", path, cwd=tmp_path, CAMVO_PORT="0")
    assert done.returncode not in {0, -9}
    assert "Traceback" not in done.stderr
    (reason,) = [line for line in done.stderr.splitlines() if "model one" in line]
    assert "input_price" in reason


# check


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, CompletedProcess[str]]]:
    """A check of the embedded voters, and one of a pool with one key missing and one there."""
    plain, keyed = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("keyed")
    models = [
        {**MODEL, "name": "one", "api_key_env": "KEY_THAT_IS_THERE"},
        {**MODEL, "name": "two", "model": "openai/another-model", "api_key_env": "KEY_THAT_IS_MISSING"},
    ]
    path = configured(
        keyed, {"models": models, "policy": {"name": "majority", "alpha": 0.5, "lambda_r": 2.0}}
    )
    secrets = {
        "KEY_THAT_IS_THERE": SECRET,
        "BASIC_AUTH_USER": "label-studio",
        "BASIC_AUTH_PASS": SECRET,
        "CAMVO_WEBHOOK_SECRET": SECRET,
    }
    return {
        "plain": (plain, called("check", cwd=plain, COLUMNS="80")),
        "keyed": (keyed, called("check", "--config", path, cwd=keyed, COLUMNS="120", **secrets)),
    }


Checks = dict[str, tuple[Path, CompletedProcess[str]]]


def test_check_of_the_embedded_voters_succeeds(checks: Checks) -> None:
    done = checks["plain"][1]
    assert (done.returncode, "✗" in done.stdout) == (0, False), done.stderr


def test_check_prints_what_each_model_would_cost_and_the_sum(checks: Checks) -> None:
    printed = checks["plain"][1].stdout
    costs = [float(cost) for cost in re.findall(r"embedded/\S+\s+│\s+([\d.]+) │ yes", printed)]
    assert len(costs) == 7
    total = re.search(r"\$([\d.]+) per task", printed)
    assert total is not None
    assert float(total[1]) == pytest.approx(sum(costs), abs=1e-6)


def test_check_names_the_policy_and_the_parameters_without_effect(checks: Checks) -> None:
    assert "✓ policy         joint\n" in checks["plain"][1].stdout
    assert "✓ policy         majority; no effect: alpha, lambda_r\n" in checks["keyed"][1].stdout


def test_check_shows_what_redaction_makes_of_a_made_up_line(tmp_path: Path) -> None:
    (tmp_path / "camvo.yaml").write_text("redact: backend.questions.personal_data:redact\n", "utf-8")
    done = called("check", "--config", "camvo.yaml", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0
    assert "personal_data:redact 2; no images are shown; " in done.stdout
    assert "becomes “Jane Doe, <EMAIL>, <PHONE>”\n" in done.stdout


def test_check_fails_when_the_redact_function_does(tmp_path: Path) -> None:
    (tmp_path / "camvo.yaml").write_text("redact: redactors:failing\n", "utf-8")
    done = called("check", "--config", "camvo.yaml", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 1
    assert "✗ redaction" in done.stdout
    assert "it raised ValueError" in done.stdout


def test_check_spends_nothing_and_asks_nothing(checks: Checks) -> None:
    engine = create_engine(f"sqlite:///{checks['plain'][0] / 'camvo.sqlite'}")
    with engine.connect() as connection:
        for table in ("calls", "accounts", "answers", "rounds", "projects"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0  # noqa: S608
    engine.dispose()


def test_check_fails_when_a_key_is_missing_and_names_the_variable(checks: Checks) -> None:
    done = checks["keyed"][1]
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "✗" in line]
    assert "KEY_THAT_IS_MISSING" in line
    assert "KEY_THAT_IS_THERE" not in done.stdout


def test_check_never_prints_a_secret(checks: Checks) -> None:
    done = checks["keyed"][1]
    assert SECRET not in done.stdout + done.stderr


def test_check_of_a_broken_file_is_one_line_like_that_of_serve(tmp_path: Path) -> None:
    done = called(
        "check", "--config", configured(tmp_path, {"policy": {"name": "camvo", "delta": 1.7}}), cwd=tmp_path
    )
    assert done.returncode == 2
    assert "bad.yaml: policy.delta" in only_line(done)


@pytest.mark.parametrize("kind", ["plain", "keyed"])
def test_check_fits_its_terminal(checks: Checks, kind: str) -> None:
    table = [line for line in checks[kind][1].stdout.splitlines() if set("━│┃└") & set(line)]
    assert table
    assert max(map(len, table)) <= {"plain": 80, "keyed": 120}[kind]


def test_a_mistake_in_the_config_is_reported_before_anything_slow_is_imported(tmp_path: Path) -> None:
    path = configured(tmp_path, {"policy": {"name": "jiont"}})
    code = (
        "import sys\n"
        "from backend.cli import app\n"
        "from camvo.errors import CamvoError\n"
        "try:\n"
        f"    app([sys.argv[1], '--config', {str(path)!r}], standalone_mode=False)\n"
        "except CamvoError as error:\n"
        "    print(error.fix, sorted({'litellm', 'sqlalchemy', 'torch'} & sys.modules.keys()))\n"
    )
    for command in ("check", "serve"):
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", code, command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout == "did you mean joint? []\n", done.stderr


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Positive, Negative", ["Positive", "Negative"]),
        ('"bad, or worse", good', ["bad, or worse", "good"]),
        ('bad,"so ""good"""', ["bad", 'so "good"']),
        ('so "good",bad\n', ['so "good"', "bad"]),
        ("", []),
    ],
)
def test_a_label_with_a_comma_stands_in_quotes(text: str, labels: list[str]) -> None:
    assert listed(text) == labels
