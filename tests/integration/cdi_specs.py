"""CDI spec of a fictitious device that can be seen from inside a container, for tests of all runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KIND = "example.com/sensor"
NAME = f"{KIND}=left"
SCRIPT = (
    "echo $SENSOR; echo $VENDOR; stat -c %t,%T /dev/sensor; echo x > /dev/sensor && echo written; "
    "cat /vendor/lib; touch /vendor/lib 2>/dev/null || echo ro; id -G | tr ' ' '\\n' | grep -x 4321"
)
SEEN = ["left", "example", "1,3", "written", "library", "ro", "4321"]
"""Output of the script in a container that has the device."""


def write_spec(directory: Path, *, hook: str = "", **edits: Any) -> Path:
    """Write the spec to *directory* and return the file of its hook's output.

    :param edits: further edits of the device.
    """
    library, seen = directory / "library", directory / "hook"
    library.write_text("library\n")
    device = {
        "env": ["SENSOR=left"],
        "deviceNodes": [{"path": "/dev/sensor", "hostPath": "/dev/null", "permissions": "rw"}],
        "mounts": [{"hostPath": str(library), "containerPath": "/vendor/lib", "options": ["ro", "bind"]}],
        "additionalGids": [4321],
    }
    if hook:
        command = ["sh", "-c", f"cat > {seen}"]
        device["hooks"] = [{"hookName": hook, "path": "/bin/sh", "args": command}]
    spec = {
        "cdiVersion": "0.7.0",
        "kind": KIND,
        "devices": [{"name": "left", "containerEdits": device | edits}],
        "containerEdits": {"env": ["VENDOR=example"]},
    }
    (directory / "sensor.json").write_text(json.dumps(spec))
    return seen
