"""What a cluster without a controller manager needs done: namespaces filled and emptied, pods bound to the one node."""
