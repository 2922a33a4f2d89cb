"""Integration tests for an etcd that kube-apiserver has used: its stored versions, omitted defaults, damaged values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base import apiproto

from .etcd import Etcd, running_etcd, serving
from .test_limits import Client

APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
QUIET = ("--controllers=clusterrole-aggregation-controller", "--manage-volumes=false")
NEWEST = (
    "--compatibility-version=1.36",
    "--feature-gates=DRADeviceTaintRules=true",
    "--runtime-config=resource.k8s.io/v1beta2=true",
)
CONTAINER = {"name": "c", "image": "busybox"}


async def store(etcd: Etcd, key: str, value: bytes) -> None:
    async with etcd.client() as client:
        found = (await client.range(key.encode())).kvs
        assert (await client.put(key.encode(), value, expected=found[0].mod_revision if found else 0))[0]


async def store_object(etcd: Etcd, directory: str, api_version: str, kind: str, **fields: Any) -> None:
    """Store the object ``a`` as kube-apiserver does: as protobuf, without fields that it does not set."""
    namespace = "default/" if "namespace" in fields["metadata"] else ""
    value = apiproto.encode({"apiVersion": api_version, "kind": kind, **fields})
    await store(etcd, f"/registry/{directory}/{namespace}a", value)


async def call(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    code, _, reply = await client(method, path, json=body)
    return code, json.loads(reply)


async def label(client: Client, path: str) -> Any:
    """Update the object by a replacement, and return it."""
    _, found = await call(client, "GET", path)
    found["metadata"]["labels"] = {"changed": "yes"}
    code, updated = await call(client, "PUT", path, found)
    assert code == 200, updated
    return updated


async def test_endpoint_slices_of_version_v1beta1_are_served_and_updated(tmp_path: Path) -> None:
    topology = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "n", "example.com/rack": "r"}
    endpoints = [
        {"addresses": ["10.0.0.1"], "topology": topology, "nodeName": "n", "hints": {"forZones": [{"name": "z"}]}},
        {"addresses": ["10.0.0.2"], "topology": {"kubernetes.io/hostname": "n"}},
    ]
    async with running_etcd(tmp_path / "etcd") as etcd:
        for name in ("a", "kubernetes"):
            metadata = {"name": name, "namespace": "default", "uid": "u"}
            fields = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}
            value = {"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice", **fields}
            await store(etcd, f"/registry/endpointslices/default/{name}", apiproto.encode(value))
        async with serving(tmp_path / "data", f"--store-servers={etcd.url}") as client:
            _, listed = await call(client, "GET", SLICES)
            labeled = await label(client, f"{SLICES}/a")
            changed = {**labeled, "endpoints": [{**labeled["endpoints"][1], "conditions": {"ready": True}}]}
            _, replaced = await call(client, "PUT", f"{SLICES}/a", changed)
        stored = await etcd.stored("/registry/endpointslices/default/a")

    found = {item["metadata"]["name"]: item["endpoints"] for item in listed["items"]}
    assert found["a"] == [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {},
            "deprecatedTopology": {"example.com/rack": "r"},
            "nodeName": "n",
            "zone": "z",
            "hints": {"forZones": [{"name": "z"}]},
        },
        {"addresses": ["10.0.0.2"], "conditions": {}, "deprecatedTopology": {"kubernetes.io/hostname": "n"}},
    ]
    assert labeled["endpoints"] == found["a"]
    assert replaced["endpoints"] == [{"addresses": ["10.0.0.2"], "conditions": {"ready": True}, "nodeName": "n"}]
    assert len(found["kubernetes"]) == 1
    (value,) = (item.value for item in stored.values())
    assert apiproto.decode(value)["apiVersion"] == "discovery.k8s.io/v1"


async def test_stored_versions_that_are_not_served_are_converted(tmp_path: Path) -> None:
    policy = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "failurePolicy": "Fail"}
    taint = {"key": "example.com/broken", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}
    group = "admissionregistration.k8s.io"
    async with running_etcd(tmp_path / "etcd") as etcd:
        metadata = {"name": "a", "uid": "u"}
        version = f"{group}/v1beta1"
        await store_object(
            etcd, "mutatingadmissionpolicies", version, "MutatingAdmissionPolicy", metadata=metadata, spec=policy
        )
        await store_object(
            etcd,
            "mutatingadmissionpolicybindings",
            version,
            "MutatingAdmissionPolicyBinding",
            metadata=metadata,
            spec={"policyName": "a"},
        )
        await store_object(
            etcd,
            "devicetaintrules",
            "resource.k8s.io/v1alpha3",
            "DeviceTaintRule",
            metadata=metadata,
            spec={"deviceSelector": {"driver": "d"}, "taint": taint},
        )
        async with serving(tmp_path / "data", f"--store-servers={etcd.url}", *NEWEST) as client:
            _, found_policy = await call(client, "GET", f"/apis/{group}/v1/mutatingadmissionpolicies/a")
            _, binding = await call(client, "GET", f"/apis/{group}/v1/mutatingadmissionpolicybindings/a")
            _, rule = await call(client, "GET", "/apis/resource.k8s.io/v1beta2/devicetaintrules/a")

    assert (found_policy["apiVersion"], found_policy["spec"]["paramKind"]) == (f"{group}/v1", policy["paramKind"])
    assert (binding["apiVersion"], binding["spec"]) == (f"{group}/v1", {"policyName": "a"})
    assert (rule["apiVersion"], rule["spec"]["taint"]) == ("resource.k8s.io/v1beta2", taint)


async def test_objects_of_versions_of_an_earlier_release_are_converted(tmp_path: Path) -> None:
    policies, schemas = "validatingadmissionpolicies", "flowschemas"
    groups = {policies: "admissionregistration.k8s.io", schemas: "flowcontrol.apiserver.k8s.io"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    validations = [{"expression": "true"}]
    specs = {
        policies: {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
        schemas: {"priorityLevelConfiguration": {"name": "exempt"}},
    }
    beta = {policies: "v1beta1", schemas: "v1beta3"}
    options = (
        f"--runtime-config={groups[policies]}/v1beta1=true",
        "--feature-gates=ValidatingAdmissionPolicy=true",
    )
    async with serving(tmp_path / "data", "--compatibility-version=1.29", *options) as client:
        for plural, spec in specs.items():
            path = f"/apis/{groups[plural]}/{beta[plural]}/{plural}"
            code, reply = await call(client, "POST", path, {"metadata": {"name": "a"}, "spec": spec})
            assert code == 201, reply
    async with serving(tmp_path / "data", "--compatibility-version=1.36") as client:
        found = [await call(client, "GET", f"/apis/{groups[plural]}/v1/{plural}") for plural in specs]
        single = [await call(client, "GET", f"/apis/{groups[plural]}/v1/{plural}/a") for plural in specs]
        await label(client, f"/apis/{groups[schemas]}/v1/{schemas}/a")

    assert [code for code, _ in (*found, *single)] == [200] * 4
    assert all("a" in {item["metadata"]["name"] for item in listed["items"]} for _, listed in found)
    assert [obj["apiVersion"] for _, obj in single] == [f"{groups[plural]}/v1" for plural in specs]


async def test_jobs_of_an_earlier_release_are_updated(tmp_path: Path) -> None:
    template = {"metadata": {}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    async with serving(tmp_path / "data", "--compatibility-version=1.29", *QUIET) as client:
        job = {"metadata": {"name": "a"}, "spec": {"template": template, "suspend": True}}
        code, created = await call(client, "POST", f"{BATCH}/jobs", job)
        assert code == 201, created
    async with serving(tmp_path / "data", "--compatibility-version=1.36", *QUIET) as client:
        updated = await label(client, f"{BATCH}/jobs/a")

    assert created["spec"]["template"]["metadata"]["creationTimestamp"] is None
    assert "creationTimestamp" not in updated["spec"]["template"]["metadata"]
    assert updated["metadata"]["generation"] == created["metadata"]["generation"]


@pytest.mark.parametrize("release", ["1.29", "1.36"])
async def test_defaults_that_are_not_stored_are_served(tmp_path: Path, release: str) -> None:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    stateful = {
        "selector": {"matchLabels": labels},
        "template": template,
        "serviceName": "a",
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    job = {"manualSelector": True, "selector": {"matchLabels": labels}, "template": template}
    job["template"] = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}  # type: ignore[dict-item]
    async with running_etcd(tmp_path / "etcd") as etcd:
        await store_object(etcd, "persistentvolumeclaims", "v1", "PersistentVolumeClaim", metadata=metadata, spec=claim)
        await store_object(etcd, "statefulsets", "apps/v1", "StatefulSet", metadata=metadata, spec=stateful)
        await store_object(etcd, "jobs", "batch/v1", "Job", metadata=metadata, spec=job)
        options = (f"--store-servers={etcd.url}", f"--compatibility-version={release}", *QUIET)
        async with serving(tmp_path / "data", *options) as client:
            _, found_claim = await call(client, "GET", "/api/v1/namespaces/default/persistentvolumeclaims/a")
            updated = [await label(client, path) for path in (f"{APPS}/statefulsets/a", f"{BATCH}/jobs/a")]

    assert found_claim["status"] == {"phase": "Pending"}
    (claim_template,) = updated[0]["spec"]["volumeClaimTemplates"]
    assert (claim_template["apiVersion"], claim_template["kind"]) == ("v1", "PersistentVolumeClaim")
    assert updated[1]["spec"]["backoffLimit"] == 6
    assert ("creationTimestamp" in updated[1]["spec"]["template"]["metadata"]) is (release == "1.29")


async def test_server_starts_with_unreadable_objects_that_it_creates(tmp_path: Path) -> None:
    options = ("--compatibility-version=1.36", "--feature-gates=APIServerIdentity=true")
    async with running_etcd(tmp_path / "etcd") as etcd:
        async with serving(tmp_path / "data", f"--store-servers={etcd.url}", *options) as client:
            assert (await call(client, "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}))[0]
        keys = [key for key in await etcd.stored("/registry/") if "/secrets/" not in key]
        for key in keys:
            await store(etcd, key, b"damaged")
        async with serving(tmp_path / "data", f"--store-servers={etcd.url}", *options) as client:
            readable = await call(client, "GET", "/api/v1/secrets")
            unreadable = {
                kind: (await call(client, "GET", path))[0]
                for kind, path in {
                    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                    "endpointslices": "/apis/discovery.k8s.io/v1/endpointslices",
                    "namespaces": "/api/v1/namespaces",
                    "one": f"{SLICES}/kubernetes",
                }.items()
            }

    assert {key.split("/")[2] for key in keys} >= {"clusterroles", "endpointslices", "leases", "flowschemas"}
    assert [item["metadata"]["name"] for item in readable[1]["items"]] == ["s"]
    assert set(unreadable.values()) == {500}
