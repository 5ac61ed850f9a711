"""Cache compiled functions on disk: numba compiles them once, and LLVM alone loads them.

Numba's own cache needs numba, whose import takes longer than decoding a hundred megabytes. The
functions here take and return only integers (`intrinsics`), so their machine code needs no
runtime. It is stored as an object file in the user's cache folder, under a name that depends on its
sources (`code_key`) and on the processor, and loaded through llvmlite.
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
"""Packages that generate and load machine code: the extra `fast`."""

SOURCES = (
    *("__init__.py", "errors.py", "interrupt.py", "redaction.py", "described_enum.py"),
    *("kernel/*.py", "model/__init__.py", "model/offsets_partition.py"),
    *("protocol/*.py", "protocol/batch/*.py", "protocol/message/*.py", "protocol/record/*.py"),
)
"""Files of the package from which compiled code may take constants: what its modules import."""


def code_key(package: Path) -> int:
    """Return a number that changes with the compiled modules, our version and the compilers'.

    The files are read, not imported: importing them requires numba.

    Args:
        package: the folder of the package `kgroup`; it may be in a zip file, as `spark-submit
            --py-files` takes it.

    Raises:
        OSError: a file cannot be read.
    """
    key = crc32(_read(package.parent)) if package.parent.is_file() else 0
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
    "select_group": ("selection", 10),
    "note_last": ("key", 5),
    "note_table": ("key", 4),
    "list_compressed": ("log", 5),
    "quote": ("row", 6),
    "spread_ends": ("column", 5),
    "write_rows": ("row", 1),
}
"""Functions to compile: the module and the number of arguments of each."""

MODULES = frozenset({__name__, *(f"{__package__}.{module}" for module, _ in _FUNCTIONS.values())})
"""Modules of the compiled functions, and this one."""

_LIBRARY = ("memcpy", "memmove", "memset", "pread")
"""Functions of the C library that are called."""

Functions: TypeAlias = Mapping[str, Callable[..., int]]

_lock = Lock()
_loaded: list[Functions] = []
_engines: list[llvm.ExecutionEngine] = []
"""Engines that own the code of the functions."""
_unkept: list[str] = []
"""Where and why the object file could not be stored."""


def why_unkept() -> str | None:
    """Return where and why the object file could not be stored; None if there was no failure."""
    return _unkept[-1] if _unkept else None


def load(on_compile: Callable[[], None] | None = None) -> Functions:
    """Return the compiled functions by name; `entry` documents their arguments and calls them.

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
    """Return whether the compiled functions are loaded already, as after large input."""
    return bool(_loaded)


@cache
def is_installed() -> bool:
    """Return whether the packages that compile and load functions are installed."""
    return all(PathFinder.find_spec(name) is not None for name in COMPILERS)


def are_kept() -> bool:
    """Return whether the object file exists, so that loading the functions takes little time."""
    with suppress(OSError, ImportError):  # see `why_unusable`
        return os.path.exists(user_cache_path())  # raises if the processor or the code is unknown
    return False


@cache
def why_unusable() -> str | None:
    """Return why the installed packages cannot be loaded, as far as needed; None if they can.

    A file of theirs may be missing or damaged, or their versions may not match.
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
    """Return the stored object file, or generate and store it.

    Args:
        path: path of the object file.
        compiled: generates the object file.
        on_compile: called before that.

    Returns:
        The object file, and where and why it could not be stored; None if it was.
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
    """Return the functions in an object file of these functions, by name."""
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
    """Return the path of this user's object file for this code and processor."""
    return cache_path(_processor(), _code_key())


def cache_path(processor: tuple[str, str], made_of: int) -> Path:
    """Return the path of an object file.

    Args:
        processor: name and features of the processor, from LLVM.
        made_of: number of the compiled sources (`code_key`).
    """
    key = crc32("".join(processor).encode(), made_of)
    base = os.environ.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path(os.path.expanduser("~")) / ".cache"
    return cache / "kgroup" / f"kernels-{key:08x}.o"


@cache
def _code_key() -> int:
    return code_key(Path(__file__).parents[1])


def _write(path: Path, code: bytes) -> None:
    """Write a file atomically."""
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
    """Compile functions; return an object file.

    Args:
        functions: module in this package and number of arguments, by function name.
    """
    import llvmlite.binding as llvm

    machine = _machine()
    linked = llvm.parse_assembly("")
    for name, (module, count) in functions.items():
        function = getattr(import_module(f"{__package__}.{module}"), name)
        entry = interruptible(partial(_c_function, function, count))
        linked.link_in(llvm.parse_assembly(entry.inspect_llvm()))
        linked.get_function(entry.native_name).name = _symbol(name)
    # numba adds error handling that needs its runtime; none of these functions raises
    entries = {_symbol(name) for name in functions}
    for value in linked.functions:
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    interruptible(partial(builder.getModulePassManager().run, linked, builder))
    code: bytes = interruptible(partial(machine.emit_object, linked))
    return code


def _c_function(function: Any, count: int) -> Any:
    """Compile a function of `count` integers with C's calling convention."""
    from numba import cfunc, types

    arguments = (types.int64,) * count
    return cfunc(types.int64(*arguments), error_model="numpy")(function.py_func)


def _symbol(name: str) -> str:
    return f"kgroup_{name}"
