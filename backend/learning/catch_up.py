"""Catching up: what people annotated, and raised no event that reached us, is fetched and learnt.

Label Studio says nothing about imported annotations, gives a webhook up after one second and never repeats
one. On START_TRAINING the whole project is compared, page by page, through the same call that learns from
webhooks: an annotation that is known by its id and ``updated_at`` changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from backend.errors import LabelStudioError
from backend.label_studio import webhooks
from backend.label_studio.client import Client
from backend.label_studio.webhooks import WebhookEvent
from backend.learning import feedback
from backend.ledger import Ledger, Writer, human_annotations
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Fetches what the ledger has missed.

    Attributes:
        ledger: what is known.
        writer: through which the news are learnt, a few in a transaction.
        settings: the backend's.
        environment: says where Label Studio is, and holds the key.
        clock: unix seconds.
    """

    ledger: Ledger
    writer: Writer
    settings: Settings
    environment: Environment
    clock: Callable[[], float]

    async def __call__(self, event: WebhookEvent) -> None:
        """Learn every annotation of the project of a START_TRAINING, and unlearn those that are gone.

        Nobody waits for it, so the log says what failed, or what is missing: without an address and a key
        there is nothing to ask.
        """
        url, key = self.environment.label_studio_url, self.environment.label_studio_api_key
        if url is None or key is None:
            missing = [
                name
                for name, value in (("LABEL_STUDIO_URL", url), ("LABEL_STUDIO_API_KEY", key))
                if value is None
            ]
            fix = f"set {' and '.join(missing)}, so that imported annotations are learnt"
            _log.warning("catch_up_impossible", project=event.project_key, missing=missing, fix=fix)
            return
        try:
            client = await asyncio.to_thread(Client, url, key)
            number = await asyncio.to_thread(_same_project, client, event.project_key)
            seen, gone = await self._learn(client, number, event)
        except CamvoError as error:
            _log.error("catch_up_failed", project=event.project_key, code=error.code, reason=str(error))
        else:
            _log.info("caught_up", project=event.project_key, annotations=seen, deleted=gone)

    async def _learn(self, client: Client, number: int, event: WebhookEvent) -> tuple[int, int]:
        """How many annotations there are, and how many of the known ones are not there any more."""
        # Read before the first page: what is learnt later, from a webhook, may be missing in the pages.
        known = await asyncio.to_thread(self._known, event.project_key)
        seen: set[int] = set()
        pages = client.pages(number, annotated=True)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            annotations = [one for task in page for one in task["annotations"]]
            seen |= {one["id"] for one in annotations}
            news = replace(event, action="ANNOTATIONS_CREATED", annotations=annotations)
            await self._apply(replace(news, data=webhooks.data_of(page)))
        gone = await asyncio.to_thread(_confirmed, client, sorted(known - seen))
        await self._apply(replace(event, action="ANNOTATIONS_DELETED", annotation_ids=gone))
        return len(seen), len(gone)

    async def _apply(self, event: WebhookEvent) -> None:
        def learn(part: WebhookEvent, connection: Connection) -> None:
            feedback.apply(connection, part, self.settings, self.clock())

        for part in webhooks.parts(event):
            await self.writer.run(functools.partial(learn, part))

    def _known(self, project: str) -> frozenset[int]:
        with self.ledger.read() as connection:
            return human_annotations.annotation_ids(connection, project)


def _same_project(client: Client, key: str) -> int:
    """The number of the project, once it is sure that this Label Studio is the one that means it.

    Raises:
        LabelStudioError: the project of that number was created at another time: it is another one.
    """
    number = int(key.partition(".")[0])
    if webhooks.project_key(client.project(number)) != key:
        raise LabelStudioError(
            f"its project {number} is not the one that is to be learnt from",
            where=client.url,
            fix="set LABEL_STUDIO_URL to the Label Studio that CaMVo is connected to",
        )
    return number


def _confirmed(client: Client, numbers: Sequence[int]) -> list[int]:
    """Of annotations that no page had, those that are gone: what is forgotten once does not come back."""
    return [number for number in numbers if not client.has_annotation(number)]
