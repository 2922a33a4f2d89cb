"""Device files: offer files such as ``/dev/ttyUSB*`` as extended resources, as selected by the settings.

An example of a device provider in Python; it replaces daemons such as smarter-device-manager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import VolumesContext
    from nodeagent.contracts.devices import DeviceProvider

NAME = "device_files"
MAX_SHARES = 1000


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    entry = {
        "type": "object",
        "additionalProperties": False,
        "required": ["resource", "paths"],
        "properties": {
            "resource": {
                "type": "string",
                "minLength": 3,
                "description": "Extended resource, such as example.com/serial.",
            },
            "paths": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "pattern": r"^/dev/(?!.*(\*\*|\.\.))"},
                "description": "Paths of device files below /dev; may contain the wildcards *, ? and [].",
            },
            "permissions": {
                "type": "string",
                "pattern": "^[rwm]+$",
                "default": "rw",
                "description": "Permissions in containers: letters of r (read), w (write) and m (mknod).",
            },
            "shares": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_SHARES,
                "default": 1,
                "description": "Number of containers that can use a file at the same time.",
            },
        },
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "resources": {"type": "array", "items": entry, "description": "Resources and their device files."}
        },
    }


@hookimpl
def nodeagent_provide_device_providers(context: VolumesContext) -> Sequence[DeviceProvider]:
    entries = context.plugin_settings.get(NAME, {}).get("resources", ())
    if not entries:
        return ()
    from nodeagent_plugins.device_files.provider import providers_of

    return providers_of(entries, context.clock)
