"""Names for the arrays and callbacks that go through the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Complexes: TypeAlias = NDArray[np.complex128]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

Progress: TypeAlias = Callable[[int, int], object]  # called with (done, in all) now and then
Say: TypeAlias = Callable[[str], object]  # called with what is being done
