"""Faults of the driver, read from a file at each call, so that a test controls a running process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc


@dataclass
class Fault:
    """A fault of one method.

    :ivar delay: seconds to wait before the call is executed; a large value is a hang.
    :ivar code: name of the gRPC status to fail with, such as ``UNAVAILABLE``.
    :ivar step: when it happens: ``before`` any effect, ``between`` two effects of the call, or ``after`` success.
    :ivar kill: terminate the process with ``SIGKILL`` at this step instead.
    :ivar count: number of calls that are affected; -1 for all.
    :ivar path: path that a driver with wrong paths uses instead of the requested one.
    :ivar symlink: target of a symbolic link that the driver creates in place of a mount.
    :ivar padding: bytes by which an error message or a response is too large.
    """

    delay: float = 0
    code: str = ""
    step: str = "before"
    kill: bool = False
    count: int = -1
    path: str = ""
    symlink: str = ""
    padding: int = 0
    message: str = "injected fault"


class Faults:
    """The faults by method, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, method: str, **fields: Any) -> None:
        """Set the fault of *method*."""
        self._write({**self._read(), method: asdict(Fault(**fields))})

    def clear(self, method: str = "") -> None:
        """Remove the fault of *method*, or all."""
        faults = self._read()
        self._write({name: fault for name, fault in faults.items() if method and name != method})

    def of(self, method: str) -> Fault | None:
        """Return the fault that affects this call of *method*, which counts."""
        faults = self._read()
        if method not in faults:
            return None
        fault = Fault(**faults[method])
        if fault.count == 0:
            return None
        if fault.count > 0:
            fault.count -= 1
            self._write({**faults, method: asdict(fault)})
        return fault

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}

    def _write(self, faults: dict[str, Any]) -> None:
        aside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        aside.write_text(json.dumps(faults))
        aside.replace(self._file)


class Injection:
    """The faults of one call; the service reports each step.

    :param fault: ``None`` without a fault.
    """

    def __init__(self, fault: Fault | None, context: grpc.aio.ServicerContext) -> None:
        self.fault, self._context = fault, context

    async def step(self, step: str) -> None:
        """Fail at this step if the fault requires it."""
        fault = self.fault
        if fault is None:
            return
        if step == "before" and fault.delay:
            await asyncio.sleep(fault.delay)
        if step != fault.step:
            return
        if fault.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.code:
            await self._context.abort(grpc.StatusCode[fault.code], fault.message + "x" * fault.padding)
