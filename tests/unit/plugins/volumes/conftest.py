"""Fixtures: volume plugins and manager in a temporary directory, with fake mounts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock, FakeObjects, FakeRecorder, make_container, make_context, make_pod
from nodeagent_plugins.volumes.content import content_kinds
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.host_path import HostPath
from nodeagent_plugins.volumes.manager import Manager

ROOT_MODES = {"tmpfs": 0o1777, "hugetlbfs": 0o755}
"""Mode of the root directory of a new file system."""


class FakeMounter:
    """Records mounts; the target gets the mode of the file system's root and keeps its content."""

    def __init__(self) -> None:
        self.mounts: dict[Path, tuple[str, str]] = {}
        self.busy: set[Path] = set()
        self.fails: OSError | None = None

    def mount(self, kind: str, target: Path, options: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.mounts[target] = (kind, options)
        target.chmod(ROOT_MODES[kind])

    def bind(self, source: Path, target: Path) -> None:
        self.mounts[target] = ("bind", str(source))

    def unmount(self, target: Path) -> None:
        if target in self.busy or any(target in path.parents for path in list(self.mounts)):
            raise OSError(16, os.strerror(16), str(target))
        self.mounts.pop(target, None)

    def mounted(self, target: Path) -> bool:
        return target in self.mounts

    def below(self, directory: Path) -> list[Path]:
        found = [path for path in list(self.mounts) if path.is_relative_to(directory)]  # Several threads unmount.
        return sorted(found, key=lambda path: -len(path.parts))


def pod_with(*volumes: dict[str, Any], name: str = "web", **fields: Any) -> Pod:
    """Return a pod whose only container mounts every volume."""
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    return make_pod(name, containers=[make_container("main", volume_mounts=mounts)], volumes=list(volumes), **fields)


def tree(directory: Path) -> dict[str, str]:
    """Return the user-visible names with their content, without those of the writer."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not str(path.relative_to(directory)).startswith("..")
    } | {
        f"{link.name}/{path.relative_to(link)}": path.read_text()
        for link in sorted(directory.iterdir())
        if link.is_symlink() and link.is_dir() and not link.name.startswith("..")
        for path in sorted(link.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def objects(clock: FakeClock) -> FakeObjects:
    return FakeObjects(clock)


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


@pytest.fixture
def mounter() -> FakeMounter:
    return FakeMounter()


@pytest.fixture
def node() -> dict[str, Any]:
    """Return the node object, for tests to fill."""
    return {}


@pytest.fixture
def context(
    tmp_path: Path, clock: FakeClock, objects: FakeObjects, recorder: FakeRecorder, node: dict[str, Any]
) -> AgentContext:
    return make_context(tmp_path, clock=clock, objects=objects, recorder=recorder, node=node)


@pytest.fixture
def manager(context: AgentContext, mounter: FakeMounter) -> Manager:
    return new_manager(context, mounter)


def new_manager(context: AgentContext, mounter: FakeMounter) -> Manager:
    """Return a manager as created after a restart of the agent."""
    return Manager(context, [EmptyDir(context, mounter), HostPath(), *content_kinds(context, mounter)], mounter)
