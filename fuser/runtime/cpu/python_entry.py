"""How Python calls a kernel on the processor: a function of CPython's own kind, in its library.

    launch(0x7f.., 0x7f.., 64, False)   =>   name((float*)0x7f.., (float*)0x7f.., 64, false)

Of small tensors, calls take longer than kernels, and one through ctypes 0.5 us longer than this; it
takes no more than 1,024 arguments, too. What is used of CPython is part of its stable interface,
and declared here: its headers need not be there.
"""

from __future__ import annotations

import ctypes
import platform
from typing import cast

from fuser.codegen import Argument, KernelSource, Pointer, Scalar, Workspace
from fuser.ir.dtypes import DataType
from fuser.runtime.kernels.kernel import Launcher

LINKED = ("-Wl,-undefined,dynamic_lookup",) if platform.system() == "Darwin" else ()
"""The process has CPython; on macOS, a linker has to be told."""

_ENTRY = """
// How Python calls it.
extern "C" {{
struct PyObject;
using PySize = __PTRDIFF_TYPE__;
extern PyObject* PyExc_TypeError;
void PyErr_SetString(PyObject*, const char*);
PyObject* PyErr_Occurred();
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
PyObject* PyLong_FromLong(long);
void* PyLong_AsVoidPtr(PyObject*);
unsigned long long PyLong_AsUnsignedLongLongMask(PyObject*);
double PyFloat_AsDouble(PyObject*);
struct PyTwo {{ double re, im; }};
PyTwo PyComplex_AsCComplex(PyObject*);
int PyObject_IsTrue(PyObject*);
}}

struct PyAddress {{
  void* at;
  template <class T> operator T*() const {{ return static_cast<T*>(at); }}
}};

struct PyParts : PyTwo {{
  template <class T> operator T() const {{
    using Part = decltype(T::re);
    return T{{static_cast<Part>(re), static_cast<Part>(im)}};
  }}
}};

extern "C" {{
static PyObject* {name}_called(PyObject*, PyObject* const* given, PySize count) {{
  if (count != {count}) {{
    PyErr_SetString(PyExc_TypeError, "{name} takes {count} arguments");
    return nullptr;
  }}
{arguments}
  if (PyErr_Occurred()) return nullptr;
  void* thread = PyEval_SaveThread();
  {name}({passed});
  PyEval_RestoreThread(thread);
  return PyLong_FromLong(0);
}}

struct PyMethod {{
  const char* name;
  PyObject* (*function)(PyObject*, PyObject* const*, PySize);
  int flags;
  const char* documentation;
}} {name}_method{{"{name}", {name}_called, {fastcall}, nullptr}};
}}
"""

_FASTCALL = 0x80  # METH_FASTCALL

_ADDRESS = "PyAddress{{PyLong_AsVoidPtr({0})}}"
_INTEGER = "PyLong_AsUnsignedLongLongMask({0})"
_FLOAT = "PyFloat_AsDouble({0})"
_PARTS = "PyParts{{PyComplex_AsCComplex({0})}}"
_TRUTH = "PyObject_IsTrue({0}) > 0"

_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, *(ctypes.c_void_p,) * 3)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def entry_text(source: KernelSource) -> str:
    """The text of the function, behind the kernel's. It takes addresses, scalars and sizes, then
    where errors go, if there are checks, and whether there are threads; and raises TypeError where
    it is given something else. Other threads of Python run meanwhile."""
    read = [*map(_read, source.arguments), *([_ADDRESS] if source.checks else []), _TRUTH]
    lines = [f"  auto x{n} = {text.format(f'given[{n}]')};" for n, text in enumerate(read)]
    passed = ", ".join(f"x{n}" for n in range(len(read)))
    return _ENTRY.format(
        name=source.name,
        count=len(read),
        arguments="\n".join(lines),
        passed=passed,
        fastcall=_FASTCALL,
    )


def entry(library: ctypes.CDLL, name: str) -> Launcher:
    """The function of a loaded library, which stays loaded."""
    method = ctypes.addressof(ctypes.c_char.in_dll(library, f"{name}_method"))
    return cast("Launcher", _new_function(method, None, None))


def _read(argument: Argument) -> str:
    """What reads an argument, of its place. What is too large for an integer wraps around."""
    match argument:
        case Pointer() | Workspace():
            return _ADDRESS
        case Scalar(value):
            dtype = value.dtype
        case _:
            dtype = argument.dtype
    if dtype is DataType.Bool:
        return _TRUTH
    if dtype.is_complex:
        return _PARTS
    return _FLOAT if dtype.is_floating else _INTEGER
