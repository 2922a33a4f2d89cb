"""Example admission policy: pods run only images of allowed registries and have the required labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.base.structs import Struct
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

NAME = "example_policy"
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "allowedRegistries": {**_TEXTS, "description": "Registries or repository prefixes; all if absent."},
            "requiredLabels": {**_TEXTS, "description": "Labels that every pod must have."},
            "exemptNamespaces": {**_TEXTS, "description": "Namespaces whose pods are always admitted."},
        },
    }


@hookimpl
def nodeagent_configure(context: AgentContext, plugins: PluginHost) -> None:
    policy = read_policy(context.plugin_settings.get(NAME, {}))
    plugins.register(PolicyAdmission(policy), name=f"{NAME}.admission")


class Policy(Struct, frozen=True):
    """Requirements for pods; ``registries`` is ``None`` if every image is allowed."""

    registries: Sequence[str] | None = None
    labels: Sequence[str] = ()
    exempt: frozenset[str] = frozenset()


class PolicyAdmission:
    """Admission hook that rejects pods that violate the policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        return check_pod(pod, self._policy)


def read_policy(settings: Mapping[str, Any]) -> Policy:
    """Return the policy in *settings*, which match the schema."""
    registries = settings.get("allowedRegistries")
    return Policy(
        registries=None if registries is None else [name.rstrip("/") for name in registries],
        labels=settings.get("requiredLabels", ()),
        exempt=frozenset(settings.get("exemptNamespaces", ())),
    )


def check_pod(pod: Pod, policy: Policy) -> Rejection | None:
    """Return the rejection of *pod*, or ``None`` if it complies with the policy."""
    if pod.namespace in policy.exempt:
        return None
    if missing := [label for label in policy.labels if label not in (pod.metadata.labels or {})]:
        return Rejection("LabelPolicy", f"pod lacks the required labels: {', '.join(missing)}")
    for _, container in pod.containers():
        if policy.registries is not None and not allowed(container.image, policy.registries):
            return Rejection(
                "ImagePolicy", f'container "{container.name}": image {container.image} is not from an allowed registry'
            )
    return None


def allowed(image: str, registries: Iterable[str]) -> bool:
    """Return whether *image* is from one of *registries*; short names refer to docker.io."""
    name = full_name(image)
    return any(name == registry or name.startswith(f"{registry}/") for registry in registries)


def full_name(image: str) -> str:
    """Return registry and repository of an image: ``busybox:1`` → ``docker.io/library/busybox``."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
