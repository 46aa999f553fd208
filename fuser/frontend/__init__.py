"""What users write: definitions, their operations, and how they are run, checked and repeated."""
