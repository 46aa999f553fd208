"""What a fusion is: types, operations, inference, printing, verification, and the oracle."""
