"""Tests for the checks of ``nodeagent doctor``."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent.base.tls import generate_ca, issue, valid_until
from nodeagent.contracts.api import NODES, ApiProbe
from nodeagent.contracts.checks import CheckInconclusive, Severity
from nodeagent.contracts.runtime import RuntimeCondition, RuntimeStatus, RuntimeVersion
from nodeagent.errors import ApiError, ApiUnavailable, ConfigError, Problem, RuntimeUnavailable
from nodeagent.testing import FakeApi, make_config, make_context
from nodeagent_plugins import node_checks
from nodeagent_plugins.node_checks import api_server, disks, files, kernel
from nodeagent_plugins.node_checks.runtime import RuntimeChecks, driver_of

PROBLEM, WARNING = Severity.PROBLEM, Severity.WARNING


def reported(findings):
    """Return severities and texts."""
    assert all(finding.remedy for finding in findings)
    return [(finding.severity, finding.text) for finding in findings]


def one(findings, severity, text):
    """Return whether there is one finding, with the given severity and text."""
    [(found, words)] = reported(findings)
    assert text in words
    return found is severity


# --- runtime --------------------------------------------------------------------------------------------------


class Runtime:
    """A runtime with responses set by the test."""

    def __init__(self):
        self.api_version, self.driver, self.setup, self.conditions, self.away = "v1", "", {}, [], False

    def _response(self, value):
        if self.away:
            raise RuntimeUnavailable("connection refused")
        return value

    async def version(self):
        return self._response(RuntimeVersion("containerd", "1.5", self.api_version))

    async def status(self):
        return self._response(RuntimeStatus(self.conditions))

    async def cgroup_driver(self):
        return self._response(self.driver)

    async def info(self):
        return self._response({"config": json.dumps(self.setup)})

    async def list_sandboxes(self, pod_uid=""):
        return self._response([SimpleNamespace(uid="alive")])


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def context(tmp_path, runtime):
    return make_context(tmp_path, runtime=runtime, config=make_config(cgroup_driver="cgroupfs"))


@pytest.fixture
def runtime_checks(context):
    return RuntimeChecks(context)


async def test_healthy_runtime_has_no_findings(runtime_checks):
    assert [await runtime_checks.available(), await runtime_checks.cgroup_driver(), await runtime_checks.network()] == [
        [],
        [],
        [],
    ]


async def test_unresponsive_runtime_is_reported_once(runtime_checks, runtime, context):
    runtime.away = True

    assert one(await runtime_checks.available(), PROBLEM, "does not respond: connection refused")
    for check in (runtime_checks.cgroup_driver, runtime_checks.network):
        with pytest.raises(CheckInconclusive):
            await check()


async def test_unsupported_runtime_version_is_reported(runtime_checks, runtime):
    runtime.api_version = "v1alpha2"

    assert one(
        await runtime_checks.available(), PROBLEM, "containerd 1.5 implements CRI v1alpha2; the agent requires v1"
    )


async def test_runtime_that_is_not_ready_is_reported(runtime_checks, runtime):
    runtime.conditions = [RuntimeCondition("RuntimeReady", False, "Broken", "no snapshotter")]

    assert one(await runtime_checks.available(), PROBLEM, "the runtime is not ready: Broken no snapshotter")


SETUP = {
    "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": True}}}},
    "cni": {"confDir": "/no/conf", "binDir": "/no/bin"},
}


@pytest.mark.parametrize(("driver", "setup"), [("systemd", {}), ("", SETUP)])
async def test_different_cgroup_driver_is_reported_from_either_source(runtime_checks, runtime, driver, setup):
    runtime.driver, runtime.setup = driver, setup

    assert one(
        await runtime_checks.cgroup_driver(), PROBLEM, "the agent uses cgroup driver cgroupfs, the runtime systemd"
    )


async def test_different_cgroup_driver_is_accepted_with_detection(tmp_path, runtime):
    runtime.driver = "systemd"
    gates = {"NodeAgentCgroupDriverFromCRI": True}
    config = make_config(cgroup_driver="cgroupfs", feature_gates=gates)

    assert await RuntimeChecks(make_context(tmp_path, runtime=runtime, config=config)).cgroup_driver() == []


@pytest.mark.parametrize(("options", "driver"), [({"SystemdCgroup": False}, "cgroupfs"), ({}, "")])
def test_cgroup_driver_is_optional_in_the_runtime_status(options, driver):
    setup = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": options}}}}

    assert driver_of(setup) == driver


async def test_missing_network_plugin_is_reported(runtime_checks, runtime):
    runtime.setup = SETUP
    runtime.conditions = [
        RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized")
    ]

    findings = await runtime_checks.network()

    assert one(findings, PROBLEM, "cni plugin not initialized; missing in /no/conf and /no/bin")


# --- kernel ---------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path):
    """Files of a healthy kernel."""
    root = tmp_path / "machine"
    put(root, "proc/swaps", "Filename Type\n")
    put(root, "proc/filesystems", "nodev\tsysfs\nnodev\toverlay\n\text4\n")
    put(root, "proc/sys/net/bridge/bridge-nf-call-iptables", "1\n")
    put(root, "proc/sys/net/ipv4/ip_forward", "1\n")
    put(root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    return root


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_healthy_kernel_has_no_findings(machine):
    assert (
        kernel.check_swap(machine, True)
        == kernel.check_kernel_features(machine)
        == kernel.check_cgroup_controllers(machine)
        == []
    )


@pytest.mark.parametrize(("fail_swap_on", "severity"), [(True, PROBLEM), (False, WARNING)])
def test_swap_is_reported(machine, fail_swap_on, severity):
    put(machine, "proc/swaps", "Filename Type\n/dev/sda2 partition 1024 0 -2\n")

    assert one(kernel.check_swap(machine, fail_swap_on), severity, "swap is on (/dev/sda2)")


@pytest.mark.parametrize(
    ("file", "text", "severity", "found"),
    [
        ("proc/filesystems", "ext4\n", PROBLEM, "no overlay file system"),
        ("proc/sys/net/ipv4/ip_forward", "0\n", PROBLEM, "ip_forward is off"),
        ("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n", WARNING, "bridge-nf-call-iptables is off"),
    ],
)
def test_missing_kernel_feature_is_reported(machine, file, text, severity, found):
    put(machine, file, text)

    assert one(kernel.check_kernel_features(machine), severity, found)


def test_missing_br_netfilter_is_reported(machine):
    (machine / "proc/sys/net/bridge/bridge-nf-call-iptables").unlink()

    assert one(kernel.check_kernel_features(machine), WARNING, "br_netfilter is not loaded")


def test_missing_cgroup_controllers_are_reported(machine):
    put(machine, "sys/fs/cgroup/cgroup.controllers", "cpu pids\n")
    put(machine, "proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t4\t1\t1\nmemory\t5\t1\t0\n")

    assert one(kernel.check_cgroup_controllers(machine), PROBLEM, "cgroup controllers are missing: memory")


# --- disks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "inodes", "severity", "text"),
    [
        ((100, 5), (100, 50), PROBLEM, "nodefs (/x): 5% free"),
        ((100, 12), (100, 50), WARNING, "nodefs (/x): 12% free"),
        ((100, 50), (100, 2), PROBLEM, "nodefs (/x) inodes: 2% free"),
        ((100, 50), (100, 7), WARNING, "nodefs (/x) inodes: 7% free"),
        ((100, 10), (100, 50), WARNING, "nodefs (/x): 10% free"),
        ((100, 15), (100, 50), None, ""),
        ((0, 0), (0, 0), None, ""),
    ],
)
def test_full_disk_is_reported(monkeypatch, blocks, inodes, severity, text):
    full = SimpleNamespace(f_blocks=blocks[0], f_bavail=blocks[1], f_files=inodes[0], f_favail=inodes[1])
    monkeypatch.setattr(
        disks, "os", SimpleNamespace(statvfs=lambda path: full, stat=lambda path: SimpleNamespace(st_dev=1))
    )

    findings = disks.check_disks({"nodefs": "/x", "imagefs": "/y"})

    assert one(findings, severity, text) if severity else findings == []


async def test_volumes_of_deleted_pods_are_reported(tmp_path, context):
    for uid, old in (("alive", True), ("gone", True), ("just-gone", False)):
        volume = tmp_path / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "v"
        volume.mkdir(parents=True)
        if old:
            os.utime(tmp_path / "pods" / uid, (1, 1))
    (tmp_path / "pods" / "empty").mkdir()

    check = {check.name: check for check in disks.checks(context)}["orphaned volumes"]

    [(severity, text)] = reported(await check.run())
    assert severity is WARNING
    assert text.startswith("orphaned volumes of 1 pod") and text.endswith("/pods/gone")


async def test_orphaned_volumes_are_unknown_without_a_runtime(context, runtime):
    runtime.away = True

    with pytest.raises(CheckInconclusive):
        await {check.name: check for check in disks.checks(context)}["orphaned volumes"].run()


async def test_orphaned_volumes_are_unknown_under_another_node_name(context):
    context.api = FakeApi()
    check = {check.name: check for check in disks.checks(context)}["orphaned volumes"]
    with pytest.raises(CheckInconclusive):
        await check.run()

    await context.api.create(NODES, {"metadata": {"name": context.node_name}})
    assert await check.run() == []


# --- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "widest", "severity"),
    [(0o644, files.SECRET, PROBLEM), (0o660, files.SECRET, PROBLEM), (0o666, files.PUBLIC, WARNING)],
)
def test_file_with_excessive_permissions_is_reported(tmp_path, monkeypatch, mode, widest, severity):
    path = put(tmp_path, "f", "")
    path.chmod(mode)
    monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(st_mode=mode, st_uid=0, st_gid=0))

    assert one(files.check_file_modes([("kubeconfig", path, widest)]), severity, f"has mode {mode:04o}")


def test_file_not_owned_by_root_is_reported(monkeypatch):
    monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(st_mode=0o600, st_uid=1000, st_gid=0))

    assert one(files.check_file_modes([("key", Path("/k"), files.SECRET)]), WARNING, "is owned by 1000:0, not by root")


def test_missing_file_is_reported():
    assert one(files.check_file_modes([("kubeconfig", Path("/no/where"), files.SECRET)]), PROBLEM, "No such file")


def test_checked_files_are_those_of_the_configuration(tmp_path, context):
    kubeconfig = put(
        tmp_path,
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: ca.crt}}]\n"
        "users: [{name: u, user: {client-certificate: u.crt, client-key: u.key}}]\n",
    )
    context.settings = SimpleNamespace(
        config="/etc/c.yaml", config_dir="", kubeconfig=str(kubeconfig), bootstrap_kubeconfig="", cert_dir=str(tmp_path)
    )
    put(tmp_path, "kubelet.key", "")

    found = {(what, path.name): mode for what, path, mode in files.files_of(context)}

    assert found == {
        ("configuration", "c.yaml"): 0o600,
        ("kubeconfig", "kubeconfig"): 0o600,
        ("client key", "u.key"): 0o600,
        ("CA certificate", "ca.crt"): 0o644,
        ("key", "kubelet.key"): 0o600,
    }


@pytest.fixture(scope="module")
def certificate():
    return issue(generate_ca("ca"), "node", days=365).certificate


@pytest.mark.parametrize(
    ("left", "severity", "text"),
    [
        (timedelta(days=-35), PROBLEM, "expired on"),
        (timedelta(0), PROBLEM, "expired on"),
        (timedelta(seconds=1), WARNING, "in 0 days"),
        (timedelta(days=14, hours=1), WARNING, "in 14 days"),
        (timedelta(days=30), None, ""),
    ],
)
def test_expiring_certificate_is_reported(certificate, left, severity, text):
    findings = files.check_certificates([("serving certificate /c", certificate)], valid_until(certificate) - left)

    assert (one(findings, severity, text)) if severity else findings == []


def test_invalid_certificate_is_reported():
    assert one(files.check_certificates([("it", b"nonsense")], datetime.now(UTC)), PROBLEM, "is invalid")


def test_certificates_of_configuration_and_kubeconfig_are_checked(tmp_path, context):
    data = base64.b64encode(b"inline").decode()
    config = put(
        tmp_path,
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://h', certificate-authority-data: {data}}}}}]\n"
        "users: [{name: u, user: {client-certificate: u.crt, client-key: u.key}}]\n",
    )
    put(tmp_path, "u.crt", "client")
    put(tmp_path, "certs/kubelet.crt", "serving")
    context.settings = SimpleNamespace(kubeconfig=str(config), cert_dir=str(tmp_path / "certs"))

    assert dict(files.certificates_of(context)) == {
        f"serving certificate {tmp_path}/certs/kubelet.crt": b"serving",
        f"client certificate of {tmp_path}/u.crt": b"client",
        f"CA certificate of {config}": b"inline",
    }
    context.config = make_config(tls_cert_file=str(put(tmp_path, "tls.crt", "own")))
    assert dict(files.certificates_of(context))[f"serving certificate {tmp_path}/tls.crt"] == b"own"
    assert len(dict(files.certificates_of(context))) == 3


# --- API server -----------------------------------------------------------------------------------------------


class Reviews(FakeApi):
    """Allows all requests except the denied ones."""

    denied: frozenset[str] = frozenset()
    node = ""
    error: ApiError | None = None

    async def create(self, resource, obj, *args, **kwargs):
        if self.error is not None:
            raise self.error
        requested = obj["spec"]["resourceAttributes"]
        if requested["resource"] == "pods" and requested["verb"] in ("list", "watch"):
            (requirement,) = requested["fieldSelector"]["requirements"]  # A node may not list all pods.
            allowed = requirement == {"key": "spec.nodeName", "operator": "In", "values": [self.node]}
            return {"status": {"allowed": allowed}}
        assert "fieldSelector" not in requested
        return {"status": {"allowed": requested["resource"] not in self.denied}}


@pytest.fixture
def api(tmp_path, monkeypatch):
    """Checks of an API server that returns ``response``."""
    context = make_context(tmp_path, api=Reviews())
    context.api.node = context.node_name
    context.settings = replaced(context.settings, kubeconfig="/k")
    checks = api_server.ApiChecks(context)
    checks.response = ApiProbe(200, datetime(2024, 1, 1, 3, tzinfo=UTC))
    checks.ours = datetime(2024, 1, 1, 3, tzinfo=UTC)

    async def probe():
        if isinstance(checks.response, Exception):
            raise checks.response
        return checks.response, checks.ours

    checks._probe = probe
    checks.context = context
    return checks


def replaced(settings, **changes):

    return dataclasses.replace(settings, **changes)


async def test_healthy_api_server_has_no_findings(api):
    assert [await api.available(), await api.clock(), await api.permissions()] == [[], [], []]
    assert [check.name for check in api_server.checks(api.context)] == ["API server", "clock", "permissions"]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (ApiUnavailable("connection refused"), "does not respond: connection refused"),
        (ConfigError([Problem("kubeconfig", "clusters", None, "is empty")]), "invalid kubeconfig"),
        (ApiProbe(401), "rejects the credentials"),
        (ApiProbe(500), "responds with 500"),
        (ApiProbe(503), "responds with 503"),
    ],
)
async def test_unavailable_api_server_is_reported(api, response, text):
    api.response = response

    assert one(await api.available(), PROBLEM, text)


@pytest.mark.parametrize(
    ("seconds", "severity", "text"),
    [
        (1, None, ""),
        (2, WARNING, "2 s ahead of"),
        (-5, WARNING, "5 s behind"),
        (9, WARNING, "9 s ahead of"),
        (10, PROBLEM, "10 s ahead of"),
        (3600, PROBLEM, "3600 s ahead of"),
    ],
)
async def test_clock_skew_is_reported(api, seconds, severity, text):
    api.ours += timedelta(seconds=seconds)

    findings = await api.clock()

    assert one(findings, severity, text) if severity else findings == []


async def test_clock_is_not_checked_without_a_response(api):
    api.response = ApiUnavailable("connection refused")

    with pytest.raises(CheckInconclusive):
        await api.clock()


async def test_missing_permissions_are_reported(api):
    api.context.api.denied = frozenset({"leases", "services"})

    assert one(await api.permissions(), PROBLEM, "is not authorized to: list services, update leases")


async def test_failed_permission_check_is_reported(api):
    api.context.api.error = ApiError("forbidden", code=403)
    assert one(await api.permissions(), WARNING, "failed to check")

    api.context.api.error = ApiError("busy", transient=True)
    with pytest.raises(CheckInconclusive):
        await api.permissions()


# --- the plugin -----------------------------------------------------------------------------------------------


def test_standalone_node_has_no_api_server_checks(context):
    names = [check.name for check in node_checks.nodeagent_provide_node_checks(context)]

    assert names == [
        "runtime", "cgroup driver", "pod network", "swap", "kernel features", "cgroup controllers", "disks",
        "orphaned volumes", "file modes", "certificates", "CDI", "orphaned mounts", "CSI drivers",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "shown"),
    [(1, "1 pod: a"), (2, "2 pods: a, b"), (5, "5 pods: a, b, c, d, e"), (6, "6 pods: a, b, c, d, e, …")],
)
def test_pods_with_orphaned_volumes_are_listed(tmp_path, count, shown):
    for name in "abcdef"[:count]:
        (tmp_path / "pods" / name / "volumes/kind/v").mkdir(parents=True)
        os.utime(tmp_path / "pods" / name, (1000, 1000))

    assert disks.check_orphaned_volumes(tmp_path, frozenset(), 1000 + disks.ORPHAN_SECONDS) == []
    (finding,) = disks.check_orphaned_volumes(tmp_path, frozenset(), 1001 + disks.ORPHAN_SECONDS)

    assert finding.text.replace(f"{tmp_path}/pods/", "") == f"orphaned volumes of {shown}"


@pytest.mark.parametrize(
    "condition",
    [RuntimeCondition("RuntimeReady", True), RuntimeCondition("NetworkReady", True), RuntimeCondition("Other", False)],
)
async def test_other_conditions_of_the_runtime_are_not_reported(runtime_checks, runtime, condition):
    runtime.conditions = [condition]

    assert [await runtime_checks.available(), await runtime_checks.network()] == [[], []]


@pytest.mark.parametrize(("endpoint", "shown"), [("unix:///run/x.sock", "unix:///run/x.sock"), ("", "the runtime")])
async def test_unresponsive_runtime_is_named_by_its_endpoint(tmp_path, runtime, endpoint, shown):
    runtime.away = True
    context = make_context(tmp_path, runtime=runtime, config=make_config(container_runtime_endpoint=endpoint))

    [(_, text)] = reported(await RuntimeChecks(context).available())

    assert text.startswith(f"{shown} does not respond")
