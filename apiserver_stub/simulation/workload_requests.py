"""Requests of users for cron jobs, and for volumes, claims and the pods that use them."""

from __future__ import annotations

from typing import Any

from apiserver_stub.simulation.client import MERGE
from apiserver_stub.simulation.kubelet import SLOW_IMAGE
from apiserver_stub.simulation.requests import Requests

_SIZE = "1Gi"


def pod_spec(policy: str, *, claim: str = "", image: str = "example/image:1") -> dict[str, Any]:
    """Return the specification of a pod with one container."""
    spec: dict[str, Any] = {"restartPolicy": policy, "containers": [{"name": "main", "image": image}]}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return spec


class WorkloadRequests:
    """Steps that create and delete these objects."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def apply_cron_job(self, namespace: str, policy: str, suspend: bool) -> None:
        """Create the cron job with a concurrency policy, or suspend or resume it."""
        path, name = f"/apis/batch/v1/namespaces/{namespace}/cronjobs", policy.lower()
        spec = {
            "schedule": "*/2 * * * *",
            "concurrencyPolicy": policy,
            "suspend": suspend,
            "successfulJobsHistoryLimit": 2,
            "jobTemplate": {"spec": {"completions": 1, "template": {"spec": pod_spec("Never", image=SLOW_IMAGE)}}},
        }
        if (await self._requests.send("POST", path, {"metadata": {"name": name}, "spec": spec})).code == 409:
            await self._requests.send("PATCH", f"{path}/{name}", {"spec": {"suspend": suspend}}, MERGE)

    async def delete_cron_job(self, namespace: str, policy: str, suspend: bool) -> None:
        """Delete a cron job with its jobs."""
        await self._requests.send("DELETE", f"/apis/batch/v1/namespaces/{namespace}/cronjobs/{policy.lower()}")

    async def create_volume(self, number: int) -> None:
        """Create a volume of any namespace."""
        name = f"volume-{number}"
        spec = {
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/data/{name}"},
        }
        await self._requests.send("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    async def delete_volume(self, number: int) -> None:
        """Delete a volume; it remains until its claim is deleted."""
        await self._requests.send("DELETE", f"/api/v1/persistentvolumes/volume-{number}")

    async def create_claim(self, namespace: str, name: str, volume: int | None) -> None:
        """Create a claim, of one volume or of any."""
        spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": _SIZE}}}
        spec["storageClassName"] = ""
        if volume is not None:
            spec["volumeName"] = f"volume-{volume}"
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        await self._requests.send("POST", path, {"metadata": {"name": name}, "spec": spec})

    async def delete_claim(self, namespace: str, name: str, volume: int | None) -> None:
        """Delete a claim; it remains while pods use it."""
        await self._requests.send("DELETE", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")

    async def create_claim_pod(self, namespace: str, name: str) -> None:
        """Create a pod that uses a claim of the same name, whether the claim exists or not."""
        body = {"metadata": {"name": name}, "spec": pod_spec("Always", claim=name)}
        await self._requests.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    async def delete_claim_pod(self, namespace: str, name: str) -> None:
        """Delete such a pod."""
        await self._requests.send("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
