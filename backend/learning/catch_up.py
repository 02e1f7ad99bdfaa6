"""Catching up with annotations whose webhooks never arrived.

Label Studio sends no event for imported annotations, gives up on a webhook after one second and never repeats
one. On START_TRAINING all annotations of the project are fetched page by page and applied like webhooks. An
annotation that is already known by its id and ``updated_at`` changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from backend.label_studio import webhooks
from backend.label_studio.client import Client
from backend.label_studio.webhooks import WebhookEvent
from backend.learning.actions import parts, prepare_event
from backend.ledger import Ledger, Writer, human_annotations
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A training step that fetches the annotations which the ledger lacks.

    Attributes:
        ledger: where the known annotations are read.
        writer: writes the missing ones, a few per transaction.
        settings: the server's settings.
        environment: holds Label Studio's address and key.
        clock: returns unix seconds.
    """

    ledger: Ledger
    writer: Writer
    settings: Settings
    environment: Environment
    clock: Callable[[], float]

    async def __call__(self, event: WebhookEvent) -> None:
        """Learn all annotations of the event's project, and unlearn the deleted ones.

        Failures are logged: nobody awaits the result. Without Label Studio's address and key nothing is
        fetched; the log says what to set.
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
            number = (await asyncio.to_thread(client.project_by_key, event.project_key))["id"]
            count, deleted = await self._learn(client, number, event)
        except CamvoError as error:
            _log.error("catch_up_failed", project=event.project_key, code=error.code, reason=str(error))
        else:
            _log.info("caught_up", project=event.project_key, annotations=count, deleted=deleted)

    async def _learn(self, client: Client, number: int, event: WebhookEvent) -> tuple[int, int]:
        """Apply the differences; return the number of annotations, and of known ones that were deleted."""
        # Read before the first page: annotations learnt later from a webhook may be missing in the pages.
        known = await asyncio.to_thread(self._known, event.project_key)
        listed: set[int] = set()
        pages = client.pages(number, annotated=True)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            annotations = [annotation for task in page for annotation in task["annotations"]]
            listed |= {annotation["id"] for annotation in annotations}
            created = replace(event, action="ANNOTATIONS_CREATED", annotations=annotations)
            await self._apply(replace(created, data=webhooks.task_data(page)))
        deleted = await asyncio.to_thread(_deleted, client, sorted(known - listed))
        await self._apply(replace(event, action="ANNOTATIONS_DELETED", annotation_ids=deleted))
        return len(listed), len(deleted)

    async def _apply(self, event: WebhookEvent) -> None:
        for part in parts(event):
            apply = await asyncio.to_thread(prepare_event, part, self.settings, self.clock)
            await self.writer.persist(apply)

    def _known(self, project: str) -> frozenset[int]:
        with self.ledger.read() as connection:
            return human_annotations.annotation_ids(connection, project)


def _deleted(client: Client, numbers: Sequence[int]) -> list[int]:
    """Of annotations that no page listed, those that no longer exist.

    Each is checked, since a deleted annotation is never learnt again.
    """
    return [number for number in numbers if not client.has_annotation(number)]
