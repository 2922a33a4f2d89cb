"""Kills of the agent, the device plugin or DRA driver, and the runtime while devices are allocated.

``python -m tests.device_kills --seed N --allocations 200`` runs as root; with ``--claims``, pods claim the devices of a
DRA driver. Pods with devices are created and deleted while processes are killed with SIGKILL at random times. The
runner verifies, with the processes of the containers, that

- no device is in two pods at the same time,
- no pod fails, and no running container is restarted or killed,
- a device in a running container is prepared in the DRA driver,
- all devices can be allocated once all pods are deleted, and no claim is still prepared.
"""
