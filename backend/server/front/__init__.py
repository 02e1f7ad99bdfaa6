"""The front of a worker: receives whole requests without a thread, and admits them to threads by urgency."""

from backend.server.front.worker import FrontWorker

__all__ = ["FrontWorker"]
