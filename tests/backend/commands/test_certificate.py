"""The certificate of a project's labels: what the page says, what it keeps to itself, and when it ends."""

from __future__ import annotations

import copy
import hashlib
import io
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import migrated
import pytest
import yaml
from blind_project import BlindProject
from reservations import reserve
from rich.console import Console
from sqlalchemy import delete, func, select, update
from stored_rounds import PROJECT

from backend import upkeep
from backend.commands.shared.certificate import (
    _how,
    _outcome_lines,
    _project_report,
    _to_certify,
    issue_certificate,
)
from backend.errors import ConfigError
from backend.ledger import Ledger, deletions, money, projects
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.certificates import Certificates
from backend.ledger.database import tables
from backend.ledger.recounts import Counting, Recounts
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import ProjectRounds
from backend.server.status.report import CertificateReport, CertifyReport
from backend.settings import Environment, load
from backend.upkeep import _nothing

SECRET = "Our shop sells garden gnomes"
ADDRESS = "http://models.invalid:8080/v1"


class Certified:
    """A project with blind labels, its ``camvo.yaml``, and the pages that are issued about it."""

    def __init__(self, ledger: Ledger, url: str, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.project = BlindProject(ledger, audit=0.5)
        self.project.predict(["Glad", "Glad", "Sad"] * 200)
        config = folder / "camvo.yaml"
        model = {
            "model": "openai/gpt-4o",
            "api_base": ADDRESS,
            "api_key_env": "MY_SECRET_KEY",
            "max_tokens": 64,
        }
        models = [{"name": name, **model} for name in ("red", "green")]
        config.write_text(yaml.safe_dump({"models": models, "instructions": SECRET}))
        self.environment = Environment(database_url=url, config=config)

    def teach(self, tasks: slice = slice(None), human: Callable[[int], str | None] | None = None) -> None:
        chosen = self.project.queue[tasks]
        self.project.answer(chosen, human or (lambda task: self.project.rounds[task].label))

    def issue(self, name: str = "page.html") -> str:
        self.said = io.StringIO()
        console = Console(file=self.said, width=200)
        issue_certificate(console, self.environment, PROJECT, self.folder / name)
        return (self.folder / name).read_text()

    def standing(self) -> list[CertificateReport]:
        with self.ledger.read() as connection:
            report = _project_report(connection, load(self.environment.config), PROJECT)
        assert report is not None
        return list(report.certificates or ())

    def reasons(self) -> list[str | None]:
        return [certificate.reason for certificate in self.standing()]

    def recount(self) -> None:
        with self.ledger.write() as connection:
            counting = Counting(
                Recounts(connection, PROJECT).latest_number() + 1, "command", 1, 600, 3, 0, 0.9, 0.9, 3.0
            )
            Recounts(connection, PROJECT).store_counting(counting)
            BlindQueues(connection, PROJECT).recounted("mood", "e1", number=counting.number, results={})

    def outcome(self) -> list[str]:
        with self.ledger.read() as connection:
            report = _project_report(connection, load(self.environment.config), PROJECT)
        assert report is not None
        return list(_outcome_lines(report))


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """The project that each test gets a copy of; its ledger is closed."""
    folder = tmp_path_factory.mktemp("predicted")
    with closing(Ledger(migrated.sqlite(folder / "ledger.sqlite"))) as ledger:
        return Certified(ledger, ledger.place, folder)


@pytest.fixture
def certified(predicted: Certified, tmp_path: Path) -> Iterator[Certified]:
    shutil.copytree(predicted.folder, tmp_path, dirs_exist_ok=True)
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    with closing(Ledger(url)) as ledger:
        certified, project = copy.copy(predicted), copy.copy(predicted.project)
        project.ledger, project.rounds = ledger, dict(project.rounds)
        certified.ledger, certified.folder, certified.project = ledger, tmp_path, project
        certified.environment = Environment(database_url=url, config=tmp_path / "camvo.yaml")
        yield certified


def test_the_page_has_the_guarantee_the_shares_and_the_cost(certified: Certified) -> None:
    certified.teach()
    page = certified.issue()
    for words in ("Certificate of labels, number 1", "need no review", "$0.6000", "$2.4000", "75.0% saved"):
        assert words in page
    for label in ("Glad", "Sad", "Odd"):
        assert f"<th>{label}</th>" in page
    assert page.count("<svg") == 1


def test_it_holds_no_text_no_key_and_no_address(certified: Certified) -> None:
    certified.teach()
    page = certified.issue()
    for words in (SECRET, "gnomes", ADDRESS, "models.invalid", "MY_SECRET_KEY", "<script", "http-equiv"):
        assert words not in page
    assert hashlib.sha256(SECRET.encode()).hexdigest() in page


def test_it_loads_nothing(certified: Certified) -> None:
    page = certified.issue()
    assert "src=" not in page
    assert 'href="http' not in page


def test_the_ledger_knows_the_file(certified: Certified) -> None:
    certified.teach()
    certified.issue()
    [found] = certified.standing()
    assert found.file_hash == hashlib.sha256((certified.folder / "page.html").read_bytes()).hexdigest()
    assert (found.number, found.labels, found.reason) == (1, 600, None)


def test_before_a_blind_label_it_says_how_many_would_certify(certified: Certified) -> None:
    page = certified.issue()
    assert "No score is certified yet" in page
    assert "more blind tasks to certify" in page


def test_a_recount_voids_it_and_the_next_one_says_so(certified: Certified) -> None:
    certified.teach(slice(0, 100))
    certified.issue()
    certified.recount()
    assert certified.reasons() == ["recounted"]
    page = certified.issue("second.html")
    assert "certificate 1 no longer holds" in certified.said.getvalue()
    assert "by counting 1" in page
    assert certified.reasons() == [None, "recounted"]


def test_one_that_rests_on_too_few_blind_labels_says_that_it_certifies_nothing(certified: Certified) -> None:
    certified.issue()
    certified.teach()
    certified.issue("second.html")
    second, first = certified.standing()
    assert first.message == "it certifies no label, since it rests on too few blind labels"
    assert second.message == "it holds"


def test_the_end_of_a_run_says_how_many_blind_labels_a_recount_has_voided(certified: Certified) -> None:
    certified.teach(slice(0, 100))
    certified.recount()
    assert "the recount has voided 100 earlier ones" in certified.outcome()[1]


def test_further_blind_labels_and_new_tasks_leave_it_as_it_is(certified: Certified) -> None:
    certified.teach(slice(0, 100))
    certified.issue()
    certified.teach(slice(100, 150))
    certified.project.predict(["Sad"] * 10)
    assert certified.reasons() == [None]


def test_an_answer_that_is_changed_voids_it(certified: Certified) -> None:
    certified.teach(slice(0, 100))
    certified.issue()
    certified.teach(slice(5, 6), lambda task: "Odd")
    assert certified.reasons() == ["evidence_changed"]


def test_a_deleted_task_voids_it(certified: Certified) -> None:
    certified.teach()
    certified.issue()
    other = next(task for task, round_ in certified.project.rounds.items() if not round_.audit)
    with certified.ledger.write() as connection:
        deletions.mark_deleted(connection, PROJECT, [other], 2.0)
        deletions.forget_deleted(connection, PROJECT, [other])
    assert certified.reasons() == ["labels_changed"]


def test_the_same_labels_have_the_same_hash(certified: Certified) -> None:
    with certified.ledger.read() as connection:
        epochs = ProjectRounds(connection, PROJECT).latest_epochs()
        newest = ProjectSums(connection, PROJECT).newest_round()
        first, second = (Certificates(connection, PROJECT).hash_labels(epochs, newest) for _ in range(2))
    assert first == second
    assert first.count == 600


def test_the_hash_is_the_one_that_the_documentation_describes(certified: Certified) -> None:
    rounds = sorted(certified.project.rounds.items())
    lines = (f"mood\t{task}\t{round_.label}\t{round_.score:.6f}\n" for task, round_ in rounds)
    certified.issue()
    [found] = certified.standing()
    assert found.labels_hash == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_certificates_are_numbered_by_project(certified: Certified) -> None:
    certified.issue()
    certified.issue()
    with certified.ledger.read() as connection:
        assert [each.number for each in Certificates(connection, PROJECT).all()] == [2, 1]
        assert Certificates(connection, "another").next_number() == 1


def test_a_project_without_a_label_gets_none(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    with sqlite_ledger.write() as connection:
        projects.remember(connection, PROJECT, extra_params=None, label_config=None, now=1.0)
    environment = Environment(database_url=sqlite_ledger.place)
    with pytest.raises(ConfigError, match="has no label"):
        issue_certificate(Console(), environment, PROJECT, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_the_end_of_a_run_says_cost_guarantee_and_shares(certified: Certified) -> None:
    certified.teach()
    cost, certified_share, shares = certified.outcome()
    assert cost == "$0.6000 for the votes; asking everyone would have cost $2.4000: 75.0% saved"
    assert certified_share.startswith(
        "mood: 100.0% of the labels are at least 97% right, with 95% confidence"
    )
    assert shares.startswith("mood: the share of each label among 600")


def test_the_end_of_a_run_shows_lost_calls_apart(certified: Certified) -> None:
    with certified.ledger.write() as connection:
        money.lose(connection, [reserve(connection, PROJECT, usd=0.25)])
    assert certified.outcome()[1] == (
        "1 call ended with a killed process: counted with $0.2500, the most that they may cost"
    )


def test_without_a_blind_task_the_end_of_a_run_says_how_many_are_needed(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    certified = Certified(sqlite_ledger, sqlite_ledger.place, tmp_path)
    with certified.ledger.write() as connection:
        connection.exec_driver_sql("DELETE FROM blind_tasks")
    assert re.search(r"about \d+ more blind labels are expected to certify \d+%", certified.outcome()[1])


@pytest.mark.parametrize(
    ("kept", "unpredicted", "said"),
    [
        (0.0, 0, "set audit in camvo.yaml before further tasks are imported: all others were shown"),
        (0.0, 3, "set audit in camvo.yaml before tasks are predicted"),
        (0.1, 0, "audit keeps 10% of the tasks to come blind"),
        (0.1, 3, "audit keeps 10% of the tasks to come blind"),
    ],
)
def test_nobody_is_told_to_set_audit_where_it_is_set(kept: float, unpredicted: int, said: str) -> None:
    project: Any = SimpleNamespace(
        key="7.100", kept_blind=kept, progress=SimpleNamespace(unpredicted=unpredicted)
    )
    assert _how(project) == said


def certificate_problems(certified: Certified) -> list[str]:
    with certified.ledger.read() as connection:
        found = upkeep.problems(connection, _nothing)
        return [problem.what for problem in found if problem.kind == "certificate"]


def test_verify_finds_nothing_in_sound_certificates(certified: Certified) -> None:
    certified.teach()
    certified.issue()
    certified.recount()
    certified.issue("next.html")
    assert certificate_problems(certified) == []


def test_verify_finds_a_label_that_was_changed_under_a_certificate(certified: Certified) -> None:
    certified.teach()
    certified.issue()
    with certified.ledger.write() as connection:
        first = select(func.min(tables.rounds.c.id)).scalar_subquery()
        connection.execute(update(tables.rounds).where(tables.rounds.c.id == first).values(score=0.123456))
    assert certificate_problems(certified) == [
        "a label or score that it covers was changed without a counting"
    ]


def test_verify_finds_a_certificate_that_is_missing(certified: Certified) -> None:
    certified.teach()
    certified.issue()
    certified.issue("next.html")
    with certified.ledger.write() as connection:
        connection.execute(delete(tables.certificates).where(tables.certificates.c.number == 1))
    assert certificate_problems(certified) == ["certificate 1 is missing before it"]


@pytest.mark.parametrize(("key", "way_out"), [("reviews", True), (PROJECT, False)])
def test_a_file_with_too_few_tasks_left_names_the_way_to_another_project(key: str, way_out: bool) -> None:
    certify = CertifyReport(0.95, None, 0, None, 0, 59)
    project: Any = SimpleNamespace(key=key)
    question: Any = SimpleNamespace(guarantee=SimpleNamespace(target=0.95))
    said = _to_certify(project, question, certify)
    assert "0 tasks can still get one" in said
    assert said.endswith("and --name begins another project") is way_out
