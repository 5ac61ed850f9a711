"""Keep pyarrow from importing pandas, which it does when it first converts a list to an array.

kgroup uses neither pandas nor dateutil, which comes with it. Where pandas is installed, its import
is a third of a short command: 0.28 s of 0.86 s CPU for `decode-offsets` of a small segment (20
starts). `sys.modules["pandas"] = None` does not serve: pyarrow takes the None for the module.
"""

from __future__ import annotations

import sys


def leave_out_pandas() -> None:
    """Make pandas and dateutil look uninstalled in this process."""
    if not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:  # a finder as it is; its base class takes longer to import than this saves
    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas and dateutil; leave every other name to the other finders."""
        if name in ("pandas", "dateutil"):
            raise ModuleNotFoundError(name=name)
