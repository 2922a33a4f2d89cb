"""CIS Kubernetes benchmark, section 4 (worker nodes), for an installation on this host or below a directory."""
