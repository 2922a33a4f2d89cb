"""Tests for cgroup names of both drivers."""

from __future__ import annotations

import pytest

from nodeagent.model.qos import QosClass
from nodeagent.testing import load_plugin, make_config, make_container, make_context, make_pod
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.names import Driver, parse_slice, pod_name, pod_uid, slice_name, slice_path

FULL = {"limits": {"cpu": 1, "memory": "1Mi"}}
BURSTABLE = {"requests": {"cpu": 1}}


def manager(tmp_path, **config):
    context = make_context(tmp_path, config=make_config(**config))
    return load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)


def pod(resources):
    return make_pod(uid="1-2", containers=[make_container(resources=resources)])


@pytest.mark.parametrize(
    ("driver", "root", "resources", "parent"),
    [
        ("cgroupfs", "", FULL, "/kubepods/pod1-2"),
        ("cgroupfs", "/", BURSTABLE, "/kubepods/burstable/pod1-2"),
        ("cgroupfs", "/a/b", {}, "/a/b/kubepods/besteffort/pod1-2"),
        ("systemd", "", FULL, "kubepods-pod1_2.slice"),
        ("systemd", "", BURSTABLE, "kubepods-burstable-pod1_2.slice"),
        ("systemd", "/a-x/b", {}, "a_x-b-kubepods-besteffort-pod1_2.slice"),
    ],
)
def test_cgroup_parent_of_a_pod(tmp_path, driver, root, resources, parent):
    assert manager(tmp_path, cgroup_driver=driver, cgroup_root=root).parent_of(pod(resources)) == parent


@pytest.mark.parametrize(
    ("driver", "root", "parent"),
    [("cgroupfs", "", ""), ("cgroupfs", "/a/b", "/a/b"), ("systemd", "/a/b", "a-b.slice"), ("systemd", "", "")],
)
def test_without_qos_classes_pods_are_below_the_root(tmp_path, driver, root, parent):
    made = manager(tmp_path, cgroup_driver=driver, cgroup_root=root, cgroups_per_qos=False)
    assert made.parent_of(pod(FULL)) == parent


def test_slice_path_repeats_each_prefix():
    name = pod_name(("a", "b"), QosClass.BURSTABLE, "1-2")
    assert slice_name(name) == "a-b-kubepods-burstable-pod1_2.slice"
    assert slice_path(name) == (
        "a.slice",
        "a-b.slice",
        "a-b-kubepods.slice",
        "a-b-kubepods-burstable.slice",
        "a-b-kubepods-burstable-pod1_2.slice",
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/system.slice", ("system",)),
        ("/a.slice/a-b_c.slice", ("a", "b-c")),
        ("/a-b.slice", ("a", "b")),
        ("/a/b", ("a", "b")),
        ("/", ()),
    ],
)
def test_slices_are_parsed(path, name):
    assert parse_slice(path) == name


@pytest.mark.parametrize(
    ("driver", "directory", "uid"),
    [
        (Driver.CGROUPFS, "pod1-2", "1-2"),
        (Driver.CGROUPFS, "burstable", None),
        (Driver.SYSTEMD, "kubepods-pod1_2.slice", "1-2"),
        (Driver.SYSTEMD, "kubepods-burstable.slice", None),
    ],
)
def test_pod_uid_of_a_directory(driver, directory, uid):
    assert pod_uid(directory, ("kubepods",), driver) == uid
