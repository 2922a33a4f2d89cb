"""Hook specifications: the extension points of the API server.

A plugin is a module or object that an installed distribution names in the entry point group ``nodeagent_apiserver``.
Its functions with the marker ``apiserver_stub.hookimpl`` implement hooks of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from apiserver_stub.admission import AdmissionPlugin
    from apiserver_stub.controllers.plugin import Controller
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.kinds.settings import KindSettings

hookspec = pluggy.HookspecMarker("nodeagent_apiserver")


@hookspec
def nodeagent_apiserver_kinds(settings: KindSettings) -> Sequence[Resource]:  # type: ignore[empty-body]
    """Return kinds to serve.

    Called once at startup, before the storage opens. The group of a kind is a domain name of its author; a kind whose
    ``definition`` is set has a schema, field ownership, a protobuf form and OpenAPI documents. The only supported
    subresource is ``status``.

    :param settings: settings of the bundled kinds.
    """


@hookspec
def nodeagent_apiserver_admission_plugins() -> Sequence[type[AdmissionPlugin]]:  # type: ignore[empty-body]
    """Return admission plugins: classes that declare ``name``, ``order`` and ``enabled_by_default``.

    Called once, before the command line is checked. A duplicate name or an incomplete declaration is an error of the
    command line, exit code 2.
    """


@hookspec
def nodeagent_apiserver_controllers() -> Sequence[type[Controller]]:  # type: ignore[empty-body]
    """Return controllers: classes that declare ``name``, ``resources`` and ``views``.

    Called once, before the command line is checked; ``--controllers`` enables and disables them by their names. A
    duplicate name or an incomplete declaration is an error of the command line, exit code 2.
    """
