"""Parts on Ray Data: a map of actors, each with the runtime of one process.

Ray decides where a part is labelled, and labels it again if its node was lost. What is true is in the ledger
alone: nothing of Ray's own state is needed to go on after the driver was killed.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backend.commands.label.engines.part_labeller import PartLabeller, PartOutcome, Work
from backend.datasets.parts import Part
from backend.models.litellm_info import provider_of
from backend.telemetry import logs


def is_installed() -> bool:
    """Whether the extra ``[ray]`` is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - only where an engine is asked for

    return find_spec("ray") is not None and find_spec("pyarrow") is not None


def label_on_ray(work: Work, parts: Sequence[Part]) -> Iterator[PartOutcome]:
    """Label parts on the cluster of ``RAY_ADDRESS``, or on one that is started on this host.

    Args:
        work: what every actor is told.
        parts: the parts.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads it during its import
    import ray  # noqa: PLC0415 - an extra
    import ray.data  # noqa: PLC0415

    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    try:
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        most = min(max(int(ray.cluster_resources().get("CPU", 1)), 1), len(parts))
        items = [{"part": pickle.dumps(part)} for part in parts]
        outcomes = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            _Actor,
            batch_size=1,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(
                min_size=1, max_size=most, initial_size=most, max_tasks_in_flight_per_actor=2
            ),
            fn_constructor_args=(work, keys_of(work)),
        )
        for row in outcomes.iter_rows():
            yield pickle.loads(row["outcome"])  # noqa: S301 - made by our own actors
    finally:
        if started:
            ray.shutdown()


class _Actor:
    """One process of the cluster. It lives as long as the run."""

    def __init__(self, work: Work, keys: Mapping[str, str]) -> None:
        # litellm reads keys from the environment, and that of another host may lack them.
        os.environ.update(keys)
        logs.configure(work.environment.log_level)
        self._labeller = PartLabeller(work)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[bytes]]:
        """Label the parts of a batch."""
        parts: list[Part] = [pickle.loads(data) for data in batch["part"]]  # noqa: S301 - made by the driver
        return {"outcome": [pickle.dumps(self._labeller.label(part)) for part in parts]}


_OF_S3 = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)
"""The variables from which pyarrow takes credentials, region and server of S3, if they are no files."""


def keys_of(work: Work) -> dict[str, str]:
    """The variables of this process's environment that hold the models' keys, and those of the bucket."""
    providers = {provider_of(model.model) or "" for model in work.settings.models}
    names = {model.api_key_env for model in work.settings.models if model.api_key_env}
    names |= {f"{provider.upper()}_API_KEY" for provider in providers if provider}
    if work.folder.name.startswith("s3://"):
        names.update(_OF_S3)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}
