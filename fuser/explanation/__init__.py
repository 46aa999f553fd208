"""`fuser.explain`, and `python -m fuser explain`: what became of a model, and why."""

from fuser.explanation.explain import explain
from fuser.explanation.model import Break, Coverage, Graph, Partition
from fuser.explanation.report import Report
from fuser.explanation.traffic import Traffic

__all__ = ["Break", "Coverage", "Graph", "Partition", "Report", "Traffic", "explain"]
