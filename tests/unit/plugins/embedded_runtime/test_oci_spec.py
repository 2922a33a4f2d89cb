"""Tests for the conversion to OCI configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.oci_spec import (
    ContainerEnvironment,
    compute_args,
    compute_environment,
    compute_resources,
    make_spec,
)
from nodeagent_plugins.embedded_runtime.users import User

HOST = Host(frozenset(NAMES), remapped=False, cgroup_version=1, oom_score_adj=-1000)
DEFAULTS = ContainerEnvironment(HOST, User(), hostname="web", namespaces={"mount": "", "network": "/proc/9/ns/net"})


def container(**fields):
    return cri.ContainerConfig(**{"command": ["run"], **fields})


def mount_at(spec, path):
    return next((mount for mount in spec["mounts"] if mount["destination"] == path), None)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ([], [], ["entry", "default"]),
        ([], ["mine"], ["entry", "mine"]),
        (["run"], [], ["run"]),
        (["run"], ["mine"], ["run", "mine"]),
    ],
)
def test_command_and_arguments_override_those_of_the_image(command, args, expected):
    image = {"Entrypoint": ["entry"], "Cmd": ["default"]}

    assert compute_args(cri.ContainerConfig(command=command, args=args), image) == expected


def test_missing_command_is_rejected():
    with pytest.raises(InvalidArgument, match="specifies a command"):
        compute_args(cri.ContainerConfig(), {"Cmd": None})


def test_environment_of_the_container_overrides_the_image():
    base = replace(DEFAULTS, image_config={"Env": ["A=image", "B=image"]})
    config = container(envs=[cri.KeyValue(key="B", value="pod"), cri.KeyValue(key="HOSTNAME", value="x")])

    environment = dict(entry.split("=", 1) for entry in compute_environment(config, base))

    assert (environment["A"], environment["B"], environment["HOSTNAME"]) == ("image", "pod", "x")
    assert environment["PATH"]


def test_zero_limit_is_omitted():
    requested = cri.LinuxContainerResources(cpu_shares=2, memory_limit_in_bytes=0, unified={"memory.high": "1"})

    assert compute_resources(requested, 1) == {"cpu": {"shares": 2}}
    assert compute_resources(requested, 2) == {"cpu": {"shares": 2}, "unified": {"memory.high": "1"}}


def test_namespaces_with_a_path_are_joined_and_others_created():
    found = {n["type"]: n.get("path") for n in make_spec(container(), DEFAULTS)["linux"]["namespaces"]}

    assert found == {"mount": None, "network": "/proc/9/ns/net"}


def test_sysfs_and_masked_paths_are_protected_unless_privileged():
    plain, privileged = (
        make_spec(container(linux={"security_context": {"privileged": trusted, "masked_paths": ["/proc/x"]}}), DEFAULTS)
        for trusted in (False, True)
    )

    assert "ro" in mount_at(plain, "/sys")["options"]
    assert plain["linux"]["maskedPaths"] == ["/proc/x"]
    assert "ro" not in mount_at(privileged, "/sys")["options"]
    assert "maskedPaths" not in privileged["linux"]
    assert len(privileged["process"]["capabilities"]["effective"]) == len(NAMES)


def test_non_root_user_has_only_bounding_capabilities():
    capabilities = make_spec(container(), replace(DEFAULTS, user=User(1000, 1000)))["process"]["capabilities"]

    assert capabilities["effective"] == []
    assert "CAP_CHOWN" in capabilities["bounding"]


def test_mount_of_the_container_replaces_that_of_the_sandbox():
    base = replace(DEFAULTS, files={"/etc/hosts": "/sandbox/hosts", "/etc/resolv.conf": "/sandbox/resolv.conf"})
    config = container(mounts=[cri.Mount(container_path="/etc/hosts", host_path="/pod/hosts", readonly=True)])

    spec = make_spec(config, base)

    hosts = [mount for mount in spec["mounts"] if mount["destination"] == "/etc/hosts"]
    assert [mount["source"] for mount in hosts] == ["/pod/hosts"]
    assert "ro" in hosts[0]["options"]
    assert mount_at(spec, "/etc/resolv.conf")["source"] == "/sandbox/resolv.conf"


def test_mount_propagation_is_set_for_the_root_filesystem():
    config = container(
        mounts=[cri.Mount(container_path="/a", host_path="/a", propagation=cri.PROPAGATION_BIDIRECTIONAL)]
    )

    spec = make_spec(config, DEFAULTS)

    assert spec["linux"]["rootfsPropagation"] == "rshared"
    assert "rshared" in mount_at(spec, "/a")["options"]


def test_oom_score_is_limited_to_that_of_the_runtime():
    host = replace(HOST, oom_score_adj=100)
    config = container(linux={"resources": {"oom_score_adj": -900}})

    assert make_spec(config, DEFAULTS)["process"]["oomScoreAdj"] == -900
    assert make_spec(config, replace(DEFAULTS, host=host))["process"]["oomScoreAdj"] == 100


def test_limits_are_omitted_without_cgroups():
    host = replace(HOST, cgroup_version=0, remapped=True)
    config = container(linux={"resources": {"memory_limit_in_bytes": 1 << 20}})

    spec = make_spec(config, replace(DEFAULTS, host=host))

    assert spec["linux"]["resources"] == {}
    assert mount_at(spec, "/sys/fs/cgroup") is None


def test_device_is_added_with_its_permissions():
    config = container(devices=[cri.Device(container_path="/dev/nothing", host_path="/dev/null", permissions="r")])

    spec = make_spec(config, DEFAULTS)

    (device,) = spec["linux"]["devices"]
    assert (device["path"], device["type"], device["major"], device["minor"]) == ("/dev/nothing", "c", 1, 3)
    assert spec["linux"]["resources"]["devices"][-1] == {
        "allow": True,
        "type": "c",
        "major": 1,
        "minor": 3,
        "access": "r",
    }


def test_file_that_is_not_a_device_is_rejected():
    for path, rule in (("/no/such", "No such file"), ("/etc/passwd", "not a device")):
        with pytest.raises(InvalidArgument, match=rule):
            make_spec(container(devices=[cri.Device(container_path="/d", host_path=path)]), DEFAULTS)


def test_apparmor_profile_applies_to_the_process():
    confined = make_spec(container(), replace(DEFAULTS, apparmor="web"))

    assert confined["process"]["apparmorProfile"] == "web"
    assert "apparmorProfile" not in make_spec(container(), DEFAULTS)["process"]


def test_variables_of_a_container_are_absent_from_others_of_its_image():
    base = replace(DEFAULTS, image_config={"Env": ["A=image"]})

    with_secret = compute_environment(container(envs=[cri.KeyValue(key="PASSWORD", value="secret")]), base)
    other = compute_environment(container(), base)

    assert "PASSWORD=secret" in with_secret
    assert not [entry for entry in other if entry.startswith("PASSWORD")]
    assert base.image_config == {"Env": ["A=image"]}


def test_volumes_of_the_image_configuration_are_not_mounted():
    volumes = {"/data": {}, "/../../../../etc": {}, "/etc/shadow": {}}

    spec = make_spec(container(), replace(DEFAULTS, image_config={"Volumes": volumes}))

    assert spec["mounts"] == make_spec(container(), DEFAULTS)["mounts"]


def test_cgroups_are_read_only_unless_privileged():
    plain, privileged = (
        make_spec(container(linux={"security_context": {"privileged": trusted}}), DEFAULTS) for trusted in (False, True)
    )

    assert "ro" in mount_at(plain, "/sys/fs/cgroup")["options"]
    assert "ro" not in mount_at(privileged, "/sys/fs/cgroup")["options"]


def test_process_has_no_inheritable_and_ambient_capabilities():
    for user in (User(), User(1000, 1000)):
        capabilities = make_spec(container(), replace(DEFAULTS, user=user))["process"]["capabilities"]
        assert not capabilities.get("inheritable") and not capabilities.get("ambient")


@pytest.mark.parametrize(
    ("config", "image", "expected"),
    [("/work", "/image", "/work"), ("", "/image", "/image"), ("", None, "/")],
)
def test_working_directory_defaults_to_that_of_the_image(config, image, expected):
    base = replace(DEFAULTS, image_config={"WorkingDir": image})

    assert make_spec(container(working_dir=config), base)["process"]["cwd"] == expected


def test_seccomp_profile_is_part_of_the_configuration():
    assert make_spec(container(), replace(DEFAULTS, seccomp={"syscalls": []}))["linux"]["seccomp"] == {"syscalls": []}
    assert "seccomp" not in make_spec(container(), DEFAULTS)["linux"]


@pytest.mark.parametrize(
    ("propagation", "expected"),
    [(cri.PROPAGATION_PRIVATE, None), (cri.PROPAGATION_HOST_TO_CONTAINER, "rslave")],
)
def test_root_filesystem_receives_mounts_of_the_host_on_request(propagation, expected):
    config = container(mounts=[cri.Mount(container_path="/a", host_path="/a", propagation=propagation)])

    assert make_spec(config, DEFAULTS)["linux"].get("rootfsPropagation") == expected


@pytest.mark.parametrize(
    ("hostname", "namespaces", "expected"),
    [("web", {"uts": ""}, "web"), ("web", {"uts": "/proc/9/ns/uts"}, None), ("web", {}, None), ("", {"uts": ""}, None)],
)
def test_hostname_is_set_in_a_new_namespace(hostname, namespaces, expected):
    base = replace(DEFAULTS, hostname=hostname, namespaces=namespaces)

    assert make_spec(container(), base).get("hostname") == expected


@pytest.mark.parametrize(
    ("remapped", "namespaces", "kind"),
    [(True, {}, "none"), (True, {"network": ""}, "sysfs"), (False, {}, "sysfs")],
)
def test_sysfs_of_the_host_is_used_without_a_network_namespace(remapped, namespaces, kind):
    base = replace(DEFAULTS, host=replace(HOST, remapped=remapped), namespaces=namespaces)

    spec = make_spec(container(), base)

    assert mount_at(spec, "/sys")["type"] == kind
    assert (mount_at(spec, "/sys/fs/cgroup") is None) == (kind == "none")


@pytest.mark.parametrize(("readonly", "read_only"), [(True, ["/etc/hosts"]), (False, [])])
def test_files_of_the_sandbox_are_read_only_with_the_root(readonly, read_only):
    base = replace(DEFAULTS, files={"/etc/hosts": "/sandbox/hosts", "/dev/shm": "/dev/shm"})

    spec = make_spec(container(linux={"security_context": {"readonly_rootfs": readonly}}), base)

    assert [path for path in base.files if "ro" in mount_at(spec, path)["options"]] == read_only
