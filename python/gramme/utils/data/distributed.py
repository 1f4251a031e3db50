# SPDX-License-Identifier: Apache-2.0
"""DistributedSampler: the part of a data set that one of several processes takes."""

import math

import gramme
from gramme.utils.data.sampler import Sampler


class DistributedSampler(Sampler):
    """DistributedSampler(dataset, num_replicas, rank, shuffle=True, seed=0, drop_last=False): every
    num_replicas-th index, from number rank on.

    All parts are equally long: indices from the beginning come again at the end, or drop_last
    leaves the rest out.  shuffle: the order is random, the same in all processes, and another one
    after set_epoch(epoch).  gramme has no groups of processes that could be asked, so num_replicas
    and rank are to be given.  Errors: ValueError without them, and for a rank that is not below
    num_replicas.
    """

    def __init__(
        self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False
    ):
        num_replicas = gramme.distributed.get_world_size() if num_replicas is None else num_replicas
        rank = gramme.distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        n = len(self.dataset)
        indices = list(range(n))
        if self.shuffle:
            indices = gramme.randperm(
                n, generator=gramme.Generator().manual_seed(self.seed + self.epoch)
            ).tolist()
        if indices and len(indices) < self.total_size:
            indices = (indices * math.ceil(self.total_size / len(indices)))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """The order of the next passes is that of this epoch."""
        self.epoch = epoch
