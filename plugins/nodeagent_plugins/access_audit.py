"""Audit log of accesses to containers and logs: JSON lines in the format of the API server's audit log.

Each request of exec, attach, port forwarding, run, checkpoint, container logs and system logs has an entry when it
starts and one when it ends, with the authenticated user; a rejected request has one. The file has mode 0600, is rotated
by size, and may be moved away at any time.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.contracts.context import ConfigContext
from nodeagent.contracts.hooks import PluginHost
from nodeagent.contracts.server import AccessRecord, User
from nodeagent.model.meta import wire_micro_time

NAME = "access_audit"
FILE = "audit/access.log"
MAX_MIB = 20
MAX_BACKUPS = 5
_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": "boolean", "default": True, "description": "Record accesses."},
            "path": {
                "type": "string",
                "pattern": "^/",
                "description": f"Absolute path of the file; defaults to {FILE} in the root directory.",
            },
            "max_mib": {
                "type": "integer",
                "minimum": 1,
                "maximum": 10240,
                "default": MAX_MIB,
                "description": "Size in MiB at which the file is rotated.",
            },
            "max_backups": {
                "type": "integer",
                "minimum": 0,
                "maximum": 100,
                "default": MAX_BACKUPS,
                "description": "Number of rotated files to keep: access.log.1 is the latest.",
            },
        },
    }


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    settings = context.plugin_settings.get(NAME, {})
    if not settings.get("enabled", True):
        return
    log = AuditLog(
        Path(settings.get("path") or context.root_dir / FILE),
        max_bytes=int(settings.get("max_mib", MAX_MIB)) << 20,
        backups=int(settings.get("max_backups", MAX_BACKUPS)),
    )
    plugins.register(AccessAudit(log, context.node_name), name=f"{NAME}.log")


class AccessAudit:
    """Writes each access to the log."""

    def __init__(self, log: AuditLog, node: str) -> None:
        self._log, self._node = log, node

    @hookimpl
    async def nodeagent_access_recorded(self, access: AccessRecord) -> None:
        line = json.dumps(event_of(access, self._node), separators=(",", ":")) + "\n"
        await asyncio.to_thread(self._log.append, line.encode())


class AuditLog:
    """File with one entry per line, rotated by size.

    :param backups: number of rotated files to keep.
    """

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        self._path, self._max_bytes, self._backups = path, max_bytes, backups

    def append(self, line: bytes) -> None:
        """Append *line*; blocks.

        :raises OSError: the file cannot be written, or is not a regular file.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, _OPEN, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{self._path} is not a regular file")
            if status.st_size and status.st_size + len(line) > self._max_bytes:
                self._rotate()
                full, descriptor = descriptor, os.open(self._path, _OPEN | os.O_EXCL, 0o600)
                os.close(full)
            elif status.st_mode & 0o177:
                os.fchmod(descriptor, 0o600)
            while line:
                line = line[os.write(descriptor, line) :]
        finally:
            os.close(descriptor)

    def _rotate(self) -> None:
        for number in range(self._backups, 1, -1):
            older = self._backup(number - 1)
            if older.exists():
                older.replace(self._backup(number))
        if self._backups:
            self._path.replace(self._backup(1))
        else:
            self._path.unlink()

    def _backup(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def event_of(access: AccessRecord, node: str) -> dict[str, Any]:
    """Return the ``Event`` of group ``audit`` for *access*."""
    names = identity.current()
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": f"{names.group('audit')}/v1",
        "level": "Metadata",
        "auditID": access.id,
        "stage": access.stage.value,
        "requestURI": access.uri,
        "verb": access.verb,
        "user": _user(access.user),
        "sourceIPs": [access.source],
        "userAgent": access.user_agent,
        "objectRef": {"resource": "nodes", "name": node, "apiVersion": "v1", "subresource": access.subresource},
        "requestReceivedTimestamp": wire_micro_time(access.received_at),
        "stageTimestamp": wire_micro_time(access.recorded_at),
    }
    if access.status:
        event["responseStatus"] = {"metadata": {}, "code": access.status}
    annotations = {
        "method": access.method,
        "pod": f"{access.namespace}/{access.pod}" if access.pod else "",
        "container": access.container,
        "sent-bytes": str(access.sent_bytes) if access.sent_bytes else "",
    }
    event["annotations"] = {names.label(key, "node"): value for key, value in annotations.items() if value}
    return event


def _user(user: User | None) -> dict[str, Any]:
    if user is None:
        return {}
    found = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    extra = {key: list(values) for key, values in user.extra.items()}
    return {key: value for key, value in {**found, "extra": extra}.items() if value}
