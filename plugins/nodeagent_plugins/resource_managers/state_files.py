"""Names of the state files in the root directory, which are those of the kubelet."""

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
