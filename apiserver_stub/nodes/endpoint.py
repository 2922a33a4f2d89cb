"""Endpoint of a connection that the API server opens."""

from __future__ import annotations

import ssl

from nodeagent.base.structs import Struct


class Endpoint(Struct, frozen=True):
    """Address of an agent, a pod or a service; *host* may be a name."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """Name that its certificate must contain, if not *host*."""

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.authority}"
