"""State of sandboxes and containers, stored on disk across restarts of the runtime.

Each record is a JSON file that is replaced atomically.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from google.protobuf import json_format
from msgspec import field

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import MutableStruct
from nodeagent_plugins.embedded_runtime.errors import NotFound
from nodeagent_plugins.embedded_runtime.processes import Process

_log = logging.getLogger(__name__)


class Sandbox(MutableStruct):
    """One sandbox; times are nanoseconds since the epoch."""

    id: str
    config: cri.PodSandboxConfig
    created_at: int
    runtime_handler: str = ""
    holder: Process | None = None
    """Pause process in the sandbox's namespaces; ``None`` if it has no separate ones."""
    namespaces: list[str] = field(default_factory=list)
    """Kinds of namespaces of the pause process: ``net``, ``ipc``, ``uts``, ``pid``, ``user``."""
    ips: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def ready(self) -> bool:
        return not self.stopped and (self.holder is None or self.holder.alive)

    @property
    def options(self) -> cri.NamespaceOption:
        return self.config.linux.security_context.namespace_options

    def namespace(self, kind: str) -> str:
        """Return the path of the sandbox's namespace of a *kind*; empty for that of the node."""
        return f"/proc/{self.holder.pid}/ns/{kind}" if self.holder is not None and kind in self.namespaces else ""


class Container(MutableStruct):
    """One container; times are nanoseconds since the epoch, 0 if unset."""

    id: str
    sandbox_id: str
    config: cri.ContainerConfig
    image_id: str
    image_ref: str
    created_at: int
    log_path: str = ""
    stop_signal: str = "SIGTERM"
    layers: list[str] = field(default_factory=list)
    volume_layers: list[str] = field(default_factory=list)
    """Layers of mounted images."""
    user: dict[str, Any] = field(default_factory=dict)
    """``uid``, ``gid`` and ``groups`` of the process; empty until it is known."""
    process: Process | None = None
    shim: Process | None = None
    cgroups: dict[str, str] = field(default_factory=dict)
    """Cgroups by controller; version 2 has an empty name."""
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def state(self) -> cri.ContainerState:
        if self.finished_at:
            return cri.CONTAINER_EXITED
        return cri.CONTAINER_RUNNING if self.started_at else cri.CONTAINER_CREATED

    @property
    def all_layers(self) -> list[str]:
        """Layers of the root file system and of mounted images."""
        return [*self.layers, *self.volume_layers]

    @property
    def running(self) -> bool:
        return bool(self.started_at) and not self.finished_at


Record = TypeVar("Record", bound=Sandbox | Container)


class Records(Generic[Record]):
    """All sandboxes, or all containers, by ID.

    :param directory: contains one directory per record.
    :param kind: the class of the records.
    :param config: the message class of the configuration.
    """

    def __init__(self, directory: Path, kind: Callable[..., Record], config: Callable[[], Any]) -> None:
        self._directory, self._kind, self._config = directory, kind, config
        self._noun = directory.name.removesuffix("s").removesuffix("e")
        self._records: dict[str, Record] = {}
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o711)

    def load(self) -> list[str]:
        """Load all records; return the IDs of directories without a record."""
        torn = []
        for directory in sorted(self._directory.iterdir()):
            try:
                self._records[directory.name] = self._decode((directory / "record.json").read_bytes())
            except FileNotFoundError:
                torn.append(directory.name)
            except (ValueError, TypeError, KeyError, RecursionError, json_format.ParseError) as error:
                _log.warning("Failed to read record, ignoring it", extra={"record": str(directory), "err": str(error)})
        return torn

    def directory(self, record_id: str) -> Path:
        return self._directory / record_id

    def save(self, record: Record) -> None:
        """Store *record* on disk and in memory."""
        directory = self._directory / record.id
        directory.mkdir(exist_ok=True)
        aside = directory / "record.new"
        aside.touch(mode=0o600)  # The configuration may contain secrets.
        aside.write_bytes(self._encode(record))
        aside.rename(directory / "record.json")
        self._records[record.id] = record

    def forget(self, record_id: str) -> None:
        """Remove the record and its directory."""
        self._records.pop(record_id, None)
        directory = self._directory / record_id
        (directory / "record.json").unlink(missing_ok=True)  # First, so that an interrupted removal is detected.
        shutil.rmtree(directory, ignore_errors=True)

    def find(self, record_id: str) -> Record | None:
        """Return the record with the ID, or with a unique ID prefix."""
        if (known := self._records.get(record_id)) is not None:
            return known
        alike = [found for found in self._records if record_id and found.startswith(record_id)]
        return self._records[alike[0]] if len(alike) == 1 else None

    def get(self, record_id: str) -> Record:
        """Return the record.

        :raises NotFound: there is none, or the prefix is ambiguous.
        """
        if (known := self.find(record_id)) is not None:
            return known
        raise NotFound(f'{self._noun} "{record_id}" not found')

    def all(self) -> list[Record]:
        return list(self._records.values())

    def _encode(self, record: Record) -> bytes:
        fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
        fields["config"] = json_format.MessageToDict(record.config, preserving_proto_field_name=True)
        return msgspec.json.format(msgspec.json.encode(fields), indent=1)

    def _decode(self, content: bytes) -> Record:
        fields = msgspec.json.decode(content, type=dict[str, Any])
        fields["config"] = json_format.ParseDict(fields["config"], self._config())
        for name in ("holder", "process", "shim"):
            if fields.get(name) is not None:
                fields[name] = Process(**fields[name])
        return self._kind(**fields)


def new_id() -> str:
    """Return a new unique ID."""
    return os.urandom(32).hex()
