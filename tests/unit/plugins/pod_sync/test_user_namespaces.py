"""Tests for the assignment of user and group IDs to pods with a user namespace."""

from __future__ import annotations

import json
import subprocess

import pytest

from nodeagent.contracts.configuration import UserNamespaces
from nodeagent.errors import ConfigError, NodeAgentError
from nodeagent.testing import make_config, make_pod
from nodeagent_plugins.pod_sync import subordinate_ids
from nodeagent_plugins.pod_sync.subordinate_ids import IdRange, parse_range
from nodeagent_plugins.pod_sync.user_namespaces import IdPool, PodUserNamespaces, id_pool

POOL = IdPool(65536, 4 * 65536, 65536)


def mapping(host_id, length=65536, container_id=0):
    return {"hostId": host_id, "containerId": container_id, "length": length}


def store(pods, uid, users, groups=None):
    (pods / uid).mkdir(parents=True)
    content = {"uidMappings": users, "gidMappings": users if groups is None else groups}
    (pods / uid / "userns").write_text(json.dumps(content))


async def starts_of(namespaces, *names):
    found = [await namespaces.of(make_pod(name, uid=name, host_users=False)) for name in names]
    return [namespace.uids[0].host_id // 65536 for namespace in found]


async def test_lowest_free_range_is_assigned_once(tmp_path):
    namespaces = PodUserNamespaces(tmp_path, POOL)

    first = await starts_of(namespaces, "a", "b", "a")
    await namespaces.release("a")

    assert first == [1, 2, 1]
    assert await starts_of(namespaces, "c") == [1]


async def test_exhausted_ranges_are_an_error(tmp_path):
    namespaces = PodUserNamespaces(tmp_path, POOL)
    await starts_of(namespaces, "a", "b", "c")

    with pytest.raises(NodeAgentError, match="all ranges"):
        await starts_of(namespaces, "d")


async def test_range_is_stored_in_the_format_of_the_kubelet(tmp_path):
    await starts_of(PodUserNamespaces(tmp_path, POOL), "a")

    content = json.loads((tmp_path / "a" / "userns").read_text())
    assert content == {"uidMappings": [mapping(65536)], "gidMappings": [mapping(65536)]}


async def test_stored_ranges_are_used_after_a_restart(tmp_path):
    store(tmp_path, "a", [mapping(2 * 65536)])

    assert await starts_of(PodUserNamespaces(tmp_path, POOL), "b", "a", "c") == [1, 2, 3]


@pytest.mark.parametrize(
    ("users", "groups"),
    [
        ([], None),
        ([mapping(65536), mapping(131072)], None),
        ([mapping(65536)], [mapping(131072)]),
        ([mapping(65537)], None),
        ([mapping(0)], None),
        ([mapping(65536, container_id=1)], None),
        ([mapping(65536, length=1000)], None),
        ([mapping(1 << 31)], None),
    ],
)
def test_invalid_stored_range_fails_the_start(tmp_path, users, groups):
    store(tmp_path, "a", users, groups)

    with pytest.raises(ConfigError, match="invalid user namespace of a pod"):
        PodUserNamespaces(tmp_path, POOL)


def test_range_of_two_pods_fails_the_start(tmp_path):
    for uid in "ab":
        store(tmp_path, uid, [mapping(65536)])

    with pytest.raises(ConfigError, match="another pod has the same range"):
        PodUserNamespaces(tmp_path, POOL)


def test_default_pool_has_all_ids_after_the_first_range():
    assert id_pool(make_config(), None) == IdPool(65536, 1 << 32, 65536)


def test_pods_get_the_configured_number_of_ids():
    config = make_config(user_namespaces=UserNamespaces(ids_per_pod=131072))

    assert id_pool(config, None) == IdPool(131072, 1 << 32, 131072)


def test_pool_of_the_host_is_used():
    assert id_pool(make_config(max_pods=2), IdRange(131072, 131072)) == IdPool(131072, 262144, 65536)


@pytest.mark.parametrize(
    ("first", "count", "problem"),
    [
        (0, 65536 * 110, "first ID 0 must be a multiple"),
        (65537, 65536 * 110, "first ID 65537 must be a multiple"),
        (65536, 65536 * 110 + 1, "must be a multiple of 65536"),
        (65536, 65536 * 109, "not enough for 110 pods"),
    ],
)
def test_unusable_pool_of_the_host_is_rejected(first, count, problem):
    with pytest.raises(ConfigError, match=problem):
        id_pool(make_config(max_pods=110), IdRange(first, count))


def test_output_of_getsubids_is_parsed():
    assert parse_range("0: kubelet 65536 7208960\n") == IdRange(65536, 7208960)


@pytest.mark.parametrize("output", ["", "0: other 1 2\n", "0: kubelet 1 2\n1: kubelet 3 4\n", "0: kubelet 1\n"])
def test_other_output_of_getsubids_is_rejected(output):
    with pytest.raises(ConfigError, match="expected one range of kubelet"):
        parse_range(output)


@pytest.mark.parametrize(
    ("start", "has"),
    [(65536, True), (3 * 65536, True), (4 * 65536, False), (0, False), (65536 + 1, False)],
)
def test_only_the_first_ids_of_ranges_are_used(start, has):
    assert POOL.has(start) is has


@pytest.mark.parametrize(
    ("command", "groups", "result"),
    [
        (None, "0: kubelet 65536 65536", None),
        ("/bin/getsubids", "0: kubelet 65536 65536", IdRange(65536, 65536)),
        ("/bin/getsubids", "0: kubelet 131072 65536", "differ"),
    ],
)
def test_ids_of_the_user_kubelet_are_read_with_the_command(monkeypatch, command, groups, result):
    def run(command, **_):
        text = groups if "-g" in command else "0: kubelet 65536 65536"
        return subprocess.CompletedProcess(command, 0, stdout=text)

    monkeypatch.setattr(subordinate_ids.shutil, "which", lambda _: command)
    monkeypatch.setattr(subordinate_ids.pwd, "getpwnam", lambda _: object())
    monkeypatch.setattr(subordinate_ids.subprocess, "run", run)

    if isinstance(result, str):
        with pytest.raises(ConfigError, match=result):
            subordinate_ids.read_subordinate_ids()
    else:
        assert subordinate_ids.read_subordinate_ids() == result
