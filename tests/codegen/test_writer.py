"""Indented lines of C."""

from fuser.codegen.writer import Writer


def test_what_is_inside_a_block_is_indented():
    out = Writer()
    with out.block("if (a)"):
        out.line("b();")
        with out.block("", end="};"):
            out.line("c();")
            out.line("")
    out.line("d();")
    assert out.text == "if (a) {\n  b();\n  {\n    c();\n\n  };\n}\nd();\n"
