"""Compiled functions that outlive the process: numba makes them once, LLVM alone loads them.

Numba's own cache needs numba, whose import takes longer than decoding a hundred megabytes. The
functions here take and give nothing but integers (`intrinsics`), so that their machine code needs
nothing at all: it is kept as an object file in the user's cache folder, under a name that tells
what it was made of (`code_key`) and the processor, and loaded through llvmlite.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

from kgroup.interrupt import interruptible

if TYPE_CHECKING:
    import llvmlite.binding as llvm


COMPILERS = ("llvmlite", "numba")
"""Packages that make machine code, and load it: the extra `fast`."""

SOURCES = (
    *("__init__.py", "errors.py", "interrupt.py", "redaction.py", "word.py"),
    *("kernel/*.py", "model/__init__.py", "model/offsets_partition.py"),
    *("protocol/*.py", "protocol/batch/*.py", "protocol/message/*.py", "protocol/record/*.py"),
)
"""Files of the package that compiled code may take constants from: what its modules import."""


def code_key(package: Path) -> int:
    """Return a number that changes with the compiled modules, our version and the compilers'.

    The files are read, not imported: to import them needs numba.

    Args:
        package: the folder of the package `kgroup`.

    Raises:
        OSError: a file cannot be read.
    """
    key = 0
    for pattern in SOURCES:
        for path in sorted(package.glob(pattern)):
            key = crc32(_read(path), crc32(path.name.encode(), key))
    for name in COMPILERS:
        spec = PathFinder.find_spec(name)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            key = crc32(_read(f"{folder}/_version.py"), key)
    return key


def _read(path: str | Path) -> bytes:
    with open(path, "rb", 0) as file:
        return file.read()


_FUNCTIONS = {
    "decode": ("column", 1),
    "find_batch": ("log", 3),
    "find_end": ("log", 4),
    "follow": ("log", 1),
    "flag_bits": ("column", 4),
    "gather": ("log", 4),
    "intern": ("byte_table", 3),
    "hash_key": ("key", 3),
    "intern_all": ("byte_table", 2),
    "list_keys": ("key", 1),
    "scan": ("log", 1),
    "note_last": ("key", 5),
    "note_table": ("key", 4),
    "list_compressed": ("log", 5),
    "quote": ("row", 6),
    "spread_ends": ("column", 5),
    "write_rows": ("row", 1),
}
"""What is compiled: the module and the number of arguments of each function."""

MODULES = frozenset({__name__, *(f"{__package__}.{module}" for module, _ in _FUNCTIONS.values())})
"""The modules that the machine code is made of, with what they import."""

_LIBRARY = ("memcpy", "memmove", "memset", "pread")
"""Functions of the C library that are called."""

Functions: TypeAlias = Mapping[str, Callable[..., int]]

_lock = Lock()
_loaded: list[Functions] = []
_engines: list[llvm.ExecutionEngine] = []
"""What keeps the code of the functions."""
_unkept: list[str] = []
"""Where and why what was compiled could not be kept."""


def why_unkept() -> str | None:
    """Say where and why what was compiled could not be kept; None where it was, or need not be."""
    return _unkept[-1] if _unkept else None


def load(on_compile: Callable[[], None] | None = None) -> Functions:
    """Return the compiled functions, by name; what they take is said in `entry`, which calls them.

    Args:
        on_compile: called before they are compiled, which takes about ten seconds, once for each
            user, version of the package and processor.
    """
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load(on_compile))
    return _loaded[0]


def is_loaded() -> bool:
    """Return whether the compiled functions are loaded already: where there is much to do."""
    return bool(_loaded)


@cache
def is_installed() -> bool:
    """Return whether the packages are there that compile and load functions."""
    return all(PathFinder.find_spec(name) is not None for name in COMPILERS)


def are_kept() -> bool:
    """Return whether the functions were compiled before, so that loading them takes little."""
    with suppress(OSError, ImportError):  # see `why_unusable`
        return os.path.exists(user_cache_path())  # not where that may not be known
    return False


@cache
def why_unusable() -> str | None:
    """Say why the packages that are there cannot be loaded, as far as needed; None where they can.

    A file of theirs may be missing or damaged, or be no match for others.
    """
    try:
        if not are_kept():
            import_module("numba")
    except (OSError, ImportError) as error:
        return f"the compiler cannot be loaded: {error}"
    return None


def _processor() -> tuple[str, str]:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _load(on_compile: Callable[[], None] | None) -> Functions:
    code, why = kept_code(user_cache_path(), compile_all, on_compile)
    if why is not None:
        _unkept.append(why)
    return link(code)


def kept_code(
    path: Path, compiled: Callable[[], bytes], on_compile: Callable[[], None] | None = None
) -> tuple[bytes, str | None]:
    """Return the object file that is kept there, or make and keep it.

    Args:
        path: of the object file.
        compiled: makes one.
        on_compile: called before that.

    Returns:
        It, and where and why it could not be kept, None where it is.
    """
    try:
        return path.read_bytes(), None
    except OSError:
        if on_compile is not None:
            on_compile()
        code = compiled()
        try:
            _write(path, code)
        except OSError as error:
            return code, f"{path.parent} ({error.strerror or error})"
        return code, None


def _machine() -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(*_processor(), opt=3, jit=True)


def link(code: bytes) -> Functions:
    """Return the functions of an object file of these here, by name."""
    import llvmlite.binding as llvm

    machine = _machine()
    for name in _LIBRARY:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    functions = {}
    for name, (_, count) in _FUNCTIONS.items():
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)
        functions[name] = prototype(engine.get_function_address(_symbol(name)))
    return functions


def user_cache_path() -> Path:
    """Say where the object file of this code and processor is kept for this user."""
    return cache_path(_processor(), _code_key())


def cache_path(processor: tuple[str, str], made_of: int) -> Path:
    """Say where an object file is kept.

    Args:
        processor: its name and features, as LLVM tells them.
        made_of: a number for what is compiled (`code_key`).
    """
    key = crc32("".join(processor).encode(), made_of)
    base = os.environ.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path(os.path.expanduser("~")) / ".cache"
    return cache / "kgroup" / f"kernels-{key:08x}.o"


@cache
def _code_key() -> int:
    return code_key(Path(__file__).parents[1])


def _write(path: Path, code: bytes) -> None:
    """Write a file so that no other process sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(code)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def compile_all(functions: Mapping[str, tuple[str, int]] = _FUNCTIONS) -> bytes:
    """Compile functions; give an object file.

    Args:
        functions: by name the module of each, in this package, and the number of its arguments.
    """
    import llvmlite.binding as llvm

    machine = _machine()
    linked = llvm.parse_assembly("")
    for name, (module, count) in functions.items():
        function = getattr(import_module(f"{__package__}.{module}"), name)
        entry = interruptible(partial(_c_function, function, count))
        linked.link_in(llvm.parse_assembly(entry.inspect_llvm()))
        linked.get_function(entry.native_name).name = _symbol(name)
    # numba adds code for errors, which needs its run-time and which none of these functions raises
    entries = {_symbol(name) for name in functions}
    for value in linked.functions:
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    interruptible(partial(builder.getModulePassManager().run, linked, builder))
    code: bytes = interruptible(partial(machine.emit_object, linked))
    return code


def _c_function(function: Any, count: int) -> Any:
    """Compile a function of so many integers as C calls it."""
    from numba import cfunc, types

    arguments = (types.int64,) * count
    return cfunc(types.int64(*arguments), error_model="numpy")(function.py_func)


def _symbol(name: str) -> str:
    return f"kgroup_{name}"
