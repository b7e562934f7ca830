"""Networks: parameters in one buffer, recurrent layers in a stack, batches in slices."""

from elman.network.parameters import Parameters
from elman.network.stack import Network, State

__all__ = ["Network", "Parameters", "State"]
