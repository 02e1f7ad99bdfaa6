"""What runs CaMVo for others: manifests, dashboard, alert rules, and the image's lock agree with the code."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import migrated
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prometheus_client import Counter, Gauge, Histogram
from typer.testing import CliRunner

from backend.cli import app
from backend.server.app import create_app
from backend.settings import Environment, load
from backend.telemetry import metrics

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
IMAGE_EXTRAS = ("demo", "otel", "postgres")

PROBES = ("startup", "liveness", "readiness")

NOT_SHOWN = {"camvo_packed_tasks_total", "camvo_usage_capped_total"}
"""Exported, and neither on the dashboard nor in a rule; docs/operations.md says so."""


# manifests


def manifests(folder: str = "kubernetes") -> dict[str, dict[str, Any]]:
    found = {}
    kustomization = yaml.safe_load((DEPLOY / folder / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        for manifest in yaml.safe_load_all((DEPLOY / folder / name).read_text()):
            found[manifest["kind"]] = manifest
    return found


@cache
def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifests()["Deployment"]["spec"]["template"]["spec"]
    return spec


@cache
def container() -> dict[str, Any]:
    [only] = pod()["containers"]
    return dict(only)


def each_manifest() -> Iterator[tuple[str, dict[str, Any]]]:
    for folder in ("kubernetes", "kubernetes/migrate"):
        yield from ((f"{folder}: {kind}", each) for kind, each in manifests(folder).items())


def check(manifest: dict[str, Any]) -> None:
    """Validate against the newest Kubernetes that is known here; a field that it does not have is refused."""
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("manifest", [pytest.param(each, id=name) for name, each in each_manifest()])
def test_every_manifest_is_valid_by_the_schemas_of_kubernetes(manifest: dict[str, Any]) -> None:
    """As it is written: what kustomize makes of the manifests is not rendered here."""
    check(manifest)


def test_a_misspelt_field_would_be_refused() -> None:
    misspelt = deepcopy(manifests()["Deployment"])
    [only] = misspelt["spec"]["template"]["spec"]["containers"]
    only["readynessProbe"] = only.pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        check(misspelt)


@pytest.mark.parametrize("folder", ["kubernetes", "kubernetes/migrate"])
def test_every_manifest_has_its_own_kind_and_every_image_is_renamed(folder: str) -> None:
    """Manifests are found by their kind above, so that a second one of a kind would go unchecked."""
    kustomization = yaml.safe_load((DEPLOY / folder / "kustomization.yaml").read_text())
    texts = [(DEPLOY / folder / name).read_text() for name in kustomization["resources"]]
    assert len(manifests(folder)) == sum(len(list(yaml.safe_load_all(text))) for text in texts)
    specs = [
        each["spec"]["template"]["spec"]
        for each in manifests(folder).values()
        if "template" in each.get("spec", {})
    ]
    assert {each["image"] for spec in specs for each in spec["containers"]} == {
        image["name"] for image in kustomization["images"]
    }


def test_the_pods_are_reached_at_the_port_that_the_server_listens_on() -> None:
    [port] = container()["ports"]
    assert port["containerPort"] == Environment.model_fields["port"].default
    assert {container()[f"{name}Probe"]["httpGet"]["port"] for name in PROBES} == {port["name"]}


def test_the_job_runs_a_command_that_camvo_has() -> None:
    [migrate] = manifests("kubernetes/migrate")["Job"]["spec"]["template"]["spec"]["containers"]
    program, *command = migrate["command"]
    assert program == "camvo"
    assert CliRunner().invoke(app, [*command, "--help"]).exit_code == 0


def test_pods_and_images_run_as_the_same_user() -> None:
    [user] = re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert {spec["securityContext"]["runAsUser"] for spec in specs()} == {int(user)}


def test_each_probe_asks_for_something_that_is_served_without_credentials(tmp_path: Path) -> None:
    server = create_app(
        Environment(
            database_url=migrated.sqlite(tmp_path / "ledger.sqlite"),
            basic_auth_user="you",
            basic_auth_pass="secret",
            webhook_secret="secret",
        )
    )
    try:
        for name in PROBES:
            path = container()[f"{name}Probe"]["httpGet"]["path"]
            assert server.test_client().get(path).status_code in {200, 503}, path
    finally:
        server.extensions["camvo"].close()


def test_a_pod_may_take_longer_to_stop_than_a_request_may_take() -> None:
    deadline = load(None).deadline
    assert pod()["terminationGracePeriodSeconds"] > deadline + 15


def test_services_and_budgets_select_the_pods() -> None:
    labels = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests()["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert manifests()["Service"]["spec"]["selector"].items() <= labels.items()
    assert manifests()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    [port] = manifests()["Service"]["spec"]["ports"]
    assert port["targetPort"] in {each["name"] for each in container()["ports"]}


def test_every_variable_is_one_that_camvo_reads_and_every_secret_is_by_reference() -> None:
    read = {
        *(f"CAMVO_{name.upper()}" for name in Environment.model_fields),
        *("BASIC_AUTH_USER", "BASIC_AUTH_PASS", "LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY"),
    }
    variables = {each["name"]: each for each in container()["env"]}
    assert variables.keys() <= read
    plain = {name for name, each in variables.items() if "value" in each}
    assert plain == {"CAMVO_CONFIG", "CAMVO_WORKERS"}
    assert all("secretKeyRef" in variables[name]["valueFrom"] for name in variables.keys() - plain)


def specs() -> Iterator[dict[str, Any]]:
    """The pods of the deployment and of the job."""
    yield pod()
    yield manifests("kubernetes/migrate")["Job"]["spec"]["template"]["spec"]


def test_no_pod_gets_the_variables_that_kubernetes_makes_of_a_service() -> None:
    """Those of the service ``camvo`` have the names of ours: ``CAMVO_PORT`` is an address there."""
    made = f"{manifests()['Service']['metadata']['name']}_port".upper()
    assert made in {f"CAMVO_{name.upper()}" for name in Environment.model_fields}
    assert [spec["enableServiceLinks"] for spec in specs()] == [False, False]


@pytest.mark.parametrize("spec", [*specs()], ids=["deployment", "job"])
def test_containers_have_no_privileges_and_a_read_only_root(spec: dict[str, Any]) -> None:
    assert spec["securityContext"]["runAsNonRoot"] is True
    for each in spec["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {mount["mountPath"] for mount in each["volumeMounts"]} >= {"/tmp"}  # noqa: S108 - in the pod
        assert {mount["name"] for mount in each["volumeMounts"]} == {
            volume["name"] for volume in spec["volumes"]
        }


def test_the_configuration_of_the_manifests_is_valid() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    [generated] = kustomization["configMapGenerator"]
    load(DEPLOY / "kubernetes" / generated["files"][0])
    [volume] = [each for each in pod()["volumes"] if "configMap" in each]
    assert volume["configMap"]["name"] == generated["name"]
    [mount] = [each for each in container()["volumeMounts"] if each["name"] == volume["name"]]
    [read] = [each["value"] for each in container()["env"] if each["name"] == "CAMVO_CONFIG"]
    assert read == f"{mount['mountPath']}/{generated['files'][0]}"


# metrics


@cache
def exported() -> Mapping[str, set[str]]:
    """Every sample's name → its labels."""
    found = {}
    for metric in vars(metrics).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            names: tuple[str, ...] = (metric._name,)
            if isinstance(metric, Counter):
                names = (f"{metric._name}_total",)
            if isinstance(metric, Histogram):
                names = tuple(f"{metric._name}_{part}" for part in ("bucket", "sum", "count"))
            for name in names:
                found[name] = {*metric._labelnames, "le"} if "bucket" in name else set(metric._labelnames)
    return found


def expressions() -> Iterator[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana" / "camvo.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def named(text: str) -> set[str]:
    return set(re.findall(r"camvo_\w+", text))


def test_every_metric_on_the_dashboard_and_in_the_rules_is_exported() -> None:
    assert set(chain.from_iterable(map(named, expressions()))) <= exported().keys()


def test_every_metric_that_is_exported_is_shown_or_listed() -> None:
    shown = set(chain.from_iterable(map(named, expressions())))
    histogram = {name for name in exported() if name.endswith(("_bucket", "_sum", "_count"))}
    assert exported().keys() - shown - histogram == NOT_SHOWN
    page = (ROOT / "docs" / "operations.md").read_text()
    assert all(f"`{name}`" in page for name in NOT_SHOWN)


def test_every_label_is_one_of_the_metrics_in_its_expression() -> None:
    for text in expressions():
        known = set().union(*(exported()[name] for name in named(text))) | {"job"}
        grouped = chain.from_iterable(part.split(",") for part in re.findall(r"by \(([^)]*)\)", text))
        selected = re.findall(r"[{,]\s*(\w+)\s*(?:=|!=|=~|!~)", text)
        assert {label.strip() for label in chain(grouped, selected)} <= known, text


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    assert {name for name in families if f"`{name}`" not in page} == set()


def test_every_rule_says_what_to_do() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    for rule in chain.from_iterable(group["rules"] for group in rules["groups"]):
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "action"}


def test_no_two_panels_lie_on_each_other() -> None:
    panels = json.loads((DEPLOY / "grafana" / "camvo.json").read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels)


# the image's lock


@cache
def lock() -> Mapping[str, str]:
    text = (DEPLOY / "image" / "requirements.txt").read_text()
    return {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)
    }


def constraints() -> Mapping[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if "==" in line)
    }


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Collect what a distribution that is installed here needs, with what these need."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    for text in importlib.metadata.requires(name) or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            needed(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)


def test_the_lock_has_everything_that_the_images_extras_need() -> None:
    import tomllib  # noqa: PLC0415

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts, extras = [*project["dependencies"]], [*IMAGE_EXTRAS, "server"]
    for extra in extras:
        texts += [text for text in project["optional-dependencies"][extra] if not text.startswith("camvo[")]
    seen: set[tuple[str, frozenset[str]]] = set()
    for text in texts:
        requirement = Requirement(text)
        needed(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)
    gpu = re.compile("nvidia-|cuda-|triton")
    assert {name for name, _ in seen if not gpu.match(name)} - lock().keys() == set()
    assert lock()["setuptools"]


def test_the_lock_has_the_versions_of_the_constraints_and_a_hash_for_each() -> None:
    pinned = constraints()
    for name, version in lock().items():
        if name in pinned:
            assert version.partition("+")[0] == pinned[name].partition("+")[0], name
    text = (DEPLOY / "image" / "requirements.txt").read_text()
    for entry in re.split(r"\n(?=[\w.-]+==)", text)[1:]:
        assert "--hash=sha256:" in entry, entry.partition("\n")[0]


def test_the_lock_has_no_gpu_libraries() -> None:
    assert lock()["torch"].endswith("+cpu")
    assert not [name for name in lock() if name.startswith(("nvidia-", "cuda-", "triton"))]


def test_the_image_installs_by_hash_and_its_root_may_be_read_only() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes" in text
    written = re.findall(r"[A-Z_]+=(?:sqlite:///)?(/(?:tmp|data)\S*)", text)
    assert len(written) == 4
    assert "PYTHONDONTWRITEBYTECODE=1" in text


def test_the_lock_is_made_for_the_extras_that_the_image_installs() -> None:
    assert f'".[{",".join(IMAGE_EXTRAS)}]"' in (ROOT / "Dockerfile").read_text()
    script = (DEPLOY / "image" / "lock").read_text()
    assert tuple(re.findall(r"--extra (\w+)", script)) == IMAGE_EXTRAS
