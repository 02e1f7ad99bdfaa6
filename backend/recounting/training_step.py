"""START_TRAINING: after the annotations are learnt, the kept votes are counted again."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from backend.label_studio.webhooks import WebhookEvent
from backend.recounting.automatic import AutomaticRecounts
from backend.recounting.recounter import Recounter, Stopped
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecountStep:
    """A training step that counts a project again and brings the labels to Label Studio.

    A server without a key only notes what a recount would change, so that ``/status`` names the command.

    Attributes:
        recounter: counts.
        recounts: delivers, where the server has a key for Label Studio.
    """

    recounter: Recounter
    recounts: AutomaticRecounts

    async def __call__(self, event: WebhookEvent) -> None:
        """Recount the event's project; failures are logged, since nobody awaits the result."""
        project = event.project_key
        try:
            if self.recounts.can_deliver:
                await self.recounter.recount(project, "training")
                await self.recounts.deliver(project)
            else:
                await self.recounts.tend(project)
        except Stopped:
            return
        except CamvoError as error:
            _log.error("recount_failed", project=project, code=error.code, reason=str(error))
