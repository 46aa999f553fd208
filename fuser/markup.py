"""HTML and SVG from Python: what is no Markup is escaped."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


Attribute = str | float | bool | None


def tag(name: str, /, *content: str | None, **attributes: Attribute) -> Markup:
    """`<name attributes>content</name>`.

    `class_` is `class`, and `data_step` is `data-step`; an attribute that is None or False is left
    out, and so is content that is None.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str | None) -> Markup:
    """Pieces one after the other, each escaped unless it is Markup."""
    found = (piece for piece in content if piece is not None)
    return Markup("".join(p if isinstance(p, Markup) else escape(p, quote=False) for p in found))


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(_text(value))}"'


def _text(value: str | float) -> str:
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)
