"""Tests for the validation of static pods."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.model.pod import Pod
from nodeagent.model.pod_defaults import default_pod
from nodeagent.model.pod_validation import validate_pod

GOOD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app.example.com/name": "web"}},
    "spec": {
        "initContainers": [
            {"name": "prepare", "image": "busybox:1"},
            {
                "name": "proxy",
                "image": "busybox:1",
                "restartPolicy": "Always",
                "livenessProbe": {"exec": {"command": ["a"]}},
            },
        ],
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "my.name", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "m"}}],
                "ports": [{"containerPort": 80, "name": "http"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "100m"}},
                "readinessProbe": {"httpGet": {"port": "http"}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                "securityContext": {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            }
        ],
        "volumes": [
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "secret", "secret": {"secretName": "s"}},
        ],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
    },
}


def problems(pod):
    return validate_pod(msgspec.convert(default_pod(pod), Pod), "web.yaml")


def changed(path, value):
    pod = msgspec.json.decode(msgspec.json.encode(GOOD))
    *parents, last = path
    parent = pod
    for part in parents:
        parent = parent[part] if isinstance(parent, list) else parent.setdefault(part, {})
    parent[last] = value
    return pod


MAIN = ("spec", "containers", 0)


def test_valid_pod_has_no_problems():
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("kind",), "PodList", "kind"),
        (("metadata", "name"), "", "metadata.name"),
        (("metadata", "name"), "Web_1", "metadata.name"),
        (("metadata", "namespace"), "a.b", "metadata.namespace"),
        (("metadata", "labels"), {"-x": "1"}, "metadata.labels"),
        (("metadata", "labels"), {"x": "a b"}, "metadata.labels[x]"),
        (("metadata", "annotations"), {"x": "a" * 262145}, "metadata.annotations"),
        (("spec", "containers"), [], "spec.containers"),
        (("spec", "restartPolicy"), "Sometimes", "spec.restartPolicy"),
        (("spec", "dnsPolicy"), "Mine", "spec.dnsPolicy"),
        (("spec", "dnsPolicy"), "None", "spec.dnsConfig.nameservers"),
        (("spec", "dnsConfig"), {"nameservers": ["not an ip"]}, "spec.dnsConfig.nameservers[0]"),
        (("spec", "activeDeadlineSeconds"), 0, "spec.activeDeadlineSeconds"),
        (("spec", "terminationGracePeriodSeconds"), -1, "spec.terminationGracePeriodSeconds"),
        (("spec", "hostname"), "a.b", "spec.hostname"),
        (("spec", "ephemeralContainers"), [{"name": "e", "image": "x"}], "spec.ephemeralContainers"),
        (("spec", "tolerations"), [{"effect": "NoExecute"}], "spec.tolerations[0].operator"),
        (("spec", "hostAliases"), [{"ip": "x"}], "spec.hostAliases[0].ip"),
        (
            ("spec", "securityContext", "sysctls"),
            [{"name": "A B", "value": "1"}],
            "spec.securityContext.sysctls[0].name",
        ),
        (("spec", "initContainers", 0, "name"), "main", "spec.containers[0].name"),
        (("spec", "initContainers", 0, "restartPolicy"), "Sometimes", "spec.initContainers[0].restartPolicy"),
        (("spec", "initContainers", 0, "lifecycle"), {}, "spec.initContainers[0].lifecycle"),
        ((*MAIN, "restartPolicy"), "Sometimes", "spec.containers[0].restartPolicy"),
        ((*MAIN, "restartPolicyRules"), [{"action": "Restart"}], "spec.containers[0].restartPolicy"),
        ((*MAIN, "restartPolicyRules"), [{"action": "Stop"}], "spec.containers[0].restartPolicyRules[0].action"),
        (
            (*MAIN, "restartPolicyRules"),
            [{"action": "Restart", "exitCodes": {"operator": "Is", "values": [1]}}],
            "spec.containers[0].restartPolicyRules[0].exitCodes.operator",
        ),
        (
            (*MAIN, "restartPolicyRules"),
            [{"action": "Restart", "exitCodes": {"operator": "In"}}],
            "spec.containers[0].restartPolicyRules[0].exitCodes.values",
        ),
        (
            (*MAIN, "securityContext"),
            {"appArmorProfile": {"type": "Other"}},
            "spec.containers[0].securityContext.appArmorProfile.type",
        ),
        (
            ("spec", "securityContext"),
            {"appArmorProfile": {"type": "Localhost"}},
            "spec.securityContext.appArmorProfile.localhostProfile",
        ),
        (("spec", "hostnameOverride"), "A_b", "spec.hostnameOverride"),
        (("spec", "hostnameOverride"), "a" * 65, "spec.hostnameOverride"),
        ((*MAIN, "name"), "A", "spec.containers[0].name"),
        ((*MAIN, "image"), "", "spec.containers[0].image"),
        ((*MAIN, "image"), " busybox", "spec.containers[0].image"),
        ((*MAIN, "imagePullPolicy"), "Now", "spec.containers[0].imagePullPolicy"),
        ((*MAIN, "ports"), [{"containerPort": 0}], "spec.containers[0].ports[0].containerPort"),
        ((*MAIN, "ports"), [{"containerPort": 1, "name": "Not"}], "spec.containers[0].ports[0].name"),
        ((*MAIN, "ports"), [{"containerPort": 1, "protocol": "ICMP"}], "spec.containers[0].ports[0].protocol"),
        (
            (*MAIN, "ports"),
            [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}],
            "spec.containers[0].ports[1].hostPort",
        ),
        ((*MAIN, "env"), [{"name": "a=b"}], "spec.containers[0].env[0].name"),
        (
            (*MAIN, "env"),
            [{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "../p", "key": "k"}}}],
            "spec.containers[0].env[0].valueFrom.fileKeyRef.path",
        ),
        ((*MAIN, "env"), [{"name": "A", "valueFrom": {}}], "spec.containers[0].env[0].valueFrom"),
        (
            (*MAIN, "env"),
            [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}],
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        ),
        ((*MAIN, "envFrom"), [{}], "spec.containers[0].envFrom[0]"),
        ((*MAIN, "volumeMounts"), [{"name": "no", "mountPath": "/a"}], "spec.containers[0].volumeMounts[0].name"),
        (
            (*MAIN, "volumeMounts"),
            [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}],
            "spec.containers[0].volumeMounts[1].mountPath",
        ),
        (
            (*MAIN, "volumeMounts"),
            [{"name": "data", "mountPath": "/a", "subPath": "../b"}],
            "spec.containers[0].volumeMounts[0].subPath",
        ),
        (
            (*MAIN, "volumeMounts"),
            [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            "spec.containers[0].volumeMounts[0].mountPropagation",
        ),
        ((*MAIN, "resources"), {"limits": {"cpu": "lots"}}, "spec.containers[0].resources.limits[cpu]"),
        ((*MAIN, "resources"), {"requests": {"cpu": "-1"}}, "spec.containers[0].resources.requests[cpu]"),
        (
            (*MAIN, "resources"),
            {"limits": {"cpu": 1}, "requests": {"cpu": 2}},
            "spec.containers[0].resources.requests[cpu]",
        ),
        ((*MAIN, "readinessProbe"), {}, "spec.containers[0].readinessProbe"),
        ((*MAIN, "readinessProbe"), {"httpGet": {"port": 70000}}, "spec.containers[0].readinessProbe.httpGet.port"),
        (
            (*MAIN, "livenessProbe"),
            {"tcpSocket": {"port": 1}, "successThreshold": 2},
            "spec.containers[0].livenessProbe.successThreshold",
        ),
        ((*MAIN, "livenessProbe"), {"exec": {}}, "spec.containers[0].livenessProbe.exec.command"),
        ((*MAIN, "lifecycle"), {"preStop": {}}, "spec.containers[0].lifecycle.preStop"),
        ((*MAIN, "securityContext"), {"runAsUser": -1}, "spec.containers[0].securityContext.runAsUser"),
        (
            (*MAIN, "securityContext"),
            {"privileged": True, "allowPrivilegeEscalation": False},
            "spec.containers[0].securityContext.allowPrivilegeEscalation",
        ),
        (
            (*MAIN, "securityContext"),
            {"seccompProfile": {"type": "Localhost"}},
            "spec.containers[0].securityContext.seccompProfile.localhostProfile",
        ),
        (("spec", "volumes", 0, "name"), "secret", "spec.volumes[1].name"),
        (("spec", "volumes", 0, "hostPath"), {"path": "/x"}, "spec.volumes[0]"),
        (("spec", "volumes", 0), {"name": "data", "hostPath": {"path": "/a/../b"}}, "spec.volumes[0].hostPath.path"),
        (
            ("spec", "volumes", 0),
            {"name": "data", "hostPath": {"path": "/a", "type": "X"}},
            "spec.volumes[0].hostPath.type",
        ),
        (("spec", "volumes", 0), {"name": "data", "unheardOf": {}}, "spec.volumes[0]"),
        (
            ("spec", "volumes", 0),
            {"name": "data", "configMap": {"name": "m", "items": [{"key": "k", "path": "/x"}]}},
            "spec.volumes[0].configMap.items[0].path",
        ),
        (
            ("spec", "volumes", 0),
            {"name": "data", "secret": {"secretName": "s", "defaultMode": 512}},
            "spec.volumes[0].secret.defaultMode",
        ),
        (
            ("spec", "volumes", 0),
            {"name": "data", "projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}},
            "spec.volumes[0].projected.sources[0].clusterTrustBundle",
        ),
        (
            ("spec", "volumes", 0),
            {
                "name": "data",
                "projected": {"sources": [{"serviceAccountToken": {"path": "x", "expirationSeconds": 5}}]},
            },
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds",
        ),
        (("spec", "volumes", 0), {"name": "data", "flexVolume": {}}, "spec.volumes[0].flexVolume.driver"),
        (
            ("spec", "volumes", 0),
            {"name": "data", "flexVolume": {"driver": "a/b", "options": {"Storage.k8s.io/x": "y"}}},
            "spec.volumes[0].flexVolume.options[Storage.k8s.io/x]",
        ),
    ],
)
def test_problem_names_the_invalid_field(path, value, where):
    found = problems(changed(path, value))
    assert where in [problem.path for problem in found], found
    assert all(problem.source == "web.yaml" and problem.rule for problem in found)


def test_invalid_name_violates_the_rule_of_upstream():
    (problem,) = problems(changed((*MAIN, "name"), "A"))
    assert problem.rule.startswith(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
    )


def test_all_problems_are_reported():
    pod = changed((*MAIN, "name"), "A")
    pod["spec"]["restartPolicy"] = "x"
    pod["metadata"]["name"] = ""
    assert len(problems(pod)) == 3
