"""Container Device Interface (CDI): specs of vendors that describe how containers use their devices. No dependencies.

A request names a device as ``vendor/class=device``. The container runtime applies the edits that the specs of the node
define for it.
"""
