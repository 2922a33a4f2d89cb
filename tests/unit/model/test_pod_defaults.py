"""Tests for the defaults of static pods."""

from __future__ import annotations

import copy

import pytest

from nodeagent.model.pod_defaults import default_pod, default_pull_policy


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def test_spec_and_container_are_defaulted():
    given = pod(containers=[{"name": "c", "image": "busybox:1"}])
    before = copy.deepcopy(given)

    result = default_pod(given)

    assert given == before
    assert result["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "busybox:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
    }


def test_zero_and_false_are_kept():
    spec = default_pod(pod(terminationGracePeriodSeconds=0, enableServiceLinks=False, restartPolicy="Never"))["spec"]
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"], spec["restartPolicy"]) == (
        0,
        False,
        "Never",
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:" + "0" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_pull_policy_depends_on_the_tag(image, policy):
    assert default_pull_policy(image) == policy


def test_requests_default_to_limits_and_are_rounded_to_thousandths():
    resources = {"limits": {"cpu": "0.0001", "memory": "1Gi"}, "requests": {"cpu": "100u"}}
    result = default_pod(pod(containers=[{"name": "c", "resources": resources}]))
    assert result["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1m", "memory": "1Gi"},
        "requests": {"cpu": "1m", "memory": "1Gi"},
    }


def test_host_network_sets_every_host_port():
    container = {"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}
    result = default_pod(pod(hostNetwork=True, containers=[container]))
    assert [p["hostPort"] for p in result["spec"]["containers"][0]["ports"]] == [80, 81]


def test_probes_and_hooks_are_defaulted():
    container = {
        "name": "c",
        "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
    }
    result = default_pod(pod(containers=[container]))["spec"]["containers"][0]
    assert result["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert result["lifecycle"]["preStop"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}


def test_volumes_are_defaulted():
    volumes = [
        {"name": "none"},
        {"name": "host", "hostPath": {"path": "/x"}},
        {"name": "map", "configMap": {"name": "m"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "t"}},
                    {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]
            },
        },
    ]
    none, host, config_map, projected = default_pod(pod(volumes=volumes))["spec"]["volumes"]
    assert none == {"name": "none", "emptyDir": {}}
    assert host["hostPath"] == {"path": "/x", "type": ""}
    assert config_map["configMap"]["defaultMode"] == 0o644
    assert projected["projected"]["defaultMode"] == 0o644
    token, downward = projected["projected"]["sources"]
    assert token["serviceAccountToken"]["expirationSeconds"] == 3600
    assert downward["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"


def test_nulls_are_absent():
    result = default_pod(pod(containers=[{"name": "c", "image": "a:1", "args": None, "imagePullPolicy": None}]))
    container = result["spec"]["containers"][0]
    assert "args" not in container
    assert container["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("spec", [None, "text", 1, [], {"containers": "x", "volumes": 3}, {"containers": [1, "y"]}])
def test_values_of_the_wrong_type_are_kept(spec):
    default_pod({"spec": spec})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"serviceAccount": "a"}, {"serviceAccountName": "a", "serviceAccount": "a"}),
        ({"serviceAccountName": "a"}, {"serviceAccountName": "a", "serviceAccount": "a"}),
        ({"serviceAccountName": "a", "serviceAccount": "b"}, {"serviceAccountName": "a", "serviceAccount": "a"}),
    ],
)
def test_both_fields_of_the_service_account_are_set(given, expected):
    spec = default_pod(pod(**given))["spec"]
    assert {name: spec[name] for name in ("serviceAccountName", "serviceAccount") if name in spec} == expected


@pytest.mark.parametrize("image", [None, 7, [], "busybox@sha256:0"])
def test_invalid_image_is_pulled_if_not_present(image):
    assert default_pull_policy(image) == "IfNotPresent"


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("100n", "1m"),
        ("1500u", "2m"),
        ("0.0015", "2m"),
        ("15e-4", "2e-3"),
        ("1.5", "1.5"),
        ("1000u", "1000u"),
        ("1Gi", "1Gi"),
        ("x.y", "x.y"),
        (1, 1),
    ],
)
def test_quantities_with_less_than_thousandths_are_rounded_up(text, rounded):
    resources = {"limits": {"cpu": text}, "requests": {"cpu": text}}
    spec = default_pod(
        pod(containers=[{"name": "c", "resources": resources}], overhead={"cpu": text}, resources=resources)
    )["spec"]
    assert [spec["overhead"], spec["resources"], spec["containers"][0]["resources"]] == [
        {"cpu": rounded},
        {"limits": {"cpu": rounded}, "requests": {"cpu": rounded}},
        {"limits": {"cpu": rounded}, "requests": {"cpu": rounded}},
    ]


def test_host_ports_are_set_only_in_the_network_of_the_host():
    ports = [{"containerPort": 80}, {"hostPort": 0, "name": "x"}]
    spec = default_pod(pod(containers=[{"name": "c", "ports": ports}]))["spec"]
    assert spec["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"},
        {"hostPort": 0, "name": "x", "protocol": "TCP"},
    ]
    spec = default_pod(pod(hostNetwork=True, containers=[{"name": "c", "ports": ports}]))["spec"]
    assert [port.get("hostPort") for port in spec["containers"][0]["ports"]] == [80, 0]


def test_probe_for_grpc_and_sources_of_variables_are_defaulted():
    container = {
        "name": "c",
        "readinessProbe": {"grpc": {"port": 1}, "successThreshold": 2},
        "env": [
            {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "b", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "c", "value": "1"},
        ],
        "lifecycle": {"postStart": {"httpGet": {"port": 1, "path": "/x", "scheme": "HTTPS"}}},
    }
    found = default_pod(pod(containers=[container]))["spec"]["containers"][0]
    assert (
        found["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
        and found["readinessProbe"]["successThreshold"] == 2
    )
    assert found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert found["env"][1]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"
    assert found["lifecycle"]["postStart"]["httpGet"] == {"port": 1, "path": "/x", "scheme": "HTTPS"}


def test_requests_default_only_to_limits_that_are_set():
    def requests(resources):
        return default_pod(pod(containers=[{"name": "c", "resources": resources}]))["spec"]["containers"][0][
            "resources"
        ]

    assert requests({"limits": {}}) == {"limits": {}}
    assert requests({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}) == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "1"},
    }
    assert requests("x") == "x" and requests({"limits": "x"}) == {"limits": "x"}
    assert requests({"limits": {"cpu": "1"}, "requests": "x"}) == {"limits": {"cpu": "1"}, "requests": "x"}
