"""Sources of devices: a device plugin, and a DRA driver whose devices pods claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tests import device_plugin, dra_driver
from tests.integration.programs import NODE, ApiServer, NodeAgent, Program, simple_pod

DEVICES = 8
WIDGET = "example.com/widget"
_DRIVER = "gpu.example.com"
_GROUP = "/apis/resource.k8s.io/v1"
_IDS, _GPU = b"WIDGETS=", b"DEVICE_gpu_"


class HasDirectory(Protocol):
    """Runtime whose CDI specs are in ``cdi`` of its directory."""

    directory: Path


class Source(Program):
    """Process that offers eight devices.

    :ivar api_options: options of the API server.
    """

    api_options: tuple[str, ...] = ()

    def start(self) -> None:
        raise NotImplementedError

    def publish(self, api: ApiServer) -> None:
        """Create the objects that pods refer to."""

    def is_ready(self, node: Mapping[str, Any]) -> bool:
        """Return whether devices can be allocated on *node*."""
        raise NotImplementedError

    def pod(self, name: str, count: int) -> dict[str, Any]:
        """Return a pod with *count* devices."""
        raise NotImplementedError

    def devices(self, variables: Iterable[bytes]) -> tuple[str, ...]:
        """Return the devices of a container with these environment variables."""
        raise NotImplementedError

    def in_use(self) -> set[str] | None:
        """Return the devices that the process has prepared, ``None`` if it does not record them."""
        return None


class DevicePlugin(Source):
    """Device plugin."""

    def __init__(self, directory: Path, agent: NodeAgent, runtime: HasDirectory) -> None:
        super().__init__("plugin", directory)
        self.control, self._sockets = device_plugin.Control(directory / "p"), agent.root / "device-plugins"
        self.control.set_devices([{"id": f"w{number}"} for number in range(DEVICES)])

    def start(self) -> None:
        self._sockets.mkdir(parents=True, exist_ok=True)
        self.launch(
            "tests.device_plugin", "--resource", WIDGET, "--directory", str(self._sockets),
            "--state", str(self.control.directory), "--preferences",
        )  # fmt: skip

    def is_ready(self, node: Mapping[str, Any]) -> bool:
        return bool(node["status"].get("allocatable", {}).get(WIDGET) == str(DEVICES))

    def pod(self, name: str, count: int) -> dict[str, Any]:
        return simple_pod(name, nodeName=NODE, container=_container(name, limits={WIDGET: str(count)}))

    def devices(self, variables: Iterable[bytes]) -> tuple[str, ...]:
        ids = [each.removeprefix(_IDS).decode() for each in variables if each.startswith(_IDS)]
        return tuple(filter(None, ids[0].split(","))) if ids else ()


class ClaimDriver(Source):
    """DRA driver; pods claim its devices."""

    api_options = ("--compatibility-version=1.36",)

    def __init__(self, directory: Path, agent: NodeAgent, runtime: HasDirectory) -> None:
        super().__init__("driver", directory)
        self.control, self._agent, self._cdi = dra_driver.Control(directory / "d"), agent, runtime.directory / "cdi"

    def start(self) -> None:
        assert self._agent.api is not None
        self.launch(
            "tests.dra_driver", "--name", _DRIVER, "--root", str(self._agent.root), "--cdi", str(self._cdi),
            "--state", str(self.control.directory), "--facts", str(self._agent.api.data / "ready.json"),
        )  # fmt: skip

    def publish(self, api: ApiServer) -> None:
        api.request("POST", f"{_GROUP}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        for count in range(1, DEVICES + 1):
            requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]
            body = {"metadata": {"name": f"gpu-{count}"}, "spec": {"spec": {"devices": {"requests": requests}}}}
            api.request("POST", f"{_GROUP}/namespaces/default/resourceclaimtemplates", body)
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(DEVICES)]
        spec = {"driver": _DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
        api.request("POST", f"{_GROUP}/resourceslices", {"metadata": {"name": "gpus"}, "spec": spec})

    def is_ready(self, node: Mapping[str, Any]) -> bool:
        return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])

    def pod(self, name: str, count: int) -> dict[str, Any]:
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"gpu-{count}"}]
        return simple_pod(name, container=_container(name, claims=[{"name": "gpu"}]), resourceClaims=claims)

    def devices(self, variables: Iterable[bytes]) -> tuple[str, ...]:
        names = [each.partition(b"=")[0].decode() for each in variables if each.startswith(_GPU)]
        return tuple(name.removeprefix("DEVICE_").replace("_", "-") for name in names)

    def in_use(self) -> set[str]:
        return {device for devices in self.control.prepared().values() for device in devices}


def _container(name: str, **resources: Any) -> dict[str, Any]:
    return {"resources": resources, "env": [{"name": "KILLS_POD", "value": name}]}
