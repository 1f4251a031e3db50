#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stubs.py FOLDER -- writes the .pyi files that editors and type checkers read where names are made
at run time: a function of C for each row of the API table, Tensor's methods, dtypes.  FOLDER is a
package folder, `gramme`.  It asks the package that it imports, so nothing is listed twice.

    ./in-tree python3 build-aux/stubs.py pkg/gramme

Parameters have names and kinds, and are not typed; results are Tensor where the documentation does
not speak of anything else. Modules whose names stand in their source (nn, optim, distributions ...)
need no stub: the file py.typed says that they are read themselves.
"""

import inspect
import keyword
import os
import re
import sys
import types

import gramme
import gramme._dynamo
import gramme.fx
import gramme.nn.functional
import gramme.nn.modules
from gramme import _core

HEAD = "# Made by build-aux/stubs.py.\nfrom typing import Any\n"
# How a row's documentation begins to speak of a result that is not one tensor.
OTHER_RESULTS = re.compile(
    (
        r"\bnamed tuple\b|\b[Aa] tuple (?:of|\()|^Views\b|\bPython "
        r"(?:bool|int|number|float)\b|^Writes|^True if all"
    ),
    re.MULTILINE,
)


def parameters(text):
    """The parameters of a signature's text, as a stub has them: "(input, dim=..., *, out=...)"."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = re.match(r"\*{0,2}\w+|\*|/", word)[0]
        found.append(
            name
            + (": Any" if name.isidentifier() or name.startswith("*") and len(name) > 1 else "")
            + (" = ..." if "=" in word else "")
        )
    return found


def signature(thing):
    """Parameters of a callable: from inspect, else from the first line of its documentation, else
    anything.  One that is named by a keyword, as `from` of random_, cannot be written."""
    found = all_parameters(thing)
    return (
        found
        if not any(keyword.iskeyword(re.sub(r"\W.*", "", word)) for word in found)
        else ["*args: Any", "**kwargs: Any"]
    )


def all_parameters(thing):
    try:
        found = inspect.signature(thing)
        words = []
        for parameter in found.parameters.values():
            star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
                parameter.kind, ""
            )
            if parameter.kind == parameter.KEYWORD_ONLY and not any(
                w.startswith("*") for w in words
            ):
                words.append("*")
            words.append(
                f"{star}{parameter.name}"
                + ("=..." if parameter.default is not parameter.empty else "")
            )
        return parameters(", ".join(words))
    except (TypeError, ValueError):
        first = re.match(r"\w+\(([^()]*)\)", thing.__doc__ or "")
        return parameters(first[1]) if first else ["*args: Any", "**kwargs: Any"]


def doc(thing):
    lines = (thing.__doc__ or "").splitlines()
    text = (
        "\n".join(lines[1:]).strip()
        if lines and re.match(r"\w+\(.*\)$", lines[0])
        else "\n".join(lines).strip()
    )
    return text.replace("\\", "\\\\").replace('"""', "'''").rstrip('"')


def result(thing, words):
    """Tensor, or Any where flags or arguments decide."""
    return (
        "Any"
        if OTHER_RESULTS.search(doc(thing))
        or any(word.startswith(("return_", "as_tuple")) for word in words)
        else "Tensor"
    )


def function(name, thing, indent="", method=False, returns=None):
    words = signature(thing)
    if method:
        words = [
            "self",
            *(words[1:] if words and words[0].startswith(("input", "self")) else words),
        ]
    text = doc(thing)
    body = f'\n{indent}    """{text}"""\n{indent}    ...' if text else " ..."
    return f"{indent}def {name}({', '.join(words)}) -> {returns or result(thing, words)}:{body}\n"


def stub_of(module):
    """The text of a module's stub: each public name, where it comes from or what it is."""
    out, api = [], type(gramme.add)
    public = {name for name in vars(module) if not name.startswith("_")}
    for name in sorted(
        public | ({*gramme._LATER, *gramme._FROM, "__version__"} if module is gramme else set())
    ):
        value = getattr(module, name)
        home = getattr(value, "__module__", None)
        if isinstance(value, types.ModuleType):
            if value.__name__.startswith("gramme.") and value.__name__ != "gramme._core":
                package, _, last = value.__name__.rpartition(".")
                out.append(f"from {package} import {last} as {name}\n")
        elif isinstance(value, _core.dtype):
            out.append(f"{name}: dtype\n")
        elif isinstance(value, api):
            out.append(function(name, value))
        elif (
            isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
            and isinstance(home, str)
            and home.startswith("gramme")
        ):
            own, known = (home if home != "gramme" else "gramme._core"), getattr(
                value, "__name__", name
            )
            if own == module.__name__ or getattr(sys.modules.get(own), known, None) is not value:
                out.append(
                    function(name, value, returns="Any")
                    if callable(value) and not isinstance(value, type)
                    else f"{name}: Any\n"
                )
            elif own != "gramme._core" or known in CORE:
                out.append(f"from {own} import {known} as {name}\n")
            else:
                out.append(
                    function(name, value, returns="Tensor" if name in MAKERS else "Any")
                    if not isinstance(value, type)
                    else f"{name}: Any\n"
                )
        else:
            out.append(
                f"{name}: "
                f"{type(value).__name__ if type(value) in (int, float, str, bool) else 'Any'}\n"
            )
    head = HEAD + ("" if module is _core else "from gramme._core import Tensor, dtype\n")
    return head + "\n" + "".join(out)


MAKERS = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack")
CORE = ("Tensor", "dtype", "device", "Size")


def core_stub():
    """_core: the classes that have names at run time; the rest of the module is the package's
    own."""
    out = [
        HEAD,
        (
            "\nclass dtype:\n    is_floating_point: bool\n    itemsize: int\n    def "
            "__getattr__(self, name: str) -> Any: ...\n"
        ),
        (
            "\nclass device:\n    type: str\n    index: Any\n    def __init__(self, *args: Any, "
            "**kwargs: Any) -> None: ...\n"
        ),
        "\nclass Size(tuple[int, ...]):\n    def numel(self) -> int: ...\n",
        "\nclass Tensor:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n",
    ]
    kinds = {
        "shape": "Size",
        "dtype": "dtype",
        "device": "device",
        "grad": "Any",
        "requires_grad": "bool",
        "is_leaf": "bool",
        "ndim": "int",
        "data": "Tensor",
        "T": "Tensor",
        "mT": "Tensor",
        "H": "Tensor",
        "mH": "Tensor",
        "real": "Tensor",
    }
    for name in sorted(dir(_core.Tensor)):
        value = inspect.getattr_static(_core.Tensor, name)
        if inspect.isdatadescriptor(value):
            out.append(
                f"    {name}: {kinds.get(name, 'Any')}\n" if not name.startswith("__") else ""
            )
        elif name in (
            "__add__",
            "__radd__",
            "__sub__",
            "__rsub__",
            "__mul__",
            "__rmul__",
            "__truediv__",
            "__rtruediv__",
            "__matmul__",
            "__rmatmul__",
            "__pow__",
            "__rpow__",
            "__floordiv__",
            "__mod__",
            "__lt__",
            "__le__",
            "__gt__",
            "__ge__",
            "__and__",
            "__or__",
            "__xor__",
            "__getitem__",
        ):
            out.append(f"    def {name}(self, other: Any, /) -> Tensor: ...\n")
        elif name in ("__neg__", "__abs__", "__invert__", "__pos__"):
            out.append(f"    def {name}(self) -> Tensor: ...\n")
        elif name in ("__eq__", "__ne__"):
            out.append(
                f"    def {name}(self, other: Any, /) -> Tensor: ...  # type: ignore[override]\n"
            )
        elif name in ("__bool__", "__len__", "__int__", "__float__", "__index__"):
            out.append(
                f"    def {name}(self) -> "
                f"{'int' if name in ('__len__', '__index__') else name.strip('_')}: ...\n"
            )
        elif name == "__setitem__":
            out.append("    def __setitem__(self, key: Any, value: Any, /) -> None: ...\n")
        elif name == "__iter__":
            out.append("    def __iter__(self) -> Any: ...\n")
        elif name == "__hash__":
            out.append("    def __hash__(self) -> int: ...\n")
        elif not name.startswith("__") and callable(getattr(_core.Tensor, name)):
            api = isinstance(value, type(inspect.getattr_static(_core.Tensor, "add")))
            out.append(
                function(
                    name,
                    getattr(_core.Tensor, name),
                    "    ",
                    method=True,
                    returns=None if api else "Any",
                )
            )
    return "".join(out) + "\ndef __getattr__(name: str) -> Any: ...\n"


def main(folder):
    texts = {
        "_core.pyi": core_stub(),
        "__init__.pyi": stub_of(gramme),
        "nn/functional.pyi": stub_of(gramme.nn.functional),
        "nn/modules/__init__.pyi": stub_of(gramme.nn.modules),
        "py.typed": "",
    }
    for name, text in texts.items():
        path = os.path.join(folder, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1])
