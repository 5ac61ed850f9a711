"""Puts manual pages into wheels, made of the commands, where `man` looks for them."""

import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):
    """A hook that makes the pages in a folder, for as long as the wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make them."""
        if version == "editable":  # the commands may change
            return
        sys.path.insert(0, self.root)
        from kgroup.cli.man_page import pages

        self._folder = Path(mkdtemp())
        for name, text in pages():
            path = self._folder / name
            path.write_text(text, "utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        if version != "editable":
            rmtree(self._folder)
