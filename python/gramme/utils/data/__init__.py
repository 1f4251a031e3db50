# SPDX-License-Identifier: Apache-2.0
"""Data sets, samplers and loaders."""

from gramme.utils.data.collate import default_collate, default_convert
from gramme.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from gramme.utils.data.dataloader import DataLoader, get_worker_info
from gramme.utils.data.distributed import DistributedSampler
from gramme.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    name for name in dir() if name[0].isupper() or name.startswith(("default_", "random_", "get_"))
]
