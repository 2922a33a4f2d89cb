"""Controller of resource claims, and the changes of claims by controllers."""
