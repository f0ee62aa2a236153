"""Numbers as they are held and as they are shown."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
NOTHING = "-"  # shown for what was not measured


def show_number(value: float | None, digits: int = 0) -> str:
    # z: what rounds to nothing has no sign.
    return NOTHING if value is None else f"{value:z,.{digits}f}".replace(",", " ")
