"""Fakes of the kernel's cgroup file system, made of plain files, and of systemd."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.context import AgentContext
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.machine import Machine

MI = 1024**2
GI = 1024**3
MACHINE = Machine(cores=4, memory=8 * GI, swap=4 * GI, pids=30_000, hugepages={2 * MI: 64 * MI})

_V1_FILES = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
    "cpuacct": {},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {"memory.limit_in_bytes": "-1", "memory.usage_in_bytes": "0", "memory.memsw.limit_in_bytes": "-1"},
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": "-1"},
    "name=systemd": {},
}
_V2_FILES = {
    "cpu": {"cpu.weight": "100", "cpu.max": "max 100000"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {
        "memory.max": "max",
        "memory.min": "0",
        "memory.low": "0",
        "memory.high": "max",
        "memory.current": "0",
        "memory.swap.max": "max",
    },
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.max": "max"},
}


class FakeKernel:
    """Creates the files of each new cgroup, as a kernel does for version 1 or 2."""

    def __init__(self, path: Path, version: int) -> None:
        self.path, self.version = path, version
        self.mountinfo = path / "mountinfo"
        lines = []
        if version == 1:
            for controller in _V1_FILES:
                mount = self._mount(controller)
                mount.mkdir(parents=True)
                self.fill(mount)
                lines.append(f"1 1 0:1 / {mount} rw - cgroup cgroup rw,{controller}\n")
            (self._mount("cpuset") / "cpuset.cpus").write_text("0-3\n")
            (self._mount("cpuset") / "cpuset.mems").write_text("0\n")
        else:
            mount = self._mount("")
            mount.mkdir()
            (mount / "cgroup.controllers").write_text(" ".join([*_V2_FILES, "io"]))
            (mount / "cgroup.subtree_control").write_text("")
            (mount / "cgroup.procs").write_text("")
            lines.append(f"1 1 0:1 / {mount} rw - cgroup2 cgroup2 rw\n")
        self.mountinfo.write_text("".join(lines))

    def owns(self, path: Path) -> bool:
        return path.is_relative_to(self.path / "cgroup")

    def directories(self, name: str) -> list[Path]:
        controllers = _V1_FILES if self.version == 1 else [""]
        return [self._mount(controller) / name.strip("/") for controller in controllers]

    def make(self, name: str) -> None:
        """Create a cgroup as an external process does."""
        for path in self.directories(name):
            for above in reversed([path, *path.parents]):
                if self.owns(above) and not above.exists():
                    above.mkdir()

    def exists(self, name: str) -> bool:
        found = {path.is_dir() for path in self.directories(name)}
        assert len(found) == 1, "a cgroup exists in part"
        return found.pop()

    def file(self, name: str, file: str) -> Path:
        controller = next((c for c, files in _V1_FILES.items() if file in files), "") if self.version == 1 else ""
        return self._mount(controller) / name.strip("/") / file

    def read(self, name: str, file: str) -> str:
        return self.file(name, file).read_text().strip()

    def processes(self, name: str) -> list[set[int]]:
        return [{int(pid) for pid in (d / "cgroup.procs").read_text().split()} for d in self.directories(name)]

    def fill(self, path: Path) -> None:
        (path / "cgroup.procs").write_text("")
        if self.version == 1:
            files = _V1_FILES[path.relative_to(self.path / "cgroup").parts[0]]
        else:
            on = (path.parent / "cgroup.subtree_control").read_text().split()
            (path / "cgroup.controllers").write_text(" ".join(on))
            (path / "cgroup.subtree_control").write_text("")
            files = {file: value for controller in on for file, value in _V2_FILES.get(controller, {}).items()}
        for file, value in files.items():
            (path / file).write_text(value)

    def hand_down(self, control: Path, desired: str) -> None:
        """Create the files of the controllers that are enabled for children."""
        on = {*control.read_text().split(), *desired.replace("+", "").split()}
        _WRITE(control, " ".join(sorted(on)))
        for child in control.parent.iterdir():
            if child.is_dir():
                _WRITE(child / "cgroup.controllers", " ".join(sorted(on)))
                files = {file: value for name in on for file, value in _V2_FILES.get(name, {}).items()}
                for file, value in files.items():
                    if not (child / file).exists():
                        _WRITE(child / file, value)

    def move(self, procs: Path, pid: str) -> None:
        """Move a process to the cgroup of *procs*, and out of every other cgroup of that hierarchy."""
        root = self._mount(procs.relative_to(self.path / "cgroup").parts[0])
        for other in root.rglob("cgroup.procs"):
            left = [line for line in other.read_text().split() if line != pid]
            _WRITE(other, "\n".join([*left, pid] if other == procs else left))

    def _mount(self, controller: str) -> Path:
        return self.path / "cgroup" / controller if self.version == 1 else self.path / "cgroup"


_WRITE = Path.write_text


def _installed(kernel_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    kernel = FakeKernel(kernel_path, version)
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def make(self: Path, *args: Any, **kwargs: Any) -> None:
        new = not self.exists()
        mkdir(self, *args, **kwargs)
        if new and kernel.owns(self):
            kernel.fill(self)

    def remove(self: Path) -> None:
        if kernel.owns(self):
            if (self / "cgroup.procs").read_text().strip():
                raise OSError(errno.EBUSY, "Device or resource busy")
            for file in self.iterdir():
                if file.is_file():
                    file.unlink()
        rmdir(self)

    def write(self: Path, data: str, *args: Any, **kwargs: Any) -> int:
        if self.name == "cgroup.procs" and kernel.owns(self) and data:
            kernel.move(self, data)
            return len(data)
        if self.name == "cgroup.subtree_control" and kernel.owns(self) and data:
            kernel.hand_down(self, data)
            return len(data)
        return _WRITE(self, data, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(Path, "rmdir", remove)
    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr(cgroups, "_MOUNTINFO", kernel.mountinfo)
    monkeypatch.setattr(cgroups, "read_machine", lambda: MACHINE)
    return kernel


@pytest.fixture
def kernel_path(tmp_path: Path) -> Path:
    path = tmp_path / "kernel"
    (path / "cgroup").parent.mkdir(parents=True)
    return path


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(kernel_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    return _installed(kernel_path, request.param, monkeypatch)


@pytest.fixture
def kernel_v1(kernel_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    return _installed(kernel_path, 1, monkeypatch)


@pytest.fixture
def kernel_v2(kernel_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    return _installed(kernel_path, 2, monkeypatch)


class FakeSystemd:
    """Creates and removes the directories of slices, and records their properties."""

    def __init__(self) -> None:
        self.kernel: FakeKernel | None = None
        self.units: dict[str, dict[str, object]] = {}
        self.stopped: list[str] = []

    async def start_slice(self, unit: str, properties: Any) -> None:
        known = unit in self.units
        self.units.setdefault(unit, {}).update({name: value for name, _, value in properties})
        if not known and self.kernel is not None:
            parts = unit.removesuffix(".slice").split("-")
            self.kernel.make("/".join("-".join(parts[: i + 1]) + ".slice" for i in range(len(parts))))

    async def set_properties(self, unit: str, properties: Any) -> None:
        self.units[unit].update({name: value for name, _, value in properties})

    async def stop(self, unit: str) -> None:
        self.units.pop(unit, None)
        self.stopped.append(unit)

    async def close(self) -> None:
        return None


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    fake = FakeSystemd()
    monkeypatch.setattr(cgroups, "SystemdBus", lambda: fake)
    monkeypatch.setattr(cgroups, "_SYSTEMD", tmp_path)
    return fake


MakeAgent = Callable[..., tuple[AgentContext, Any]]


@pytest.fixture
def agent(tmp_path: Path) -> MakeAgent:
    """Return a function that creates a context and the plugin's manager for a configuration."""

    def make(
        *, settings: dict[str, Any] | None = None, release: SelectedRelease | None = None, **config: Any
    ) -> tuple[AgentContext, Any]:
        selected = release or SelectedRelease()
        gates = build_gates(config.get("feature_gates", {}), selected.release)
        context = make_context(tmp_path / "agent", config=make_config(**config), release=selected, gates=gates)
        context.settings = replace(context.settings, **(settings or {}))
        context.cgroups = load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)
        return context, context.cgroups

    return make
