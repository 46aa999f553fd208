"""What the integrations know of FX graphs."""
