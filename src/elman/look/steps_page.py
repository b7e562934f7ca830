"""The steps as one page that needs nothing else: the unrolled network, every equation, and weights that can be changed.

Scripts that compute are in assets/steps_engine.js; tests compare every number of them with Python's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = ("steps_engine.js", "steps_drawing.js", "steps_lab.js")


def steps_page(data: dict[str, Any]) -> str:
    """The page of what `steps_data` gave; with parameters in it, weights can be changed."""
    plain = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # no text can end the script that holds it
    scripts = "\n".join((HERE / "assets" / name).read_text(encoding="utf-8") for name in SCRIPTS)
    page = (HERE / "steps_page.html").read_text(encoding="utf-8")
    return page.replace("/*SCRIPTS*/", scripts).replace("/*DATA*/", plain)
