"""What tracing replaces operations by."""
