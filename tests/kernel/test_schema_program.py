from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from kgroup.kernel.schema_program import machine, programs


def test_threads_that_come_first_at_once_share_one_set_of_programs() -> None:
    """Compiled code knows the programs by address: a second set would be freed under the first."""
    programs.cache_clear()
    threads = 8
    start = Barrier(threads)

    def make(_: int) -> list[int]:
        start.wait()
        (words,) = machine()[["code", "texts", "keys", "values", "parts"]].tolist()
        return list(words)

    with ThreadPoolExecutor(threads) as pool:
        blocks = list(pool.map(make, range(threads)))
    kept = programs()
    assert blocks == [blocks[0]] * threads
    assert blocks[0][:2] == [kept.code.ctypes.data, kept.texts.ctypes.data]
