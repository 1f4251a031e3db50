# SPDX-License-Identifier: Apache-2.0
"""A softmax over many classes in two steps (Grave et al., "Efficient softmax approximation for
GPUs", 2017)."""

from collections import namedtuple

import gramme
from gramme.nn import functional as F
from gramme.nn.containers import ModuleList, Sequential
from gramme.nn.layers import Linear
from gramme.nn.module import Module

_Result = namedtuple("_ASMoutput", ("output", "loss"))


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a first softmax (the head), which also chooses a cluster of the rarer
    ones, each with a smaller softmax.

    (N, in_features) and targets (N,), or without N, to (output, loss): the log probability of each
    target, and minus their mean.
    cutoffs: where clusters begin, ascending and below n_classes; cluster i has in_features //
    div_value ** (i + 1) features.  All clusters are computed for all examples, so no step depends
    on data.
    """

    def __init__(
        self,
        in_features,
        n_classes,
        cutoffs,
        div_value=4.0,
        head_bias=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        cutoffs = list(cutoffs)
        if (
            not cutoffs
            or cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
        ):
            raise ValueError(
                "cutoffs are different ints from 1 to n_classes - 1, ascending, and these are "
                f"{cutoffs}"
            )
        self.in_features, self.n_classes, self.cutoffs = (
            in_features,
            n_classes,
            cutoffs + [n_classes],
        )
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden, size = (
                int(in_features // div_value ** (i + 1)),
                self.cutoffs[i + 1] - self.cutoffs[i],
            )
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self):
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def log_prob(self, input):
        """The log probabilities of all classes: (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(
                F.log_softmax(cluster(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1)
            )
        return gramme.cat(parts, 1)

    def predict(self, input):
        """The most probable class of each example: (N,)."""
        return self.log_prob(input).argmax(1)

    def forward(self, input, target):
        single = target.dim() == 0
        if single:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        if input.dim() != 2 or target.dim() != 1 or input.shape[0] != target.shape[0]:
            raise RuntimeError(
                f"an input {list(input.shape)} does not go with targets {list(target.shape)}: (N, "
                "in_features) and (N,)"
            )
        output = self.log_prob(input).gather(1, target.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return _Result(output.squeeze(0) if single else output, loss)
