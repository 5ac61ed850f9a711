"""What machine code was made of, as one number: modules and all that they import, and compilers.

Constants of any module that is imported are frozen in the code. All is told from texts, since to
import the modules needs numba, and to parse them takes longer than to load the code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.machinery import PathFinder
from zlib import crc32

COMPILERS = ("llvmlite", "numba")
"""Packages that make machine code, and load it: the extra `fast`."""

_IMPORT = re.compile(r"\n(?:from|import) (kgroup[.\w]*)(?: import (\([^)]*\)|.*))?")
"""At the begin of a line: what is indented is imported later, or for type checkers alone."""


def code_key(root: str, modules: Iterable[str]) -> int:
    """Give a number that changes with what modules do, with our version, and the compilers'.

    Args:
        root: the folder of the package `kgroup`.
        modules: their full names.

    Raises:
        OSError: a file cannot be read.
    """
    key = 0
    for name, text in imported(root, modules).items():
        key = crc32(text, crc32(name.encode(), key))
    for name in COMPILERS:
        spec = PathFinder.find_spec(name)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            key = crc32(_read(f"{folder}/_version.py"), key)
    return key


def imported(root: str, modules: Iterable[str]) -> dict[str, bytes]:
    """Give the texts of modules and of all that their import runs of the package, by name."""
    texts: dict[str, bytes] = {}
    names = list(modules)
    while names:
        name = names.pop()
        path = f"{root}/{name.replace('.', '/')}"
        path = f"{path}/__init__.py" if os.path.isdir(path) else f"{path}.py"
        if name in texts or not os.path.isfile(path):  # else something that a package defines
            continue
        texts[name] = _read(path)
        names.append(name.rpartition(".")[0])
        for source, members in _IMPORT.findall(texts[name].decode()):
            names.append(source)
            if os.path.isdir(f"{root}/{source.replace('.', '/')}"):
                words = (member.split() for member in members.strip("()").split(","))
                names += [f"{source}.{word[0]}" for word in words if word]
    return dict(sorted(texts.items()))


def _read(path: str) -> bytes:
    with open(path, "rb", 0) as file:
        return file.read()
