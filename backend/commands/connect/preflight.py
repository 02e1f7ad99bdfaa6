"""What can be proved before anything changes in Label Studio: the server, its secrets, the label config."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from backend.commands.config_facts import config_facts
from backend.commands.connect.backend_client import BackendClient
from backend.commands.connect.wanted import Wanted
from backend.commands.facts import Fact
from backend.errors import BackendError
from backend.label_studio.client import Client
from backend.settings import Settings


def check_before_connecting(
    client: Client, backend: BackendClient, wanted: Wanted, settings: Settings
) -> Iterator[Fact]:
    """Try what needs no change in Label Studio.

    - *server*: CaMVo answers there, with the model version of ``settings`` and these credentials and secret.
      It is not tried if the address cannot be reached from here, since Label Studio may know a host name
      that this host does not.
    - *label config*: which controls get predictions.
    """
    yield from _server(backend, wanted)
    yield from config_facts(str(client.project(wanted.project)["label_config"]), settings)


def _server(backend: BackendClient, wanted: Wanted) -> Iterator[Fact]:
    if not backend.reachable():
        yield Fact("server", f"{backend.url} cannot be reached from here; Label Studio will try", holds=None)
        return
    checks: tuple[Callable[[], str], ...] = (
        lambda: _version(backend, wanted),
        lambda: _credentials(backend),
        lambda: _secret(backend),
    )
    for check in checks:
        try:
            text = check()
        except BackendError as error:
            yield Fact("server", str(error), holds=False)
            return
        yield Fact("server", text)


def _version(backend: BackendClient, wanted: Wanted) -> str:
    version = backend.model_version()
    if version != wanted.title:
        raise BackendError(
            f"the server's model_version is {version!r}, and here it is {wanted.title!r}",
            where=backend.url,
            fix="give camvo connect the server's --config",
        )
    return f"CaMVo answers at {backend.url}"


def _credentials(backend: BackendClient) -> str:
    backend.check_credentials()
    return "accepts the credentials" if backend.has_credentials else "needs no credentials"


def _secret(backend: BackendClient) -> str:
    backend.check_webhook_secret()
    return "accepts the webhook's secret" if backend.has_webhook_secret else "accepts webhooks from anyone"
