"""The steps as one page that needs nothing else: buttons and arrow keys, light and dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("steps_page.html")


def steps_page(data: dict[str, Any]) -> str:
    """The page of what steps_data gave."""
    plain = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # no text can end the script that holds it
    return PAGE.read_text(encoding="utf-8").replace("/*DATA*/", plain)
