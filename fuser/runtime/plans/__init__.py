"""What a person reads: plans, profiles, and what is told while they are made."""
