"""Resource quotas: usage of objects and its tracker."""
