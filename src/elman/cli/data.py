"""elman data: the texts and examples that Elman knows by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elman.cli.console import console
from elman.cli.flags import argument
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Data:
    """List and download the texts and examples that Elman knows by name.

    path NAME prints the path of one, and downloads or makes it first if necessary, as elman train NAME does. A file or
    folder called NAME, NAME.txt or NAME.tsv in the folder $ELMAN_DATA is used instead of a download. fetch NAME ignores
    $ELMAN_DATA: it downloads into the cache, unless it has done so before, and prints the path. Those that a program
    makes need no network.

    For instance:
        elman data list
        elman data fetch sentiment
    """

    action: Literal["list", "path", "fetch"] = argument("ACTION", "list, path or fetch", "list")
    name: str | None = argument("NAME", "a name from the list", None)

    def run(self) -> int:
        from elman.data import fetch, find_source, list_corpora
        from elman.data.named import CORPORA

        if self.action == "list":
            for name, what, size, where in list_corpora():
                missing = "not downloaded" if CORPORA[name].url else "made when first used"
                console.print(f"{name}: {size:,} bytes, {where or missing}", markup=False)
                console.print(f"    {what}", markup=False)
            return 0
        if self.name is None:
            raise ArgumentError(
                f"elman data {self.action}", expected="a name", got="none", do="elman data list shows all names."
            )
        print(find_source(self.name) if self.action == "path" else fetch(self.name))
        return 0
