# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over whole sequences: layers of RNN, LSTM (with projections: Sak et al. 2014)
and GRU cells, in one or both directions.

A sequence is run as a list of steps of which each has at most as many examples as the one before:
equally many for tensors, fewer and fewer for packed sequences.  The products of all inputs with
weight_ih are one product, those with the hidden state one at each step; compiled, the loop over the
steps is unrolled.  The cells and their gradients are recurrence.py's.
"""

import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init, recurrence
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter
from gramme.nn.utils.rnn import PackedSequence

_CELLS = {
    "RNN_TANH": recurrence.Tanh,
    "RNN_RELU": recurrence.Relu,
    "LSTM": recurrence.Lstm,
    "GRU": recurrence.Gru,
}


class RNNBase(Module):
    """The base of RNN, LSTM and GRU; mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU", of which the
    weights are.

    input: (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size), or a
    PackedSequence.

    Result: (output, state).  output: (L, N, D * hidden_size), of the last layer, D directions; the
    state at the end: (D * num_layers, N, hidden_size), for LSTM a pair (h, c), h with proj_size
    features if there are any.  A state given to forward() is where to begin; None: zeros.  dropout
    is between layers.  Errors: ValueError for another shape or mode.
    """

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, proj_size=0,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if mode not in _CELLS:
            raise ValueError(f"unrecognized RNN mode: {mode!r}; it is {', '.join(_CELLS)}")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError(
                f"hidden_size and num_layers must be positive, and are {hidden_size} and "
                f"{num_layers}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout probability must be between 0 and 1, not {dropout}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size must be below hidden_size {hidden_size}, and is {proj_size}"
            )
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = (
            mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
        )
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = (
            batch_first,
            float(dropout),
            bidirectional,
            proj_size,
        )
        self._out = proj_size or hidden_size
        rows = _CELLS[mode].gates * hidden_size
        self._names = []  # for each layer and direction: its parameters
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                columns = input_size if layer == 0 else self._out * self._directions
                sizes = {"weight_ih": (rows, columns), "weight_hh": (rows, self._out)}
                if bias:
                    sizes.update({"bias_ih": (rows,), "bias_hh": (rows,)})
                if proj_size:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                names = {}
                for name, size in sizes.items():
                    names[name] = f"{name}_l{layer}{suffix}"
                    setattr(
                        self,
                        names[name],
                        Parameter(gramme.empty(*size, device=device, dtype=dtype)),
                    )
                self._names.append(names)
        self.reset_parameters()

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self):
        """A list of parameters for each layer and direction."""
        return [[getattr(self, name) for name in names.values()] for names in self._names]

    def reset_parameters(self):
        """All uniform in +-1/sqrt(hidden_size), as torch's."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self):
        """Nothing to do: how weights lie in memory does not matter here."""

    def _layers(self, flat, sizes, start):
        """flat: all steps below each other, sizes: how many rows each has; start: a tuple of (D *
        num_layers, N, ...)."""
        ends = []
        for layer in range(self.num_layers):
            sides = []
            for direction in range(self._directions):
                k = layer * self._directions + direction
                weights = {
                    name: getattr(self, attribute) for name, attribute in self._names[k].items()
                }
                flat_products = F.linear(flat, weights["weight_ih"], weights.get("bias_ih"))
                output, *end = recurrence.layer(
                    _CELLS[self.mode], bool(direction), sizes, flat_products, weights["weight_hh"],
                    weights.get("bias_hh"), weights.get("weight_hr"),
                    tuple([part[k] for part in start]),
                )  # fmt: skip
                sides.append(output)
                ends.append(end)
            flat = gramme.cat(sides, -1) if len(sides) > 1 else sides[0]
            if self.dropout and layer < self.num_layers - 1:
                flat = F.dropout(flat, self.dropout, self.training)
        return flat, tuple([gramme.stack([end[i] for end in ends]) for i in range(len(start))])

    # -- Sequences in and out ----------------------------------------------------------------------

    def _widths(self):
        """Features of each part of the state."""
        return (self._out,)

    def _start(self, hx, n, like):
        rows = self.num_layers * self._directions
        if hx is None:
            return tuple(
                [
                    gramme.zeros(rows, n, width, dtype=like.dtype, device=like.device)
                    for width in self._widths()
                ]
            )
        start = hx if isinstance(hx, tuple) else (hx,)
        wanted = [[rows, n, width] for width in self._widths()]
        if [list(part.shape) for part in start] != wanted:
            raise ValueError(
                f"the state should be of {wanted}, and is of {[list(part.shape) for part in start]}"
            )
        return start

    def _as_given(self, state):
        return state[0] if len(self._widths()) == 1 else state

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"the input should be (L, N, {self.input_size}) or (L, {self.input_size}), not "
                f"{list(input.shape)}"
            )
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(1)
            if hx is not None:
                hx = (
                    tuple([part.unsqueeze(1) for part in hx])
                    if isinstance(hx, tuple)
                    else hx.unsqueeze(1)
                )
        elif self.batch_first:
            input = input.transpose(0, 1)
        length, n = input.shape[0], input.shape[1]
        if length == 0:
            raise ValueError("the sequence has no steps")
        flat, state = self._layers(
            input.reshape(length * n, self.input_size), [n] * length, self._start(hx, n, input)
        )
        output = flat.reshape(length, n, flat.shape[-1])
        if single:
            return output.squeeze(1), self._as_given(tuple([part.squeeze(1) for part in state]))
        return (output.transpose(0, 1) if self.batch_first else output), self._as_given(state)

    def _forward_packed(self, input, hx):
        sizes = input.batch_sizes.tolist()
        if input.data.shape[-1] != self.input_size:
            raise ValueError(
                f"the input should have {self.input_size} features, not {input.data.shape[-1]}"
            )
        start = self._start(hx, sizes[0], input.data)
        if hx is not None and input.sorted_indices is not None:
            start = tuple([part.index_select(1, input.sorted_indices) for part in start])
        flat, state = self._layers(input.data, sizes, start)
        if input.unsorted_indices is not None:
            state = tuple([part.index_select(1, input.unsorted_indices) for part in state])
        return PackedSequence(
            flat, input.batch_sizes, input.sorted_indices, input.unsorted_indices
        ), self._as_given(state)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        plain = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, value in plain.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """h' = tanh (W_ih x + b_ih + W_hh h + b_hh), or relu (Elman 1990).  What goes in and comes out
    stands at RNNBase."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
        batch_first=False, dropout=0.0, bidirectional=False,
        device=None, dtype=None,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Cho et al., 2014, in torch's form: see GRUCell.  What goes in and comes out stands at
    RNNBase."""

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
    ):
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )


class LSTM(RNNBase):
    """Hochreiter and Schmidhuber, 1997, with forget gates: see LSTMCell; the state is (h, c).
    proj_size: h is weight_hr times what it would be.  What goes in and comes out stands at
    RNNBase."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _widths(self):
        return self._out, self.hidden_size
