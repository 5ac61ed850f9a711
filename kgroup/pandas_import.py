"""Keep pyarrow from importing pandas, which it does as soon as a list becomes an array.

Nothing here needs it, and where it is installed that takes longer than most commands. The same
goes for dateutil, which comes with pandas.
"""

from __future__ import annotations

import sys


def leave_out_pandas() -> None:
    """Let this process find neither from now on."""
    if not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:  # a finder as it is; its base class takes longer to import than this saves
    def find_spec(self, name: str, *_: object) -> None:
        """Find neither, and leave all else to others."""
        if name in ("pandas", "dateutil"):
            raise ModuleNotFoundError(name=name)
