"""Host identity and system information, read from the file system."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.structs import Struct

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class Machine(Struct, frozen=True):
    """Description of the host; unknown fields are empty."""

    machine_id: str
    system_uuid: str
    boot_id: str
    kernel: str
    os_image: str
    architecture: str
    apparmor: bool
    """True if the kernel enforces AppArmor profiles."""


def read_machine(root: Path = Path("/")) -> Machine:
    """Read the files below *root*. Blocking."""
    machine_id = _first_line(root / "etc/machine-id") or _first_line(root / "var/lib/dbus/machine-id")
    return Machine(
        machine_id=machine_id,
        system_uuid=_first_line(root / "sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_first_line(root / "proc/sys/kernel/random/boot_id"),
        kernel=_first_line(root / "proc/sys/kernel/osrelease"),
        os_image=_os_image(root / "etc/os-release") or _os_image(root / "usr/lib/os-release") or "Linux",
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        apparmor=_first_line(root / "sys/module/apparmor/parameters/enabled") == "Y",
    )


def swap_capacity_bytes(root: Path = Path("/")) -> int:
    """Return the capacity of all swap areas, from a file below *root*; 0 without swap."""
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("SwapTotal:")), 0)


def online_cpus(root: Path = Path("/")) -> frozenset[int]:
    """Return the IDs of the online CPUs, from a file below *root*."""
    try:
        return parse_cpu_list(_first_line(root / "sys/devices/system/cpu/online")) or frozenset(
            range(os.cpu_count() or 1)
        )
    except ValueError:
        return frozenset(range(os.cpu_count() or 1))


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(256).strip()
    except OSError:  # In a container, any of these files may be missing.
        return ""


def _os_image(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace")[:65536].splitlines()
    except OSError:
        return ""
    return next((line[12:].strip().strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")), "")
