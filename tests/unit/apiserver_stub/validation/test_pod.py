"""Tests for the validation of new pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod import validate_new_pod
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import container, found, pod

_OPTIONS = PodOptions(is_pod=True, identity=Identity())


def causes_of(**spec: Any) -> list[str]:
    return found(validate_new_pod(pod(serviceAccountName="default", **spec), _OPTIONS))


def test_minimal_pod_is_valid() -> None:
    assert causes_of() == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": []}, ["Required spec.containers"]),
        ({"restartPolicy": "Sometimes"}, ["NotSupported spec.restartPolicy"]),
        ({"restartPolicy": "", "dnsPolicy": "", "terminationGracePeriodSeconds": None}, []),
        ({"dnsPolicy": "None"}, ["Required spec.dnsConfig"]),
        ({"dnsPolicy": "None", "dnsConfig": {}}, ["Required spec.dnsConfig.nameservers"]),
        (
            {"dnsConfig": {"nameservers": ["a"], "searches": ["A"]}},
            ["Invalid spec.dnsConfig.nameservers[0]", "Invalid spec.dnsConfig.searches[0]"],
        ),
        ({"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, ["Invalid spec.dnsConfig.nameservers"]),
        ({"nodeSelector": {"-a": "b"}}, ["Invalid spec.nodeSelector"]),
        ({"activeDeadlineSeconds": 0}, ["Invalid spec.activeDeadlineSeconds"]),
        ({"hostname": "a.b"}, ["Invalid spec.hostname"]),
        (
            {"hostAliases": [{"ip": "a", "hostnames": ["A"]}]},
            ["Invalid spec.hostAliases.ip", "Invalid spec.hostAliases.hostnames"],
        ),
        ({"preemptionPolicy": ""}, ["Required spec.preemptionPolicy"]),
        ({"runtimeClassName": ""}, ["Invalid spec.runtimeClassName"]),
        ({"overhead": {"cpu": "-1"}}, ["Invalid spec.overhead.limits[cpu]"]),
        ({"readinessGates": [{"conditionType": "a b"}]}, ["Invalid spec.readinessGates[0].conditionType"]),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, ["Duplicate spec.schedulingGates[1]"]),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "node-1"}, ["Forbidden spec.nodeName"]),
        ({"ephemeralContainers": [container(name="debug")]}, ["Forbidden spec.ephemeralContainers"]),
        (
            {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
            ["Invalid spec.containers[0].ports[0].hostPort"],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["Invalid spec.topologySpreadConstraints[0].maxSkew"],
        ),
    ],
)
def test_fields_of_the_spec(spec: dict[str, Any], expected: list[str]) -> None:
    assert causes_of(**spec) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"image": ""}, ["Required image"]),
        ({"image": " web"}, ["Invalid image"]),
        ({"name": "a.b"}, ["Invalid name"]),
        ({"imagePullPolicy": "Often"}, ["NotSupported imagePullPolicy"]),
        ({"terminationMessagePolicy": "Log"}, ["NotSupported terminationMessagePolicy"]),
        ({"restartPolicy": "Always"}, ["Forbidden restartPolicy"]),
        ({"env": [{"name": "1A"}]}, ["Invalid env[0].name"]),
        ({"env": [{"name": "A", "valueFrom": {}}]}, ["Invalid env[0].valueFrom"]),
        (
            {"env": [{"name": "A", "value": "a", "valueFrom": {"secretKeyRef": {"name": "a", "key": "a/b"}}}]},
            ["Invalid env[0].valueFrom.secretKeyRef.key", "Invalid env[0].valueFrom"],
        ),
        ({"envFrom": [{}]}, ["Invalid envFrom"]),
        (
            {"envFrom": [{"prefix": "1", "secretRef": {}}]},
            ["Invalid envFrom[0].prefix", "Required envFrom[0].secretRef.name"],
        ),
        ({"livenessProbe": {"exec": {}}}, ["Required livenessProbe.exec.command"]),
        ({"livenessProbe": {}}, ["Required livenessProbe"]),
        (
            {"livenessProbe": {"tcpSocket": {"port": "80"}, "successThreshold": 2}},
            ["Invalid livenessProbe.tcpSocket.port", "Invalid livenessProbe.successThreshold"],
        ),
        ({"readinessProbe": {"grpc": {"port": 70000}, "successThreshold": 0}}, ["Invalid readinessProbe.grpc.port"]),
        (
            {"readinessProbe": {"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 1}},
            ["Invalid readinessProbe.terminationGracePeriodSeconds"],
        ),
        (
            {
                "startupProbe": {
                    "httpGet": {"port": 80, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]},
                    "exec": {"command": ["a"]},
                }
            },
            ["Forbidden startupProbe.httpGet"],
        ),
        ({"lifecycle": {"preStop": {}}}, ["Required lifecycle.preStop"]),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, ["Invalid lifecycle.preStop.sleep"]),
        ({"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, ["Invalid securityContext"]),
        (
            {"securityContext": {"runAsUser": -1, "procMount": "All"}},
            ["Invalid securityContext.runAsUser", "NotSupported securityContext.procMount"],
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            ["Required securityContext.seccompProfile.localhostProfile"],
        ),
        ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, ["Invalid resources.requests"]),
        ({"resources": {"requests": {"example.com/gpu": "1"}}}, ["Required resources.limits"]),
        ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, ["Forbidden resources"]),
        (
            {"resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}},
            ["Invalid resources.limits[hugepages-2Mi]", "Invalid resources.requests[hugepages-2Mi]"],
        ),
        ({"resources": {"claims": [{"name": "a"}]}}, ["NotFound resources.claims[0]"]),
        ({"resizePolicy": [{"resourceName": "gpu"}]}, ["NotSupported resizePolicy", "Required resizePolicy"]),
    ],
)
def test_fields_of_a_container(fields: dict[str, Any], expected: list[str]) -> None:
    causes = causes_of(containers=[container(**fields)])

    assert [text.replace("spec.containers[0].", "") for text in causes] == expected


def test_container_names_are_unique_across_kinds() -> None:
    causes = causes_of(containers=[container(), container()], initContainers=[container()])

    assert causes == ["Duplicate spec.containers[1].name", "Duplicate spec.initContainers[0].name"]


def test_probes_need_a_restartable_init_container() -> None:
    probe = {"exec": {"command": ["true"]}}
    ends = container(name="i", livenessProbe=probe)

    assert causes_of(initContainers=[ends]) == ["Forbidden spec.initContainers[0].livenessProbe"]
    assert causes_of(initContainers=[{**ends, "restartPolicy": "Always"}]) == []


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ({"name": "data", "mountPath": "/data"}, []),
        ({"name": "other", "mountPath": "/data"}, ["NotFound volumeMounts[0].name"]),
        ({"name": "data"}, ["Required volumeMounts[0].mountPath"]),
        ({"name": "data", "mountPath": "/data", "subPath": "../a"}, ["Invalid volumeMounts.subPath"]),
        (
            {"name": "data", "mountPath": "/data", "subPath": "a", "subPathExpr": "b"},
            ["Invalid volumeMounts[0].subPathExpr"],
        ),
        (
            {"name": "data", "mountPath": "/data", "mountPropagation": "Bidirectional"},
            ["Forbidden volumeMounts.mountPropagation"],
        ),
        ({"name": "data", "mountPath": "/data", "mountPropagation": "HostToContainer"}, []),
        (
            {"name": "data", "mountPath": "/data", "mountPropagation": "Both"},
            ["NotSupported volumeMounts.mountPropagation"],
        ),
    ],
)
def test_volume_mounts(mount: dict[str, Any], expected: list[str]) -> None:
    causes = causes_of(containers=[container(volumeMounts=[mount])], volumes=[{"name": "data"}])

    assert [text.replace("spec.containers[0].", "") for text in causes] == expected


def test_privileged_container_may_propagate_its_mounts() -> None:
    mount = {"name": "data", "mountPath": "/data", "mountPropagation": "Bidirectional"}
    privileged = container(volumeMounts=[mount], securityContext={"privileged": True})

    assert causes_of(containers=[privileged], volumes=[{"name": "data"}]) == []


def test_block_devices_need_a_claim() -> None:
    volumes = [{"name": "data"}, {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    devices = [{"name": "data", "devicePath": "/a"}, {"name": "disk", "devicePath": "/../b"}]

    assert causes_of(containers=[container(volumeDevices=devices)], volumes=volumes) == [
        "Invalid spec.containers[0].volumeDevices[0].name",
        "Invalid spec.containers[0].volumeDevices[1].devicePath",
    ]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"name": "A"}, ["Invalid name"]),
        ({"name": "a", "configMap": {}}, ["Required configMap.name"]),
        ({"name": "a", "secret": {"secretName": "a", "defaultMode": 0o1000}}, ["Invalid secret.defaultMode"]),
        (
            {"name": "a", "secret": {"secretName": "a", "items": [{"key": "k", "path": "..k"}]}},
            ["Invalid secret.items[0].path"],
        ),
        ({"name": "a", "hostPath": {"path": "/a/../b"}}, ["Invalid hostPath.path"]),
        ({"name": "a", "emptyDir": {"sizeLimit": "-1"}, "nfs": {}}, ["Forbidden emptyDir.sizeLimit", "Forbidden nfs"]),
        ({"name": "a", "downwardAPI": {"items": [{"path": "a"}]}}, ["Required downwardAPI"]),
        (
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}},
            ["Invalid projected.sources[0].serviceAccountToken.expirationSeconds"],
        ),
        (
            {
                "name": "a",
                "projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "p"}] * 2}}]},
            },
            ["Invalid projected"],
        ),
        ({"name": "a", "ephemeral": {}}, ["Required ephemeral.volumeClaimTemplate"]),
        ({"name": "a", "csi": {"driver": "a", "nodePublishSecretRef": {}}}, ["Required csi.nodePublishSecretRef.name"]),
    ],
)
def test_volumes(volume: dict[str, Any], expected: list[str]) -> None:
    assert [text.replace("spec.volumes[0].", "") for text in causes_of(volumes=[volume])] == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"runAsUser": -1}, ["Invalid spec.securityContext.runAsUser"]),
        ({"supplementalGroups": [-1]}, ["Invalid spec.securityContext.supplementalGroups[0]"]),
        ({"fsGroupChangePolicy": "Never"}, ["NotSupported spec.securityContext.fsGroupChangePolicy"]),
        (
            {"sysctls": [{"name": "foo-"}, {"name": "bar.."}]},
            ["Invalid spec.securityContext.sysctls[0].name", "Invalid spec.securityContext.sysctls[1].name"],
        ),
        ({"sysctls": [{"name": "net/ipv4.x", "value": "1"}]}, ["Invalid spec.securityContext.sysctls[0].name"]),
        (
            {"windowsOptions": {"runAsUserName": "a\\b\\c"}},
            ["Invalid spec.securityContext.windowsOptions.runAsUserName"],
        ),
    ],
)
def test_security_context_of_the_pod(context: dict[str, Any], expected: list[str]) -> None:
    assert causes_of(securityContext=context, hostNetwork=True) == expected


def test_fields_depend_on_the_operating_system() -> None:
    security = {"windowsOptions": {"hostProcess": True}, "privileged": True}

    linux = causes_of(os={"name": "linux"}, hostNetwork=True, containers=[container(securityContext=security)])
    windows = causes_of(os={"name": "windows"}, hostNetwork=True, containers=[container(securityContext=security)])

    assert linux == ["Forbidden spec.containers[0].securityContext.windowsOptions"]
    assert windows == ["Forbidden spec.containers[0].securityContext.privileged"]
    assert causes_of(os={"name": "plan9"}) == ["NotSupported spec.os"]


def test_host_processes_need_the_host_network() -> None:
    other = container(name="other")
    security = {"windowsOptions": {"hostProcess": True}}

    assert causes_of(containers=[container(securityContext=security), other]) == [
        "Invalid spec",
        "Invalid spec.hostNetwork",
    ]


def test_privileged_containers_need_the_permission_of_the_server() -> None:
    made = pod(serviceAccountName="default", containers=[container(securityContext={"privileged": True})])

    causes = validate_new_pod(made, PodOptions(is_pod=True, allow_privileged=False, identity=Identity()))

    assert found(causes) == ["Forbidden spec.containers[0].securityContext.privileged"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"kubernetes.io/config.mirror": "a"}, ["Invalid metadata.annotations[kubernetes.io/config.mirror]"]),
        (
            {"controller.kubernetes.io/pod-deletion-cost": "010"},
            ["Invalid metadata.annotations[controller.kubernetes.io/pod-deletion-cost]"],
        ),
        ({"scheduler.alpha.kubernetes.io/tolerations": "x"}, ["Invalid metadata.annotations"]),
        (
            {"seccomp.security.alpha.kubernetes.io/pod": "x"},
            ["Invalid metadata.annotations.seccomp.security.alpha.kubernetes.io/pod"],
        ),
        (
            {"container.apparmor.security.beta.kubernetes.io/other": "x"},
            ["Invalid metadata.annotations[container.apparmor.security.beta.kubernetes.io/other]"] * 2,
        ),
    ],
)
def test_annotations(annotations: dict[str, str], expected: list[str]) -> None:
    made = pod(metadata={"annotations": annotations}, serviceAccountName="default")

    assert found(validate_new_pod(made, _OPTIONS)) == expected


def test_mirror_pod_has_no_token() -> None:
    sources = [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]
    made = pod(
        metadata={"annotations": {"kubernetes.io/config.mirror": "a"}},
        nodeName="n",
        volumes=[{"name": "v", "projected": {"sources": sources}}],
    )

    assert found(validate_new_pod(made, _OPTIONS)) == [
        "Forbidden spec.volumes[0].projected.sources[1].serviceAccountToken"
    ]


def test_seccomp_annotation_matches_the_field() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "localhost/a"}
    profile = {"type": "Localhost", "localhostProfile": "b"}
    made = pod(
        metadata={"annotations": annotations},
        serviceAccountName="default",
        securityContext={"seccompProfile": profile},
    )

    assert found(validate_new_pod(made, _OPTIONS)) == ["Forbidden spec.securityContext.seccompProfile.localhostProfile"]
