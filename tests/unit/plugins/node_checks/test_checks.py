"""Each check of ``nodeagent doctor`` finds what it looks for, and nothing on a machine that is well."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent.base.tls import generate_ca, issue
from nodeagent.contracts.api import NODES, ApiProbe
from nodeagent.contracts.checks import CheckInconclusive, Severity
from nodeagent.contracts.runtime import RuntimeCondition, RuntimeVersion
from nodeagent.errors import ApiError, ApiUnavailable, ConfigError, Problem, RuntimeUnavailable
from nodeagent.testing import FakeApi, make_config, make_context
from nodeagent_plugins import node_checks
from nodeagent_plugins.node_checks import api_server, disks, files, kernel
from nodeagent_plugins.node_checks.runtime import RuntimeChecks, driver_of

PROBLEM, WARNING = Severity.PROBLEM, Severity.WARNING


def told(findings):
    """Return severities and texts."""
    assert all(finding.remedy for finding in findings)
    return [(finding.severity, finding.text) for finding in findings]


def one(findings, severity, text):
    """Whether there is one finding, as severe as said and with this in its text."""
    [(found, words)] = told(findings)
    assert text in words
    return found is severity


# --- runtime --------------------------------------------------------------------------------------------------


class Runtime:
    """A runtime that says what a test wants."""

    def __init__(self):
        self.api_version, self.driver, self.setup, self.conditions, self.away = "v1", "", {}, [], False

    def _answer(self, value):
        if self.away:
            raise RuntimeUnavailable("connection refused")
        return value

    async def version(self):
        return self._answer(RuntimeVersion("containerd", "1.5", self.api_version))

    async def status(self):
        return self._answer(self.conditions)

    async def cgroup_driver(self):
        return self._answer(self.driver)

    async def info(self):
        return self._answer({"config": json.dumps(self.setup)})

    async def list_sandboxes(self, pod_uid=""):
        return self._answer([SimpleNamespace(uid="alive")])


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def context(tmp_path, runtime):
    return make_context(tmp_path, runtime=runtime, config=make_config(cgroup_driver="cgroupfs"))


@pytest.fixture
def looks(context):
    return RuntimeChecks(context)


async def test_a_runtime_that_is_well_gives_no_findings(looks):
    assert [await looks.answers(), await looks.cgroup_driver(), await looks.network()] == [[], [], []]


async def test_a_runtime_that_does_not_answer_is_found_once(looks, runtime, context):
    runtime.away = True

    assert one(await looks.answers(), PROBLEM, "does not answer: connection refused")
    for check in (looks.cgroup_driver, looks.network):
        with pytest.raises(CheckInconclusive):
            await check()


async def test_a_runtime_of_another_version_is_found(looks, runtime):
    runtime.api_version = "v1alpha2"

    assert one(await looks.answers(), PROBLEM, "containerd 1.5 speaks CRI v1alpha2; the agent needs v1")


async def test_a_runtime_that_is_not_ready_is_found(looks, runtime):
    runtime.conditions = [RuntimeCondition("RuntimeReady", False, "Broken", "no snapshotter")]

    assert one(await looks.answers(), PROBLEM, "the runtime is not ready: Broken no snapshotter")


SETUP = {
    "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": True}}}},
    "cni": {"confDir": "/no/conf", "binDir": "/no/bin"},
}


@pytest.mark.parametrize(("driver", "setup"), [("systemd", {}), ("", SETUP)])
async def test_another_cgroup_driver_is_found_however_the_runtime_tells_it(looks, runtime, driver, setup):
    runtime.driver, runtime.setup = driver, setup

    assert one(await looks.cgroup_driver(), PROBLEM, "the agent makes cgroups with cgroupfs, the runtime with systemd")


async def test_another_cgroup_driver_is_fine_where_the_agent_asks_the_runtime_for_it(tmp_path, runtime):
    runtime.driver = "systemd"
    gates = {"NodeAgentCgroupDriverFromCRI": True}
    config = make_config(cgroup_driver="cgroupfs", feature_gates=gates)

    assert await RuntimeChecks(make_context(tmp_path, runtime=runtime, config=config)).cgroup_driver() == []


@pytest.mark.parametrize(("options", "driver"), [({"SystemdCgroup": False}, "cgroupfs"), ({}, "")])
def test_a_set_up_may_say_nothing_of_cgroups(options, driver):
    setup = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": options}}}}

    assert driver_of(setup) == driver


async def test_a_node_without_a_network_plugin_is_found(looks, runtime):
    runtime.setup = SETUP
    runtime.conditions = [
        RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized")
    ]

    findings = await looks.network()

    assert one(findings, PROBLEM, "cni plugin not initialized; nothing is in /no/conf and /no/bin")


# --- kernel ---------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path):
    """The files of a kernel that is well."""
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


def test_a_kernel_that_is_well_gives_no_findings(machine):
    assert (
        kernel.check_swap(machine, True)
        == kernel.check_kernel_features(machine)
        == kernel.check_cgroup_controllers(machine)
        == []
    )


@pytest.mark.parametrize(("refused", "severity"), [(True, PROBLEM), (False, WARNING)])
def test_swap_is_found(machine, refused, severity):
    put(machine, "proc/swaps", "Filename Type\n/dev/sda2 partition 1024 0 -2\n")

    assert one(kernel.check_swap(machine, refused), severity, "swap is on (/dev/sda2)")


@pytest.mark.parametrize(
    ("file", "text", "severity", "found"),
    [
        ("proc/filesystems", "ext4\n", PROBLEM, "no overlay file system"),
        ("proc/sys/net/ipv4/ip_forward", "0\n", PROBLEM, "ip_forward is off"),
        ("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n", WARNING, "bridge-nf-call-iptables is off"),
    ],
)
def test_a_missing_kernel_feature_is_found(machine, file, text, severity, found):
    put(machine, file, text)

    assert one(kernel.check_kernel_features(machine), severity, found)


def test_br_netfilter_that_is_not_loaded_is_found(machine):
    (machine / "proc/sys/net/bridge/bridge-nf-call-iptables").unlink()

    assert one(kernel.check_kernel_features(machine), WARNING, "br_netfilter is not loaded")


def test_missing_cgroup_controllers_are_found(machine):
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
    ],
)
def test_a_full_disk_is_found(monkeypatch, blocks, inodes, severity, text):
    full = SimpleNamespace(f_blocks=blocks[0], f_bavail=blocks[1], f_files=inodes[0], f_favail=inodes[1])
    monkeypatch.setattr(
        disks, "os", SimpleNamespace(statvfs=lambda path: full, stat=lambda path: SimpleNamespace(st_dev=1))
    )

    assert one(disks.check_disks({"nodefs": "/x", "imagefs": "/y"}), severity, text)


async def test_volumes_of_pods_that_are_gone_are_found(tmp_path, context):
    for uid, old in (("alive", True), ("gone", True), ("just-gone", False)):
        volume = tmp_path / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "v"
        volume.mkdir(parents=True)
        if old:
            os.utime(tmp_path / "pods" / uid, (1, 1))
    (tmp_path / "pods" / "empty").mkdir()

    check = {check.name: check for check in disks.checks(context)}["orphaned volumes"]

    [(severity, text)] = told(await check.run())
    assert severity is WARNING
    assert text.startswith("volumes are left of 1 pod that nobody here knows") and text.endswith("/pods/gone")


async def test_without_a_runtime_nobody_calls_volumes_orphaned(context, runtime):
    runtime.away = True

    with pytest.raises(CheckInconclusive):
        await {check.name: check for check in disks.checks(context)}["orphaned volumes"].run()


async def test_under_another_node_s_name_nobody_calls_volumes_orphaned(context):
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
def test_a_file_that_others_may_read_or_change_is_found(tmp_path, monkeypatch, mode, widest, severity):
    path = put(tmp_path, "f", "")
    path.chmod(mode)
    monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(st_mode=mode, st_uid=0, st_gid=0))

    assert one(files.check_file_modes([("kubeconfig", path, widest)]), severity, f"has mode {mode:04o}")


def test_a_file_that_is_not_root_s_is_found(monkeypatch):
    monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(st_mode=0o600, st_uid=1000, st_gid=0))

    assert one(files.check_file_modes([("key", Path("/k"), files.SECRET)]), WARNING, "belongs to 1000:0, not to root")


def test_a_file_that_is_not_there_is_found():
    assert one(files.check_file_modes([("kubeconfig", Path("/no/where"), files.SECRET)]), PROBLEM, "No such file")


def test_files_are_those_that_the_configuration_names(tmp_path, context):
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
        ("certificate authority", "ca.crt"): 0o644,
        ("key", "kubelet.key"): 0o600,
    }


@pytest.mark.parametrize(
    ("days", "severity", "text"), [(400, PROBLEM, "ended on"), (350, WARNING, "in 14 days"), (1, None, "")]
)
def test_a_certificate_that_ends_is_found(days, severity, text):
    pair = issue(generate_ca("ca"), "node", days=365)
    now = datetime.now(UTC) + timedelta(days=days)

    findings = files.check_certificates([("serving certificate /c", pair.certificate)], now)

    assert (one(findings, severity, text)) if severity else findings == []


def test_a_certificate_that_cannot_be_read_is_found():
    assert one(files.check_certificates([("it", b"nonsense")], datetime.now(UTC)), PROBLEM, "cannot be read")


# --- API server -----------------------------------------------------------------------------------------------


class Reviews(FakeApi):
    """Allows everything but what it is told to deny."""

    denied: frozenset[str] = frozenset()
    error: ApiError | None = None

    async def create(self, resource, obj, *args, **kwargs):
        if self.error is not None:
            raise self.error
        asked = obj["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] not in self.denied}}


@pytest.fixture
def api(tmp_path, monkeypatch):
    """Checks of an API server that returns ``response``."""
    context = make_context(tmp_path, api=Reviews())
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


async def test_an_api_server_that_is_well_gives_no_findings(api):
    assert [await api.answers(), await api.clock(), await api.permissions()] == [[], [], []]
    assert [check.name for check in api_server.checks(api.context)] == ["API server", "clock", "permissions"]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (ApiUnavailable("connection refused"), "does not respond: connection refused"),
        (ConfigError([Problem("kubeconfig", "clusters", None, "is empty")]), "kubeconfig cannot be used"),
        (ApiProbe(401), "does not know the node's user"),
        (ApiProbe(503), "responds with 503"),
    ],
)
async def test_an_api_server_that_does_not_serve_is_found(api, response, text):
    api.response = response

    assert one(await api.answers(), PROBLEM, text)


@pytest.mark.parametrize(
    ("seconds", "severity", "text"), [(1, None, ""), (-5, WARNING, "5 s behind"), (3600, PROBLEM, "3600 s ahead of")]
)
async def test_a_clock_that_is_off_is_found(api, seconds, severity, text):
    api.ours += timedelta(seconds=seconds)

    findings = await api.clock()

    assert one(findings, severity, text) if severity else findings == []


async def test_without_an_answer_the_clock_is_not_judged(api):
    api.response = ApiUnavailable("connection refused")

    with pytest.raises(CheckInconclusive):
        await api.clock()


async def test_missing_permissions_are_found(api):
    api.context.api.denied = frozenset({"leases", "services"})

    assert one(await api.permissions(), PROBLEM, "may not: list services, update leases")


async def test_a_server_that_tells_nothing_of_permissions_is_found(api):
    api.context.api.error = ApiError("forbidden", code=403)
    assert one(await api.permissions(), WARNING, "does not tell")

    api.context.api.error = ApiError("busy", transient=True)
    with pytest.raises(CheckInconclusive):
        await api.permissions()


# --- the plugin -----------------------------------------------------------------------------------------------


def test_a_node_that_works_alone_is_not_asked_for_an_api_server(context):
    names = [check.name for check in node_checks.nodeagent_provide_node_checks(context)]

    assert names == [
        "runtime", "cgroup driver", "pod network", "swap", "kernel features", "cgroup controllers", "disks",
        "orphaned volumes", "file modes", "certificates",
    ]  # fmt: skip
