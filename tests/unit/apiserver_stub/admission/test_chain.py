"""Tests for the admission chain: order of plugins, matching, reinvocation and configuration."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.admission.config import AdmissionError, load
from apiserver_stub.admission.manifest_reloads import ManifestReloads
from apiserver_stub.admission.plugins.always_admit import AlwaysAdmit
from apiserver_stub.admission.plugins.always_deny import AlwaysDeny
from apiserver_stub.admission.plugins.namespace_exists import NamespaceExists
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

MAPS = Resource("", "v1", "ConfigMap", "configmaps")


class Noting(AdmissionPlugin):
    resources = ("pods",)

    def __init__(self, name: str, notes: list[str], *, again: bool = False) -> None:
        self.label, self._notes, self._again = name, notes, again

    async def admit(self, call: AdmissionRequest) -> None:
        self._notes.append(f"{self.label} changes")
        call.reinvoke = call.reinvoke or self._again

    async def validate(self, call: AdmissionRequest) -> None:
        self._notes.append(f"{self.label} judges")


async def test_all_plugins_mutate_before_the_first_validates(call):
    notes: list[str] = []
    admission = AdmissionChain([Noting("a", notes), Noting("b", notes)])

    await admission.check(call({}))

    assert notes == ["a changes", "b changes", "a judges", "b judges"]


async def test_late_mutation_reinvokes_all_plugins_once(call):
    notes: list[str] = []
    admission = AdmissionChain([Noting("a", notes), Noting("b", notes, again=True)])

    await admission.admit(call({}))

    assert notes == ["a changes", "b changes"] * 2


async def test_durations_are_counted_by_plugin_and_phase(call):
    admission = AdmissionChain([Noting("a", []), AlwaysDeny()])
    with pytest.raises(ApiError):
        await admission.check(call({}))
    with pytest.raises(ApiError):
        await admission.check(call({}))
    page = Page(Choice())

    admission.metrics.show_on(page)

    lines = [line for line in page.text()[0].decode().splitlines() if "_seconds_count" in line]
    start, rest = "apiserver_admission", 'operation="CREATE",rejected'
    assert sorted(lines) == [
        f'{start}_controller_admission_duration_seconds_count{{name="AlwaysDeny",type="validate",{rest}="true"}} 2',
        f'{start}_controller_admission_duration_seconds_count{{name="Noting",type="admit",{rest}="false"}} 2',
        f'{start}_controller_admission_duration_seconds_count{{name="Noting",type="validate",{rest}="false"}} 2',
        f'{start}_step_admission_duration_seconds_count{{type="admit",{rest}="false"}} 2',
        f'{start}_step_admission_duration_seconds_count{{type="validate",{rest}="true"}} 2',
    ]


async def test_removed_resource_is_freed(call):
    admission = AdmissionChain([Noting("a", [])])
    removed = Resource("example.com", "v1", "Widget", "widgets")
    freed = weakref.ref(removed)

    await admission.check(call({}, resource=removed))
    del removed
    gc.collect()

    assert freed() is None


async def test_plugins_are_called_only_for_matching_requests(call):
    notes: list[str] = []
    admission = AdmissionChain([Noting("a", notes)])

    await admission.check(call({}, resource=MAPS))
    await admission.check(call(None, {}, operation="DELETE"))

    assert notes == []


@pytest.mark.row("admission.AlwaysDeny")
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
async def test_always_deny_rejects_every_write(call, operation):
    admission = AdmissionChain([AlwaysAdmit(), AlwaysDeny()])

    with pytest.raises(ApiError) as error:
        await admission.check(call({"metadata": {"name": "p"}}, operation=operation))

    assert error.value.code == 403
    assert error.value.message == 'pods "p" is forbidden: admission control is denying all modifications'


@pytest.mark.row("admission.NamespaceExists")
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
async def test_write_to_missing_namespace_is_rejected(call, operation):
    class Empty:
        def collection(self, name):
            return {"default": None} if name == "core/namespaces" else {}

    admission = AdmissionChain([NamespaceExists(Empty())])  # type: ignore[arg-type]

    with pytest.raises(ApiError) as error:
        await admission.check(call({"metadata": {"name": "p"}}, operation=operation))

    assert error.value.message == 'namespaces "default" not found'


def test_invalid_configuration_reports_every_error(tmp_path):
    path = tmp_path / "admission.yaml"
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        "plugins: [{name: A, path: none}, {name: B, configuration: 5}, {path: x}, {name: C, configuration: {a: 1}}]\n"
    )

    with pytest.raises(AdmissionError) as error:
        load(path, Identity())

    assert len(error.value.problems) == 3
    assert str(error.value).count("failed to apply admission: failed to read plugin config") == 3


def test_configuration_of_another_kind_is_rejected(tmp_path):
    path = tmp_path / "admission.yaml"
    path.write_text("{}\n")

    with pytest.raises(AdmissionError, match=f"Object 'Kind' is missing in '{path}'"):
        load(path, Identity())


EXEC, FORWARD, PROXY = ({"kind": f"Pod{name}Options", "apiVersion": "v1"} for name in ("Exec", "PortForward", "Proxy"))


@pytest.mark.parametrize(
    ("subresource", "query", "options"),
    [
        (
            "exec",
            "command=sh&command=-c&stdin=true&tty=false&container=c",
            {**EXEC, "stdin": True, "container": "c", "command": ["sh", "-c"]},
        ),
        ("portforward", "ports=80&ports=x&ports=81", {**FORWARD, "ports": [80, 81]}),
        ("portforward", "ports=x", FORWARD),
        ("proxy", "path=/x", {**PROXY, "path": "/x"}),
        ("log", "container=c", None),
        ("none", "", None),
    ],
)
async def test_options_of_connections_are_admitted(
    subresource: str, query: str, options: dict[str, Any] | None
) -> None:
    class Connections(AdmissionPlugin):
        operations = ("CONNECT",)

        async def validate(self, call: AdmissionRequest) -> None:
            seen.append((call.name, call.new))

    seen: list[Any] = []
    pods = build_registry(parse([])).find("", "v1", "pods")
    assert pods is not None
    info = RequestInfo("create", "", "", "v1", "pods", subresource, "default", "p")
    request = Request("POST", info, Query(query), {}, b"", User("u"), PLAIN, Identity())

    await AdmissionChain([Connections()]).connect(request, pods)

    assert seen == ([] if options is None else [("p", options)])


def test_reloads_of_manifests_are_those_of_the_server() -> None:
    reloads = ManifestReloads()

    assert AdmissionChain([], reloads).manifest_reloads is reloads
    assert AdmissionChain([]).manifest_reloads.digests == {}
