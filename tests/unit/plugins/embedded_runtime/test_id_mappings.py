"""Tests for the mappings of user namespaces in the embedded runtime."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import id_mappings
from nodeagent_plugins.embedded_runtime.errors import CallError, InvalidArgument
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.id_mappings import find_problem, mappings_of, opened

MAPPING = cri.IDMapping(host_id=131072, container_id=0, length=65536)


def options(mode=cri.POD, uids=(MAPPING,), gids=(MAPPING,)):
    return cri.NamespaceOption(userns_options=cri.UserNamespace(mode=mode, uids=uids, gids=gids))


def test_mappings_are_passed_to_the_pause_process_and_the_oci_runtime():
    mappings = mappings_of(options())

    assert mappings.root == (131072, 131072)
    assert mappings.arguments() == ["uid_map=0 131072 65536", "gid_map=0 131072 65536"]
    entry = {"containerID": 0, "hostID": 131072, "size": 65536}
    assert mappings.spec() == {"uidMappings": [entry], "gidMappings": [entry]}


@pytest.mark.parametrize("given", [cri.NamespaceOption(), options(cri.NODE), options(uids=(), gids=())])
def test_pod_without_mappings_uses_the_user_namespace_of_the_node(given):
    assert mappings_of(given) is None


@pytest.mark.parametrize("groups", [(), (cri.IDMapping(host_id=1, container_id=1, length=1),)])
def test_namespace_without_root_is_rejected(groups):
    with pytest.raises(InvalidArgument):
        mappings_of(options(gids=groups))


def test_ids_without_mapping_belong_to_root():
    uids = (
        cri.IDMapping(host_id=1000, container_id=0, length=1),
        cri.IDMapping(host_id=5000, container_id=1, length=9),
    )
    mappings = mappings_of(options(uids=uids))

    assert [mappings.on_host(uid, 3) for uid in (0, 1, 9, 10)] == [
        (1000, 131075),
        (5000, 131075),
        (5008, 131075),
        (1000, 131075),
    ]


def test_namespace_of_the_node_has_no_descriptor(tmp_path):
    with opened("") as descriptor:
        assert descriptor == -1
    with opened(str(tmp_path)) as descriptor:
        assert os.readlink(f"/proc/self/fd/{descriptor}") == str(tmp_path)


HOST = Host(frozenset(), remapped=False, cgroup_version=2, oom_score_adj=0)


class Holder:
    """The process in the user namespace of the trial."""

    def __init__(self):
        self.pid, self.ended = os.getpid(), False

    async def end(self, grace_seconds):
        self.ended = True


@pytest.fixture
def trial(monkeypatch):
    """Replaced parts of the trial: the pause process and the root file systems."""
    parts = SimpleNamespace(output="7", holder=Holder(), closed=None, error=None, made=[], removed=[])

    async def run(helper, *arguments, attempt, timeout_seconds):
        if isinstance(parts.output, Exception):
            raise parts.output
        return parts.output

    def make(directory, layers, namespace, owner):
        parts.made.append((len(layers), namespace >= 0, owner))
        if parts.error is not None:
            raise parts.error

    monkeypatch.setattr(id_mappings.Process, "of", lambda pid: parts.holder if pid == 7 else None)
    monkeypatch.setattr(id_mappings, "find_closed", lambda root: parts.closed)
    parts.helpers = SimpleNamespace(run=run)
    parts.roots = SimpleNamespace(make=make, remove=parts.removed.append)
    return parts


async def test_host_whose_layers_can_be_mapped_has_no_problem(trial, tmp_path):
    assert await find_problem(tmp_path, HOST, trial.roots, trial.helpers) == ""
    assert trial.made == [(1, True, (65536, 65536))] and len(trial.removed) == 1
    assert trial.holder.ended and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", [replace(HOST, remapped=True), replace(HOST, chrooted=True)])
async def test_runtime_without_root_has_no_user_namespaces(trial, tmp_path, host):
    problem = await find_problem(tmp_path, host, trial.roots, trial.helpers)

    assert problem == "the runtime is not root, or in a chroot" and trial.made == []


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"closed": "/root"}, "directory /root is not accessible to other users, such as the mapped ones"),
        ({"output": CallError("no user namespaces")}, "no user namespaces"),
        ({"output": "nonsense"}, "invalid literal for int() with base 10: 'nonsense'"),
        ({"holder": None}, "the process in the user namespace exited"),
        ({"error": OSError("cannot be mapped")}, "cannot be mapped"),
    ],
)
async def test_failed_step_of_the_trial_is_the_problem(trial, tmp_path, parts, problem):
    vars(trial).update(parts)

    assert await find_problem(tmp_path, HOST, trial.roots, trial.helpers) == problem
    assert trial.holder is None or trial.holder.ended == (trial.error is not None)
    assert len(trial.removed) == len(trial.made)
