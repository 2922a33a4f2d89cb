"""Command-line options for the names of this deployment in the API; the agent has the same options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options.declare import Group
from nodeagent.base.identity import Identity

TITLE = "Names"
_USUAL = Identity()


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class NameOptions:
    """Values of the command-line options for the names of this deployment in the API."""

    api_domain: str = _USUAL.api_domain
    label_domain: str = _USUAL.label_domain
    media_domain: str = _USUAL.media_domain
    platform_dir: str = _USUAL.platform_dir
    system_namespace: str = _USUAL.system_namespace
    node_lease_namespace: str = _USUAL.node_lease_namespace

    @property
    def identity(self) -> Identity:
        """Names of this deployment, which the components of the server receive."""
        return Identity(
            api_domain=self.api_domain,
            label_domain=self.label_domain,
            media_domain=self.media_domain,
            platform_dir=self.platform_dir,
            system_namespace=self.system_namespace,
            node_lease_namespace=self.node_lease_namespace,
        )


def declare(group: Group) -> None:
    group.add("api-domain", str, f"Domain part of API groups. Default {_USUAL.api_domain}.")
    group.add("label-domain", str, f"Domain of labels and annotations. Default {_USUAL.label_domain}.")
    group.add("media-domain", str, f"Name in media types. Default {_USUAL.media_domain}.")
    group.add("platform-dir", str, f"Directory name in file system paths. Default {_USUAL.platform_dir}.")
    group.add("system-namespace", str, f"Namespace of system objects. Default {_USUAL.system_namespace}.")
    group.add("node-lease-namespace", str, f"Namespace of node leases. Default {_USUAL.node_lease_namespace}.")


def check(options: NameOptions) -> Iterator[str]:
    for name, value in (
        ("api-domain", options.api_domain),
        ("label-domain", options.label_domain),
        ("media-domain", options.media_domain),
        ("platform-dir", options.platform_dir),
        ("system-namespace", options.system_namespace),
        ("node-lease-namespace", options.node_lease_namespace),
    ):
        labels = value.split(".") if name.endswith("-domain") else [value]
        if not all(_is_label(label) for label in labels):
            yield f'--{name} "{value}" must consist of lower case letters, digits and "-"' + (
                ', in parts with "." between them' if name.endswith("-domain") else ""
            )


def _is_label(text: str) -> bool:
    fits = all(char in "abcdefghijklmnopqrstuvwxyz0123456789-" for char in text)
    return 0 < len(text) < 64 and fits and not text.startswith("-") and not text.endswith("-")
