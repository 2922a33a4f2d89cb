"""The admission plugins that are always on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.objects import Object
from apiserver_stub.status import forbidden
from apiserver_stub.store import Store
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource

MIRROR = identity.current().label("config.mirror")
TOKEN_PATH = f"/var/run/secrets/{identity.current().label_domain}/serviceaccount"
_TOKEN_SECONDS = 3607
_PROTECTED = frozenset(["default", identity.current().system_namespace, "kube-public"])
_UNREACHABLE_SECONDS = 300


class NamespaceLifecycle(AdmissionPlugin):
    """Keeps the namespaces without which nothing works."""

    def delete(self, request: Request, resource: Resource, name: str) -> None:
        if resource.plural == "namespaces" and not resource.group and name in _PROTECTED:
            raise forbidden("", "namespaces", name, "this namespace may not be deleted")


class SigningRequestIdentity(AdmissionPlugin):
    """Writes into a signing request who made it, whatever the body says."""

    def create(self, request: Request, resource: Resource, new: Object) -> None:
        if resource.plural != "certificatesigningrequests":
            return
        spec, user = new.setdefault("spec", {}), request.user
        spec["username"], spec["groups"] = user.name, list(user.groups)
        for name, value in (("uid", user.uid), ("extra", {key: list(item) for key, item in user.extra.items()})):
            if value:
                spec[name] = value
            else:
                spec.pop(name, None)


class ServiceAccount(AdmissionPlugin):
    """Gives a pod its account, and the account's token as a volume where the pod wants one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, request: Request, resource: Resource, new: Object) -> None:
        if resource.plural != "pods":
            return
        metadata, spec = new["metadata"], new["spec"]
        name = spec.get("serviceAccountName") or ""
        if MIRROR in (metadata.get("annotations") or {}):
            if name:
                raise _refused(metadata, "a mirror pod may not reference service accounts")
            return
        name = spec["serviceAccountName"] = spec["serviceAccount"] = name or "default"
        record = self._store.collection("core/serviceaccounts").get(objects.key_of(metadata["namespace"], name))
        if record is None:
            raise _refused(
                metadata,
                f'error looking up service account {metadata["namespace"]}/{name}: serviceaccount "{name}" not found',
            )
        account: Object = objects.decode(record.data)
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.get("automountServiceAccountToken", True)
        if wanted:
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = list(account["imagePullSecrets"])


class Priority(AdmissionPlugin):
    """Turns the priority class of a pod into a number."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, request: Request, resource: Resource, new: Object) -> None:
        if resource.plural != "pods":
            return
        spec, classes = new["spec"], self._store.collection(identity.current().group("scheduling") + "/priorityclasses")
        if name := spec.get("priorityClassName"):
            record = classes.get(name)
            if record is None:
                raise _refused(new["metadata"], f"no PriorityClass with name {name} was found")
            found: Object = objects.decode(record.data)
        else:
            every = (objects.decode(record.data) for record in classes.select())
            found = next((item for item in every if item.get("globalDefault")), {})
            if found:
                spec["priorityClassName"] = found["metadata"]["name"]
        value = found.get("value", 0)
        given = spec.get("priority")
        if given is not None and given != value and MIRROR not in (new["metadata"].get("annotations") or {}):
            text = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            text += f"controller computed {value} from the given PriorityClass name"
            raise _refused(new["metadata"], text)
        spec["priority"] = value
        spec["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")


class DefaultTolerationSeconds(AdmissionPlugin):
    """Lets pods stay on a node that is not ready or unreachable for five minutes, unless they say otherwise."""

    def create(self, request: Request, resource: Resource, new: Object) -> None:
        if resource.plural != "pods":
            return
        tolerations = new["spec"].get("tolerations")
        if tolerations is not None and not isinstance(tolerations, list):
            return
        tolerations = list(tolerations or ())
        for key in (identity.current().label("not-ready", "node"), identity.current().label("unreachable", "node")):
            if not any(
                item.get("key") in (None, "", key) and item.get("effect") in (None, "", "NoExecute")
                for item in tolerations
                if isinstance(item, dict)
            ):
                toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append({**toleration, "tolerationSeconds": _UNREACHABLE_SECONDS})
        new["spec"]["tolerations"] = tolerations


def _refused(metadata: Object, message: str) -> Exception:
    return forbidden("", "pods", metadata.get("name") or "", message)


def _mount_token(spec: Object) -> None:
    containers = [
        container
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        if isinstance(container, dict)
        and not any(mount.get("mountPath") == TOKEN_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not containers:
        return
    volume = f"kube-api-access-{objects.name_suffix()}"
    for container in containers:
        mounts = container.setdefault("volumeMounts", [])
        mounts.append({"name": volume, "readOnly": True, "mountPath": TOKEN_PATH})
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    spec.setdefault("volumes", []).append(
        {
            "name": volume,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [field]}},
                ],
            },
        }
    )
