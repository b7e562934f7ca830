"""The judges of elman.maths (its ONNX backend, its oracle) stand in tests/maths and serve here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "maths"))
