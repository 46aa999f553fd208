"""The loop tree: loops, their nodes and statements, and the nest that a printer is given."""
