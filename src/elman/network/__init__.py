"""Networks: parameters in one buffer, stacks of recurrent layers, batches that are split into slices."""

from elman.network.batch import Batch
from elman.network.encoder_decoder import EncoderDecoder
from elman.network.network import DecoderState, Draw, HeadNetwork, Network, PackedNetwork, language_network
from elman.network.parameters import Parameters
from elman.network.sampler import Sampler, make_sampler
from elman.network.stack import Dropout, Masks, Stack, check_ids

__all__ = [
    "Batch",
    "DecoderState",
    "Draw",
    "Dropout",
    "EncoderDecoder",
    "HeadNetwork",
    "Masks",
    "Network",
    "PackedNetwork",
    "Parameters",
    "Sampler",
    "Stack",
    "check_ids",
    "language_network",
    "make_sampler",
]
