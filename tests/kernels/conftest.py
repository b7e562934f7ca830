"""Makes the tools of tests/maths (an ONNX backend, reference implementations) importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "maths"))
