"""Parts of a graph that become definitions: which, and what runs them."""
