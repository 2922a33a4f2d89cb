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
        (("metadata", "annotations"), {"x": "ä" * 131072}, "metadata.annotations"),
        (("metadata", "annotations"), {"-x": ""}, "metadata.annotations"),
        (("spec", "containers"), [], "spec.containers"),
        (("spec", "os"), {"name": ""}, "spec.os.name"),
        (("spec", "os"), {"name": "plan9"}, "spec.os.name"),
        (("spec", "preemptionPolicy"), "Always", "spec.preemptionPolicy"),
        (("spec", "nodeSelector"), {"-": "a"}, "spec.nodeSelector"),
        (("spec", "nodeSelector"), {"a": "-"}, "spec.nodeSelector[a]"),
        (("spec", "readinessGates"), [{"conditionType": ""}], "spec.readinessGates[0].conditionType"),
        (("spec", "imagePullSecrets"), [{"name": "A"}], "spec.imagePullSecrets[0].name"),
        (("spec", "runtimeClassName"), "A", "spec.runtimeClassName"),
        (("spec", "hostAliases"), [{"ip": "::1", "hostnames": ["a", "_"]}], "spec.hostAliases[0].hostnames[1]"),
        (("spec", "dnsConfig"), {"nameservers": ["::1"] * 4}, "spec.dnsConfig.nameservers"),
        (("spec", "dnsConfig"), {"searches": ["a"] * 33}, "spec.dnsConfig.searches"),
        (("spec", "dnsConfig"), {"searches": ["a" * 63 + "." + "b" * 63] * 17}, "spec.dnsConfig.searches"),
        (("spec", "dnsConfig"), {"searches": ["a", "_"]}, "spec.dnsConfig.searches[1]"),
        (("spec", "dnsConfig"), {"options": [{"name": ""}]}, "spec.dnsConfig.options[0].name"),
        (("spec", "tolerations"), [{"key": "a", "operator": "In"}], "spec.tolerations[0].operator"),
        (("spec", "tolerations"), [{"key": "a", "effect": "Never"}], "spec.tolerations[0].effect"),
        (("spec", "tolerations"), [{"key": "-", "value": "x"}], "spec.tolerations[0].key"),
        (("spec", "tolerations"), [{"key": "a", "operator": "Exists", "value": "b"}], "spec.tolerations[0].value"),
        (("spec", "tolerations"), [{"key": "a", "tolerationSeconds": 1}], "spec.tolerations[0].effect"),
        (
            ("spec", "tolerations"),
            [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}],
            "spec.tolerations[0].effect",
        ),
        (
            ("spec", "securityContext", "sysctls"),
            [{"name": "kernel.sem", "value": "1"}] * 2,
            "spec.securityContext.sysctls[1].name",
        ),
        (("spec", "securityContext"), {"fsGroup": 2**31}, "spec.securityContext.fsGroup"),
        (("spec", "securityContext"), {"supplementalGroups": [0, -1]}, "spec.securityContext.supplementalGroups[1]"),
        (
            ("spec", "securityContext"),
            {"fsGroupChangePolicy": "Never"},
            "spec.securityContext.fsGroupChangePolicy",
        ),
        *[
            (
                ("spec", "securityContext"),
                {"appArmorProfile": {"type": kind, "localhostProfile": name}},
                "spec.securityContext.appArmorProfile.localhostProfile",
            )
            for kind, name in (("RuntimeDefault", "x"), ("Unconfined", ""), ("Localhost", " x"), ("Localhost", " "))
        ],
        *[
            (
                ("spec", "securityContext"),
                {"seccompProfile": {"type": kind, "localhostProfile": name}},
                "spec.securityContext.seccompProfile.localhostProfile",
            )
            for kind, name in (("RuntimeDefault", "x"), ("Localhost", None), ("Localhost", "/x"))
        ],
        (("spec", "securityContext"), {"appArmorProfile": {"type": ""}}, "spec.securityContext.appArmorProfile.type"),
        (("spec", "securityContext"), {"seccompProfile": {"type": ""}}, "spec.securityContext.seccompProfile.type"),
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
        *[
            (
                (*MAIN, "securityContext"),
                {"allowPrivilegeEscalation": False, "capabilities": {"add": [name]}},
                "spec.containers[0].securityContext.allowPrivilegeEscalation",
            )
            for name in ("SYS_ADMIN", "CAP_SYS_ADMIN")
        ],
        ((*MAIN, "securityContext"), {"procMount": "None"}, "spec.containers[0].securityContext.procMount"),
        (
            (*MAIN, "resources"),
            {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "2Mi"}},
            "spec.containers[0].resources.requests[hugepages-2Mi]",
        ),
        (
            (*MAIN, "volumeMounts"),
            [{"name": "data", "mountPath": "/a:b"}],
            "spec.containers[0].volumeMounts[0].mountPath",
        ),
        (
            (*MAIN, "volumeMounts"),
            [{"name": "data", "mountPath": "/a", "subPath": "a", "subPathExpr": "b"}],
            "spec.containers[0].volumeMounts[0].subPathExpr",
        ),
        ((*MAIN, "volumeDevices"), [{"name": "no", "devicePath": "/a"}], "spec.containers[0].volumeDevices[0].name"),
        (
            (*MAIN, "volumeDevices"),
            [{"name": "data", "devicePath": "/a/../b"}],
            "spec.containers[0].volumeDevices[0].devicePath",
        ),
        (
            (*MAIN, "ports"),
            [{"containerPort": 1, "protocol": ""}] * 1 + [{"containerPort": 65536}],
            "spec.containers[0].ports[1].containerPort",
        ),
        ((*MAIN, "ports"), [{"containerPort": 1, "hostIP": "x"}], "spec.containers[0].ports[0].hostIP"),
        (
            (*MAIN, "ports"),
            [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}],
            "spec.containers[0].ports[1].name",
        ),
        (
            (*MAIN, "env"),
            [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "spec.containers[0].env[0].valueFrom",
        ),
        (
            (*MAIN, "env"),
            [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}],
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource",
        ),
        (
            (*MAIN, "env"),
            [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a/b"}}}],
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key",
        ),
        ((*MAIN, "envFrom"), [{"secretRef": {"name": ""}}], "spec.containers[0].envFrom[0].secretRef.name"),
        ((*MAIN, "envFrom"), [{"prefix": "a=", "secretRef": {"name": "s"}}], "spec.containers[0].envFrom[0].prefix"),
        (
            (*MAIN, "readinessProbe"),
            {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 1},
            "spec.containers[0].readinessProbe.terminationGracePeriodSeconds",
        ),
        (
            (*MAIN, "startupProbe"),
            {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 0},
            "spec.containers[0].startupProbe.terminationGracePeriodSeconds",
        ),
        (
            (*MAIN, "startupProbe"),
            {"exec": {"command": ["a"]}, "initialDelaySeconds": -1},
            "spec.containers[0].startupProbe.initialDelaySeconds",
        ),
        ((*MAIN, "startupProbe"), {"grpc": {"port": 0}}, "spec.containers[0].startupProbe.grpc.port"),
        ((*MAIN, "startupProbe"), {"tcpSocket": {"port": "-"}}, "spec.containers[0].startupProbe.tcpSocket.port"),
        (
            (*MAIN, "startupProbe"),
            {"exec": {"command": ["a"]}, "grpc": {"port": 1}},
            "spec.containers[0].startupProbe",
        ),
        (
            (*MAIN, "lifecycle"),
            {"postStart": {"httpGet": {"port": 1, "scheme": "FTP"}}},
            "spec.containers[0].lifecycle.postStart.httpGet.scheme",
        ),
        (
            (*MAIN, "lifecycle"),
            {"postStart": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b", "value": ""}]}}},
            "spec.containers[0].lifecycle.postStart.httpGet.httpHeaders[0].name",
        ),
        (("spec", "initContainers", 0, "startupProbe"), {"grpc": {"port": 1}}, "spec.initContainers[0].startupProbe"),
        (("spec", "volumes", 0, "name"), "secret", "spec.volumes[1].name"),
        (
            ("spec", "volumes", 0),
            {"name": "data", "emptyDir": {"sizeLimit": "-1"}},
            "spec.volumes[0].emptyDir.sizeLimit",
        ),
        (("spec", "volumes", 0), {"name": "data", "hostPath": {"path": ""}}, "spec.volumes[0].hostPath.path"),
        (
            ("spec", "volumes", 0),
            {"name": "data", "configMap": {"name": "m", "items": [{"key": "", "path": "..x", "mode": 512}]}},
            "spec.volumes[0].configMap.items[0].mode",
        ),
        (
            ("spec", "volumes", 0),
            {"name": "data", "configMap": {"name": "m", "items": [{"key": "k", "path": "..x"}]}},
            "spec.volumes[0].configMap.items[0].path",
        ),
        *[
            (
                ("spec", "volumes", 0),
                {"name": "data", "downwardAPI": {"items": [{"path": "p", **item}]}},
                f"spec.volumes[0].downwardAPI.items[0]{where}",
            )
            for item, where in (
                ({}, ""),
                ({"fieldRef": {"fieldPath": "spec.nodeName"}}, ".fieldRef.fieldPath"),
                ({"fieldRef": {"fieldPath": "metadata.name['a']"}}, ".fieldRef.fieldPath"),
                ({"fieldRef": {"fieldPath": "metadata.labels['-']"}}, ".fieldRef.fieldPath"),
                ({"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}}, ".fieldRef.apiVersion"),
                ({"resourceFieldRef": {"resource": "limits.cpu"}}, ".resourceFieldRef.containerName"),
                ({"resourceFieldRef": {"containerName": "c", "resource": "cpu"}}, ".resourceFieldRef.resource"),
                (
                    {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "x"}},
                    ".resourceFieldRef.divisor",
                ),
            )
        ],
        (
            ("spec", "volumes", 0),
            {"name": "data", "projected": {"sources": [{"secret": {"name": "A"}}]}},
            "spec.volumes[0].projected.sources[0].secret.name",
        ),
        (
            ("spec", "volumes", 0),
            {"name": "data", "projected": {"sources": [{}]}},
            "spec.volumes[0].projected.sources[0]",
        ),
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


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "annotations"), {"x": "ä" * 131071 + "y"}),
        (("metadata", "annotations"), {"Example.com/X": ""}),
        (("spec", "os"), {"name": "linux"}),
        (("spec", "hostPID"), True),
        (("spec", "shareProcessNamespace"), True),
        (("spec", "dnsConfig"), {"nameservers": ["::1"] * 3, "searches": ["a."] * 32}),
        (("spec", "dnsConfig"), {"searches": ["."], "options": [{"name": "ndots", "value": "2"}]}),
        (("spec", "tolerations"), [{"key": "a", "value": "b"}, {"key": "a", "operator": "Equal", "value": "b"}]),
        (("spec", "tolerations"), [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}]),
        (("spec", "tolerations"), [{"operator": "Exists"}, {"key": "a", "operator": "Exists"}]),
        (("spec", "hostnameOverride"), "a" * 63),
        (("spec", "hostAliases"), [{"ip": "::1"}]),
        (("spec", "securityContext"), {"fsGroup": 2**31 - 1, "supplementalGroups": [0, 2**31 - 1]}),
        (("spec", "securityContext"), {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x y"}}),
        (("spec", "securityContext"), {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b"}}),
        ((*MAIN, "securityContext"), {"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_ADMIN"]}}),
        ((*MAIN, "securityContext"), {"allowPrivilegeEscalation": False}),
        ((*MAIN, "securityContext"), {"privileged": True, "allowPrivilegeEscalation": True}),
        ((*MAIN, "resources"), {"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "0"}}),
        ((*MAIN, "resources"), {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}),
        (
            (*MAIN, "ports"),
            [{"containerPort": 65535, "hostPort": 1}, {"containerPort": 1, "protocol": "UDP", "hostPort": 1}],
        ),
        ((*MAIN, "ports"), [{"containerPort": 1, "hostPort": 0}, {"containerPort": 2, "hostPort": 0}]),
        ((*MAIN, "volumeDevices"), [{"name": "data", "devicePath": "/dev/..a"}]),
        ((*MAIN, "volumeMounts"), [{"name": "data", "mountPath": "/a", "mountPropagation": "HostToContainer"}]),
        ((*MAIN, "readinessProbe"), {"exec": {"command": ["a"]}, "successThreshold": 2}),
        ((*MAIN, "startupProbe"), {"grpc": {"port": 65535}, "terminationGracePeriodSeconds": 1}),
        ((*MAIN, "startupProbe"), {"tcpSocket": {"port": 1}}),
        ((*MAIN, "lifecycle"), {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"httpGet": {"port": 1}}}),
        ((*MAIN, "restartPolicyRules"), None),
        (
            ("spec", "volumes", 0),
            {
                "name": "data",
                "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels['a']"}}]},
            },
        ),
        (
            ("spec", "volumes", 0),
            {
                "name": "data",
                "downwardAPI": {
                    "items": [
                        {"path": "p", "resourceFieldRef": {"containerName": "c", "resource": f"requests.{resource}"}}
                        for resource in ("cpu", "hugepages-2Mi")
                    ]
                },
            },
        ),
        (("spec", "volumes", 0), {"name": "data", "flexVolume": {"driver": "a/b", "options": {"my.example/x": "y"}}}),
        (("spec", "volumes", 0), {"name": "data", "hostPath": {"path": "/a", "type": "Socket"}}),
    ],
)
def test_values_at_the_limits_are_valid(path, value):
    assert problems(changed(path, value)) == []


def test_capability_and_privileged_are_separate_problems():
    value = {"allowPrivilegeEscalation": False, "privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    assert [problem.rule for problem in problems(changed((*MAIN, "securityContext"), value))] == [
        "must not be false in a privileged container",
        "must not be false with capability SYS_ADMIN",
    ]


def test_bidirectional_propagation_is_valid_in_a_privileged_container():
    pod = changed((*MAIN, "securityContext"), {"privileged": True})
    pod["spec"]["containers"][0]["volumeMounts"][0]["mountPropagation"] = "Bidirectional"
    assert problems(pod) == []


@pytest.mark.parametrize(("host_port", "valid"), [(0, True), (80, True), (81, False)])
def test_host_port_is_the_container_port_in_the_network_of_the_host(host_port, valid):
    pod = changed((*MAIN, "ports"), [{"containerPort": 80, "hostPort": host_port}])
    assert problems(pod) == []
    pod["spec"]["hostNetwork"] = True
    assert (problems(pod) == []) is valid


def test_hostname_override_excludes_other_settings():
    pod = changed(("spec", "hostnameOverride"), "a.b")
    pod["spec"] |= {"setHostnameAsFQDN": True, "hostNetwork": True}
    assert [problem.rule for problem in problems(pod)] == [
        "must not be set together with setHostnameAsFQDN",
        "must not be set together with hostNetwork",
    ]
    assert len(problems(changed(("spec", "hostnameOverride"), "_" * 65))) == 1


def test_shared_process_namespace_excludes_that_of_the_host():
    pod = changed(("spec", "shareProcessNamespace"), True)
    pod["spec"]["hostPID"] = True
    assert [problem.path for problem in problems(pod)] == ["spec.shareProcessNamespace"]


def test_negative_and_low_values_have_their_own_rules():
    pod = changed((*MAIN, "startupProbe"), {"exec": {"command": ["a"]}, "periodSeconds": -1})
    pod["spec"]["containers"][0]["startupProbe"]["terminationGracePeriodSeconds"] = 0
    assert [problem.rule for problem in problems(pod)] == ["must not be negative", "must be at least 1"]
