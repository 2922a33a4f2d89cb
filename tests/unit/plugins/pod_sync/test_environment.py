"""Tests for the environment of containers."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from nodeagent.errors import ContainerError
from nodeagent.testing import FakeObjects, make_container, make_pod
from nodeagent_plugins.pod_sync.environment import (
    PodEnvironmentInputs,
    make_environment,
    service_variables,
)

FACTS = PodEnvironmentInputs(("10.0.0.9", "fd00::9"), ("192.0.2.5",), "node-1", lambda: {"cpu": "4", "memory": "8Gi"})


@pytest.fixture
def objects() -> FakeObjects:
    objects = FakeObjects()
    objects.config_maps["default", "cm"] = {"data": {"COLOR": "red", "bad=name": "x"}}
    objects.secrets["default", "sec"] = {"data": {"PASS": base64.b64encode(b"geheim").decode()}}
    return objects


async def variables(objects, pod=None, services=(), facts=FACTS, any_name=False, **fields):
    container = make_container("main", **fields)
    pod = pod or make_pod(containers=[container], labels={"app": "web"}, annotations={"note": "n"})
    return await make_environment(pod, container, facts, objects, services, any_name=any_name)


def by_field(path: str) -> dict:
    return {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}


async def test_variable_can_reference_previous_ones(objects):
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]

    result = await variables(objects, env=env)

    assert dict(result.variables) == {"A": "1", "B": "1$(C)", "C": "3"}


async def test_env_overrides_env_from_and_invalid_names_are_reported(objects):
    result = await variables(
        objects,
        env_from=[{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "sec"}}],
        env=[{"name": "PASS", "value": "$(PASS)!"}],
    )

    assert dict(result.variables) == {"P_COLOR": "red", "PASS": "geheim!"}
    assert result.skipped == [
        "Keys [P_bad=name] from the EnvFrom configMap default/cm were skipped "
        "since they are considered invalid environment variable names."
    ]


async def test_env_from_skips_names_of_parent_directories(objects):
    result = await variables(objects, env_from=[{"prefix": "..", "configMapRef": {"name": "cm"}}])

    assert "..COLOR" not in result.variables


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-web"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['note']", "n"),
        ("metadata.labels['none']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "192.0.2.5"),
        ("status.hostIPs", "192.0.2.5"),
        ("status.podIP", "10.0.0.9"),
        ("status.podIPs", "10.0.0.9,fd00::9"),
    ],
)
async def test_field_references(objects, path, value):
    assert (await variables(objects, env=[by_field(path)])).variables["V"] == value


async def test_unknown_field_is_an_error(objects):
    with pytest.raises(ContainerError) as caught:
        await variables(objects, env=[by_field("status.phase")])

    assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1", "1"),
        ("limits.memory", "1Mi", "8192"),
        ("requests.memory", "1", "1000"),
        ("requests.ephemeral-storage", "1", "0"),
    ],
)
async def test_resource_references(objects, resource, divisor, value):
    reference = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}

    result = await variables(
        objects,
        resources={"limits": {"cpu": "1500m"}, "requests": {"cpu": "100m", "memory": 1000}},
        env=[{"name": "V", "valueFrom": reference}],
    )

    assert result.variables["V"] == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"configMapKeyRef": {"name": "cm", "key": "k"}}, "couldn't find key k in ConfigMap default/cm"),
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "sec", "key": "k"}}, "couldn't find key k in Secret default/sec"),
    ],
)
async def test_missing_required_source_is_named(objects, source, text):
    with pytest.raises(ContainerError, match=text) as caught:
        await variables(objects, env=[{"name": "V", "valueFrom": source}])
    assert caught.value.reason == "CreateContainerConfigError"

    kind = next(iter(source))
    optional = {kind: {**source[kind], "optional": True}}
    assert not (await variables(objects, env=[{"name": "V", "valueFrom": optional}])).variables


async def test_missing_config_map_of_env_from_is_named(objects):
    with pytest.raises(ContainerError, match='configmap "none" not found'):
        await variables(objects, env_from=[{"configMapRef": {"name": "none"}}])


SERVICE = {
    "metadata": {"name": "my-web"},
    "spec": {"clusterIP": "10.1.1.1", "ports": [{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP"}]},
}


def test_service_variables():
    assert service_variables([SERVICE]) == {
        "MY_WEB_SERVICE_HOST": "10.1.1.1",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_PORT": "tcp://10.1.1.1:80",
        "MY_WEB_PORT_80_TCP": "tcp://10.1.1.1:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "10.1.1.1",
        "MY_WEB_PORT_53_UDP": "udp://10.1.1.1:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "10.1.1.1",
    }


def test_headless_service_has_no_variables():
    assert service_variables([{"metadata": {"name": "x"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}]) == {}


async def test_env_overrides_service_variables(objects):
    env = [{"name": "MY_WEB_SERVICE_HOST", "value": "mine"}, {"name": "URL", "value": "$(MY_WEB_PORT)"}]

    result = await variables(objects, services=[SERVICE], env=env)

    assert result.variables["MY_WEB_SERVICE_HOST"] == "mine"
    assert result.variables["URL"] == "tcp://10.1.1.1:80"


# --- env files ----------------------------------------------------------------------------------------------------


def from_file(key="KEY", **selector):
    return {"name": "V", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "env", "key": key, **selector}}}


@pytest.fixture
def with_volume(tmp_path):
    (tmp_path / "env").write_text("KEY='from file'\nEMPTY=''\n")
    return replace(FACTS, volumes={"v": str(tmp_path)})


async def test_variable_is_read_from_a_file_of_a_volume(objects, with_volume):
    result = await variables(objects, facts=with_volume, env=[from_file(), {"name": "W", "value": "$(V)!"}])

    assert dict(result.variables) == {"V": "from file", "W": "from file!"}


@pytest.mark.parametrize("selector", [{"key": "OTHER"}, {"key": "EMPTY"}, {"path": "missing"}])
async def test_optional_variable_without_value_is_omitted(objects, with_volume, selector):
    result = await variables(objects, facts=with_volume, env=[from_file(optional=True, **selector)])

    assert dict(result.variables) == {}


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({"key": "OTHER"}, 'environment variable key "OTHER" not found in file ".*/env"'),
        ({"path": "missing"}, "couldn't parse env file"),
        ({"path": "missing/../../env"}, "couldn't parse env file"),
        ({"volumeName": "w"}, 'cannot find the volume "w" referenced by FileKeyRef'),
    ],
)
async def test_required_variable_without_value_is_an_error(objects, with_volume, selector, problem):
    with pytest.raises(ContainerError, match=problem) as caught:
        await variables(objects, facts=with_volume, env=[from_file(**selector)])

    assert caught.value.reason == "CreateContainerConfigError"


async def test_any_name_from_env_from_is_accepted_if_enabled(objects):
    result = await variables(objects, any_name=True, env_from=[{"prefix": "1 ", "configMapRef": {"name": "cm"}}])

    assert dict(result.variables) == {"1 COLOR": "red", "1 bad=name": "x"}
    assert result.skipped == []


@pytest.mark.row("gate.PodHostIPs")
async def test_host_addresses_are_empty_without_their_gate(objects):
    facts = PodEnvironmentInputs(host_ips=["192.0.2.5"], host_ips_field=False)
    env = [{"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}]

    result = await variables(objects, facts=facts, env=env)

    assert dict(result.variables) == {"IPS": ""}
