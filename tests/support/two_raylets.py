"""A Ray cluster of two nodes on this machine, with one processor each. The second can be killed."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

_MEMORY = 100 * 2**20


class TwoRaylets:
    """The cluster. A context manager.

    Attributes:
        address: for ``RAY_ADDRESS``.
    """

    def __enter__(self) -> TwoRaylets:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # else a busy machine leaves its workers hardly any processor
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's spelling
        from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

        node = {"num_cpus": 1, "object_store_memory": _MEMORY, "include_dashboard": False}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=node)
        self.address: str = self._cluster.address
        self._second: Any = None
        self.add_node()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.shutdown()

    def add_node(self) -> None:
        """Start the second node."""
        self._second = self._cluster.add_node(num_cpus=1, object_store_memory=_MEMORY)

    def kill_node(self) -> None:
        """Kill the second node with all its processes, without a word to the first."""
        self._cluster.remove_node(self._second, allow_graceful=False)
