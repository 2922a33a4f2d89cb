"""The real parts that contract suites run against."""

from __future__ import annotations

from tests.integration.conftest import containerd, grpc_thread

__all__ = ["containerd", "grpc_thread"]
