"""Types of arrays and of their entries."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]  # floats of any precision, integers (ids, lengths) or booleans
FloatType: TypeAlias = type[np.floating[Any]] | np.dtype[Any]
