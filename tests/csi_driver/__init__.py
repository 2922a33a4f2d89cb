"""CSI driver for tests, with faults on demand: a library for unit tests, and a process for integration tests.

``python -m tests.csi_driver --directory DIR --registry DIR`` serves the node service and registers with the agent.
Volumes are directories or image files below the directory; all state is on disk, so that the driver survives
``kill -9``.
"""

from tests.csi_driver.faults import Fault, Faults
from tests.csi_driver.server import Registrar, serve
from tests.csi_driver.service import ALL_CAPABILITIES, NodeService
from tests.csi_driver.storage import BindMounts, NoMounts, Storage

__all__ = [
    "ALL_CAPABILITIES",
    "BindMounts",
    "Fault",
    "Faults",
    "NoMounts",
    "NodeService",
    "Registrar",
    "Storage",
    "serve",
]
