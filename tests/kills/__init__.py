"""Kills of the agent, the CSI driver, the runtime and the API server while pods use their claims.

``python -m tests.kills --seed N --points 500`` runs as root. Workers create claims, pods that write to them, expand and
delete them, while processes are killed with SIGKILL at random times. The runner verifies that

- each record that a pod has written and synced is in its volume,
- no mount of a pod disappears while a process of the pod runs,
- the driver is never called in a forbidden order, and no volume is detached while it is staged,
- no mount, directory, loop device, attachment or record of the driver remains when all pods and claims are deleted.

The seed determines the sequence of operations, victims and times; the interleaving depends on the host.
"""
