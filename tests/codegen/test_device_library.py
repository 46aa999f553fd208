import pytest

from fuser.codegen.device_library import DeviceLibrary, load, parse
from fuser.codegen.target import CPU, CUDA

HEADER = """// What the file is.

//@ twice(float): real
float twice(float x) { return real(2) * x; }

// -- a heading, which is no part of a section

//@ real
using real = float;

//@ four_times: twice(float), real
template <class T>
T four_times(T x) {
  return twice(twice(x));
}
//@ built_in(double)
"""


def library(text: str) -> DeviceLibrary:
    return DeviceLibrary({section.key: section for section in parse(text)})


def test_sections_have_keys_needs_and_text():
    twice, real, four_times, built_in = parse(HEADER)
    assert (twice.key, twice.needs) == ("twice(float)", ("real",))
    assert twice.text == "float twice(float x) { return real(2) * x; }"
    assert (real.key, real.needs) == ("real", ())
    assert four_times.text.startswith("template <class T>\n")
    assert four_times.text.endswith("}")
    assert (built_in.key, built_in.text) == ("built_in(double)", "")


def test_a_section_brings_what_it_needs_first_and_once():
    text = library(HEADER).text(["four_times", "twice(float)"])
    assert text.index("using real") < text.index("float twice") < text.index("T four_times")
    assert text.count("using real") == 1


def test_only_what_is_used_is_in_the_text():
    assert library(HEADER).text(["real"]) == "using real = float;"


def test_a_section_for_the_type_is_preferred_to_one_for_every_type():
    found = library("//@ f\n1\n//@ f(float)\n2\n")
    assert found.key("f", "float") == "f(float)"
    assert found.key("f", "double") == "f"
    assert found.key("g", "float") is None


def test_a_later_header_replaces_sections(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuser.codegen.device_library._DIRECTORY", tmp_path)
    (tmp_path / "a.h").write_text("//@ f\nold\n//@ g\nkept\n")
    (tmp_path / "b.h").write_text("//@ f\nnew\n")
    assert load("a.h", "b.h").text(["f", "g"]) == "new\n\nkept"


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
def test_every_need_of_a_target_is_a_section_and_none_needs_itself(target):
    sections = target.library.sections
    for section in sections.values():
        for need in section.needs:
            assert need in sections, f"{section.key} needs {need}"
        assert section.text in target.library.text([section.key])


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
def test_needs_come_before_their_users_without_cycles(target):
    def visit(key: str, above: tuple[str, ...]) -> None:
        assert key not in above, f"{' -> '.join((*above, key))} is a cycle"
        for need in target.library.sections[key].needs:
            visit(need, (*above, key))

    for key in target.library.sections:
        visit(key, ())
