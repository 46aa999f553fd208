"""Generated code and definitions with their words marked, so that a page can colour them."""

from __future__ import annotations

import re

from fuser.markup import Markup, joined, tag

_KEYWORDS = (
    "auto|break|case|class|const|constexpr|continue|def|do|else|extern|false|for|if|inline|namespace"
    "|None|pass|return|sizeof|static|struct|switch|template|true|True|False|typedef|typename|using"
    "|volatile|while|__global__|__device__|__shared__|__restrict__|__restrict|__launch_bounds__"
)
_TYPES = (
    "bool|char|double|float|int|int64|long|short|signed|size_t|uint32_t|uint64_t|unsigned|void"
    "|__half|__nv_bfloat16"
)
_WORDS = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/|(?m:^\s*\#(?!\s*(?:include|define|pragma|if|el|endif|un))[^\n]*))"
    r"|(?P<directive>(?m:^[ \t]*\#(?:[^\n]|\\\n)*))"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    rf"|(?P<keyword>\b(?:{_KEYWORDS})\b)"
    rf"|(?P<type>\b(?:{_TYPES})\b)"
    r"|(?P<number>\b\d[\w.]*(?:(?<=[eE])[+-]\d+\w*)?)",
    re.DOTALL,
)


def highlighted(code: str) -> Markup:
    """C++ or Python, the text unchanged, with a `span` around what has a colour."""
    pieces: list[str] = []
    end = 0
    for found in _WORDS.finditer(code):
        pieces += [code[end : found.start()], tag("span", found.group(), class_=found.lastgroup)]
        end = found.end()
    return joined(*pieces, code[end:])
