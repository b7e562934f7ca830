"""Networks: parameters in one buffer, recurrent layers in a stack, batches in slices."""

from elman.network.parameters import Parameters
from elman.network.stack import Network, State, new_speaker

__all__ = ["Network", "Parameters", "State", "new_speaker"]
