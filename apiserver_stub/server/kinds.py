"""Registry of the served kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pluggy import PluginManager

from apiserver_stub.kinds import Registry, Resource, api_services, bundled_resources
from apiserver_stub.kinds.runtime_config import enabled, is_version
from apiserver_stub.kinds.settings import KindSettings
from apiserver_stub.options import Options
from apiserver_stub.plugins import PluginError, call
from nodeagent.base import apiproto


def kind_settings(options: Options) -> KindSettings:
    """Return the settings of the kinds."""
    return KindSettings(
        gates=options.gates,
        allow_privileged=options.allow_privileged,
        service_networks=options.service_networks,
        service_node_ports=options.service_node_port_range,
        identity=options.identity,
        compatibility_version=options.compatibility_version,
    )


def build_registry(options: Options, plugins: PluginManager | None = None) -> Registry:
    """Return the resources that ``--runtime-config`` enables, in the order of their group versions.

    :raises PluginError: a kind of a plugin has the name or the storage keys of another one.
    """
    settings = kind_settings(options)
    every = bundled_resources(settings)
    if plugins is not None:
        every += _plugin_resources(plugins, settings, every)
    served = [item for item in every if enabled(options.runtime_config, item.group, item.version, item.plural)]
    return Registry(sorted(served, key=lambda item: api_services.order(item.group, item.version, options.identity)))


def _plugin_resources(plugins: PluginManager, settings: KindSettings, bundled: Sequence[Resource]) -> list[Resource]:
    names = {(item.group, item.version, item.plural) for item in bundled}
    directories = {item.storage_key or item.plural: item.storage for item in bundled}
    added: list[Resource] = []
    problems = []
    for plugin, resources in call(plugins, "nodeagent_apiserver_kinds", settings=settings):
        for item in resources or ():
            if error := _declaration_error(item):
                problems.append(f"plugin {plugin}: {error}")
                continue
            resource = item if item.storage_key else replace(item, storage_key=f"{item.group}/{item.plural}")
            name = (resource.group, resource.version, resource.plural)
            if name in names:
                problems.append(f"plugin {plugin}: {resource.plural} of {resource.api_version} is already served")
            elif directories.setdefault(resource.storage_key, resource.storage) != resource.storage:
                text = f"{resource.plural} of {resource.api_version} uses the storage keys of another resource"
                problems.append(f"plugin {plugin}: {text}")
            else:
                names.add(name)
                added.append(resource)
                if resource.definition is not None:
                    apiproto.add_kind(resource.api_version, resource.kind, resource.definition)
    if problems:
        raise PluginError("\n".join(problems))
    return added


def _declaration_error(resource: object) -> str:
    if not isinstance(resource, Resource):
        return f"not an apiserver_stub.kinds.registry.Resource: {resource!r}"
    name = f"{resource.plural} of {resource.api_version}"
    if not is_version(resource.version):
        return f"{name}: the version must have the form v1, v1beta1 or v1alpha1"
    if unknown := [item.name for item in resource.subresources if item.name != "status"]:
        return f"{name}: only the subresource status is supported, not {', '.join(unknown)}"
    return ""
