# SPDX-License-Identifier: Apache-2.0
"""One step of a recurrent network as a layer: loop over it, or give it to gramme.scan."""

import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init, recurrence
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Cell(Module):
    _cell = recurrence.Tanh

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self._cell.gates * hidden_size
        self.weight_ih = Parameter(gramme.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(gramme.empty(rows, hidden_size, device=device, dtype=dtype))
        self.register_parameter(
            "bias_ih", Parameter(gramme.empty(rows, device=device, dtype=dtype)) if bias else None
        )
        self.register_parameter(
            "bias_hh", Parameter(gramme.empty(rows, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """All uniform in +-1/sqrt(hidden_size), as torch's."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _start(self, input):
        if input.dim() not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"the input should be (N, {self.input_size}) or ({self.input_size},), not "
                f"{tuple(input.shape)}"
            )
        return gramme.zeros(
            *input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device
        )

    def _products(self, input, hidden):
        return F.linear(input, self.weight_ih, self.bias_ih), F.linear(
            hidden, self.weight_hh, self.bias_hh
        )

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + (
            "" if self.bias_ih is not None else ", bias=False"
        )


class RNNCell(_Cell):
    """h' = tanh (W_ih x + b_ih + W_hh h + b_hh), or relu.  x: (N, input_size), h: (N, hidden_size);
    h None: zeros."""

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        h = self._start(input) if hx is None else hx
        cell = recurrence.Tanh if self.nonlinearity == "tanh" else recurrence.Relu
        return cell.step(*self._products(input, h), (h,))[0][0]


class GRUCell(_Cell):
    """Cho et al., 2014, in torch's form: h' = (1 - z) * tanh (W_in x + r * (W_hn h)) + z * h."""

    _cell = recurrence.Gru

    def forward(self, input, hx=None):
        h = self._start(input) if hx is None else hx
        return recurrence.Gru.step(*self._products(input, h), (h,))[0][0]


class LSTMCell(_Cell):
    """Hochreiter and Schmidhuber, 1997, with forget gates: (h', c') from x and (h, c); None:
    zeros."""

    _cell = recurrence.Lstm

    def forward(self, input, hx=None):
        h, c = (self._start(input), self._start(input)) if hx is None else hx
        return recurrence.Lstm.step(*self._products(input, h), (h, c))[0]
