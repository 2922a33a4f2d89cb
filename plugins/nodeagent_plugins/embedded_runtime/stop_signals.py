"""Stop signals: of the container configuration, of images, and as numbers. No I/O."""

from __future__ import annotations

import re
import signal
from typing import cast

from nodeagent.base.criproto import api_pb2 as cri

DEFAULT = "SIGTERM"
_REAL_TIME = re.compile(r"SIGRT(MIN|MAX)(?:([+-])(\d{1,2}))?")
_ALIASES = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}


def stop_signal_of(config: cri.ContainerConfig, image_signal: str) -> str:
    """Return the name of the stop signal: that of *config* if it is set, else that of the image, else SIGTERM."""
    if config.stop_signal != cri.RUNTIME_DEFAULT:
        return cri.Signal.Name(config.stop_signal).replace("PLUS", "+").replace("MINUS", "-")
    return image_signal or DEFAULT


def signal_number(name: str) -> int:
    """Return the number of a signal such as ``SIGTERM``, ``TERM``, ``15`` or ``SIGRTMIN+3``; SIGTERM if invalid."""
    if name.isdecimal():
        return int(name)
    full = _full_name(name)
    if (real_time := _REAL_TIME.fullmatch(full)) is not None:
        base = signal.SIGRTMIN if real_time[1] == "MIN" else signal.SIGRTMAX
        number = int(base) + int(f"{real_time[2] or '+'}{real_time[3] or 0}")
        return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else int(signal.SIGTERM)
    return int(getattr(signal, _ALIASES.get(full, full), signal.SIGTERM))


def cri_signal(name: str) -> cri.Signal:
    """Return the signal in the messages of CRI; the default for one that CRI cannot name."""
    if name.isdecimal():
        try:
            full = signal.Signals(int(name)).name
        except ValueError:
            return cri.RUNTIME_DEFAULT
    else:
        full = _full_name(name).replace("+", "PLUS").replace("-", "MINUS")
    known = full in cri.Signal.keys()  # noqa: SIM118 - not a mapping
    return cast("cri.Signal", cri.Signal.Value(full)) if known else cri.RUNTIME_DEFAULT


def _full_name(name: str) -> str:
    upper = name.upper()
    return upper if upper.startswith("SIG") else f"SIG{upper}"
