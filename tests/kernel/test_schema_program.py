from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from kgroup.kernel import memory
from kgroup.kernel.schema_program import machine_block, programs


def test_threads_that_come_first_at_once_share_one_set_of_programs() -> None:
    """Compiled code knows the programs by address: a second set would be freed under the first."""
    programs.cache_clear()
    threads = 8
    start = Barrier(threads)

    def make(_: int) -> list[int]:
        start.wait()
        block: list[int] = machine_block()[: memory.BLOCK_NOTES].tolist()
        return block

    with ThreadPoolExecutor(threads) as pool:
        blocks = list(pool.map(make, range(threads)))
    kept = programs()
    assert blocks == [blocks[0]] * threads
    assert blocks[0][memory.BLOCK_CODE] == kept.code.ctypes.data
    assert blocks[0][memory.BLOCK_TEXTS] == kept.texts.ctypes.data
