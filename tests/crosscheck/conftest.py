"""What is compared, and how far apart it was: the largest deviations are printed at the end."""

import numpy as np
import pytest

TOLERANCE = 1e-10  # absolute, and relative to the largest entry where that is above 1
worst: dict[str, float] = {}


@pytest.fixture
def agree():
    """agree(name=(ours, theirs), …), where theirs is a tensor."""

    def compare(**pairs):
        for name, (ours, theirs) in pairs.items():
            theirs = theirs.detach().numpy()
            assert np.shape(ours) == theirs.shape, name
            deviation = float(np.abs(ours - theirs).max() / max(1, np.abs(theirs).max()))
            worst[name] = max(worst.get(name, 0), deviation)
            assert deviation <= TOLERANCE, f"{name} is off by {deviation:.1e}"

    return compare


def pytest_terminal_summary(terminalreporter):
    if worst:
        terminalreporter.write_line(f"largest deviations from PyTorch, of {TOLERANCE:.0e} allowed:")
        for name, deviation in sorted(worst.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"  {name:<10} {deviation:.1e}")
