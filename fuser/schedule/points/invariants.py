"""Costly functions of what is the same at every point, computed once, before the loops.

    T6 = load T6[0];  T23 = pow(0.9, T6);  T24 = mul(T0, T23)      for every point
->
    T6 = load T6[0];  T23 = pow(0.9, T6)                           once
    T24 = mul(T0, T23)                                             for every point

The corrections of an optimizer's step are such functions of a number. Of a power in a loop over
lanes, compilers make a vector of the same for each turn.
"""

from __future__ import annotations

from dataclasses import replace

from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import indices_read, names_in
from fuser.schedule.tree.counts import costly_arithmetic
from fuser.schedule.tree.statements import Let, Load


def with_invariants_before(body: Body) -> Body:
    """`body` with what depends on no axis in its prologue, if a costly function is of it."""
    same = {let.name for let in body.prologue}
    for node in (*body.loads, *body.lets):
        if not _follows_axes(node) and all(map(same.__contains__, names_in((node,)))):
            same.add(node.name)
    once = tuple(node for node in body.code if node.name in same)
    if not costly_arithmetic(once):
        return body
    return replace(
        body,
        prologue=(*body.prologue, *once),
        code=tuple(node for node in body.code if node not in once),
    )


def _follows_axes(node: Load | Let) -> bool:
    """Whether a node is another at every point: what it loads or draws, or an index in it."""
    drawn = isinstance(node, Load) and node.drawn is not None
    return drawn or any(index.terms for index in indices_read(node))
