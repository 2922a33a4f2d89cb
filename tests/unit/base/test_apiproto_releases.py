"""Tests for the fields that Kubernetes 1.30 to 1.36 added to pods and nodes: numbers, releases and merge keys."""

from __future__ import annotations

import pytest

from nodeagent.base import apiproto

ADDED = {
    "PodSpec": {"resources": (40, 32), "hostnameOverride": (41, 34), "schedulingGroup": (43, 36)},
    "PodCondition": {"observedGeneration": (7, 33)},
    "PodStatus": {
        "observedGeneration": (17, 33),
        "extendedResourceClaimStatus": (18, 34),
        "allocatedResources": (19, 35),
        "resources": (20, 35),
        "nodeAllocatableResourceClaimStatuses": (21, 36),
    },
    "PodSecurityContext": {
        "appArmorProfile": (11, 30),
        "supplementalGroupsPolicy": (12, 31),
        "seLinuxChangePolicy": (13, 32),
    },
    "SecurityContext": {"appArmorProfile": (12, 30)},
    "Container": {"restartPolicyRules": (25, 34)},
    "EphemeralContainerCommon": {"restartPolicyRules": (25, 34)},
    "ContainerStatus": {
        "volumeMounts": (12, 30),
        "user": (13, 31),
        "allocatedResourcesStatus": (14, 31),
        "stopSignal": (15, 33),
    },
    "ResourceClaim": {"request": (2, 31)},
    "PodResourceClaim": {"resourceClaimName": (3, 31), "resourceClaimTemplateName": (4, 31)},
    "EnvVarSource": {"fileKeyRef": (5, 34)},
    "Lifecycle": {"stopSignal": (3, 33)},
    "VolumeMount": {"recursiveReadOnly": (7, 30)},
    "VolumeSource": {"image": (30, 31)},
    "VolumeProjection": {"podCertificate": (6, 34)},
    "NodeStatus": {"runtimeHandlers": (12, 30), "features": (13, 31), "declaredFeatures": (14, 35)},
    "NodeSystemInfo": {"swap": (11, 33)},
    "ServiceSpec": {"trafficDistribution": (23, 30)},
}
"""Number and release of each field by message."""

NEW_MESSAGES = {
    "AppArmorProfile": {"type": 1, "localhostProfile": 2},
    "ContainerExtendedResourceRequest": {"containerName": 1, "resourceName": 2, "requestName": 3},
    "ContainerRestartRule": {"action": 1, "exitCodes": 2},
    "ContainerRestartRuleOnExitCodes": {"operator": 1, "values": 2},
    "ContainerUser": {"linux": 1},
    "FileKeySelector": {"volumeName": 1, "path": 2, "key": 3, "optional": 4},
    "ImageVolumeSource": {"reference": 1, "pullPolicy": 2},
    "ImageVolumeStatus": {"imageRef": 1},
    "LinuxContainerUser": {"uid": 1, "gid": 2, "supplementalGroups": 3},
    "NodeAllocatableResourceClaimStatus": {"resourceClaimName": 1, "containers": 2, "resources": 3},
    "NodeFeatures": {"supplementalGroupsPolicy": 1},
    "NodeRuntimeHandler": {"name": 1, "features": 2},
    "NodeRuntimeHandlerFeatures": {"recursiveReadOnlyMounts": 1, "userNamespaces": 2},
    "NodeSwapStatus": {"capacity": 1},
    "PodCertificateProjection": {
        "signerName": 1,
        "keyType": 2,
        "maxExpirationSeconds": 3,
        "credentialBundlePath": 4,
        "keyPath": 5,
        "certificateChainPath": 6,
        "userAnnotations": 7,
    },
    "PodExtendedResourceClaimStatus": {"requestMappings": 1, "resourceClaimName": 2},
    "PodSchedulingGroup": {"podGroupName": 1},
    "ResourceHealth": {"resourceID": 1, "health": 2, "message": 6},
    "ResourceStatus": {"name": 1, "resources": 2},
    "VolumeMountStatus": {"name": 1, "mountPath": 2, "readOnly": 3, "recursiveReadOnly": 4, "volumeStatus": 5},
    "VolumeStatus": {"image": 1},
}


def messages():
    pod = apiproto.descriptor("v1", "Pod")
    return pod.file.message_types_by_name


@pytest.mark.parametrize("message", ADDED)
def test_added_field_has_its_published_number_and_release(message):
    fields = messages()[message].fields_by_name
    found = {name: (fields[name].number, apiproto.field_properties(fields[name]).since) for name in ADDED[message]}

    assert found == ADDED[message]


@pytest.mark.parametrize("message", NEW_MESSAGES)
def test_fields_of_a_new_message_have_published_numbers(message):
    assert {field.name: field.number for field in messages()[message].fields} == NEW_MESSAGES[message]


def test_source_of_a_resource_claim_ends_with_release_31():
    source = messages()["PodResourceClaim"].fields_by_name["source"]

    assert (source.number, apiproto.field_properties(source).until) == (2, 31)


def test_added_fields_survive_encoding():
    spec = {
        "containers": [
            {
                "name": "c",
                "resources": {"claims": [{"name": "gpu", "request": "one"}]},
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3, 4]}}],
                "env": [
                    {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
                ],
                "lifecycle": {"stopSignal": "SIGUSR1"},
                "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "strict"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}],
            }
        ],
        "volumes": [{"name": "v", "image": {"reference": "a/b:1", "pullPolicy": "Always"}}],
        "securityContext": {"supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "Recursive"},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}, {"name": "old", "source": {}}],
        "resources": {"limits": {"cpu": "2"}},
        "hostnameOverride": "",
        "schedulingGroup": {"podGroupName": "g"},
    }
    status = {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec, "status": status}

    assert apiproto.decode(apiproto.encode(pod)) == pod
