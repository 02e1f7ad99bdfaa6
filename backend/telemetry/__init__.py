"""Telemetry of the server: structured logs and Prometheus metrics."""
