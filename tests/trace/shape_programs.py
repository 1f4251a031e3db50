# SPDX-License-Identifier: Apache-2.0
"""Random functions of tensors whose sizes change from call to call.

A program is a list of statements over two matrices, a vector and an int; some write in place, also
to what came in.  The generator knows of each value which dimensions are certainly equal, by names
("n", "m", a number, "d3" for what a statement made); what else may fail for some sizes (a view of
an odd number of rows, the maximum of nothing) fails in eager as well, and then has to fail
compiled.  Programs branch on sizes: each way through is a generalisation of its own, and `f.path`
says which one a call took.
"""

import random

UNARY = (
    "{0}.tanh()",
    "{0}.relu()",
    "-{0}",
    "{0} * {0}",
    "{0}.sigmoid()",
    "G.exp({0} * 0.1)",
    "{0} + 1",
    "2 - {0}",
    "{0} / 3",
    "{0}.clamp(-1, 1)",
    "{0}.contiguous()",
    "{0}.clone()",
    "{0}.detach() + {0}",
    "nn.functional.gelu({0})",
    "nn.functional.softmax({0}, dim={last})",
    "{0}.flip(0)",
    "{0}.cumsum({last})",
    "G.where({0} > 0, {0}, {0} * 0.5)",
    "{0} * {int}",
    "{0} + {int}",
    "{0}.roll(1, 0)",
    "({0} * 0.5).cumprod({last})",
)
BINARY = (
    "{0} + {1}",
    "{0} * {1}",
    "{0} - {1} * 0.5",
    "G.maximum({0}, {1})",
    "G.where({0} > {1}, {0}, {1})",
    "G.lerp({0}, {1}, 0.25)",
    "{0} / ({1} * {1} + 1)",
)
REDUCE = ("sum", "mean", "amax", "amin", "var")
# What stays one operator in the graph; {0} and {1} are of one shape.
CONTROL = (
    "G.cond({1}.sum() > 0, lambda: {0} * 2 + 1, lambda: ({0} * {1}).tanh())",
    "G.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c * 0.5 + {1}), (G.tensor(0), {0}))[1]",
    "G.scan(lambda c, s: (c * 0.5 + s[0], c * s[1]), {0}.sum(0), ({0}, {1}))[1]",
    "G.map(lambda s: s.tanh() * 2 + G.ones(s.shape), {0})",
    "G.associative_scan(lambda p, q: p * 0.5 + q.sin(), {0})",
    "G.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), ({0}.sigmoid(), {1}))[1]",
    "G.invoke_subgraph(lambda p, q: (p + q).relu(), {0}, {1})",
    # drawing, and with gradients that the program gives
    (
        "G.cond({1}.sum() > 0, lambda: nn.functional.dropout({0}, 0.25), lambda: {0} * "
        "G.rand({1}.shape) + G.rand({0}.shape[-1:]))"
    ),
    (
        "G.while_loop(lambda i, c: ((c * c).sum() > G.rand(()) * 9) & (i < 4), lambda i, c: (i + "
        "1, c * G.rand_like({1}) * 0.5), (G.tensor(0), {0}))[1]"
    ),
    (
        "G.scan(lambda c, s: (c + nn.functional.dropout(s, 0.5), Given.apply(s) * c), {0}.sum(0), "
        "{0})[1]"
    ),
    "G.map(lambda s: Given.apply(s) + G.randn(s.shape), {0})",
    "G.invoke_subgraph(lambda p: Given.apply(p * G.rand_like(p)), {0})",
    (
        "checkpoint(lambda p: Given.apply(nn.functional.dropout(p, 0.5)).sin(), {0}, "
        "use_reentrant=False)"
    ),
)
INTS = (
    "{0}.shape[{d}]",
    "{0}.size({d})",
    "len({0})",
    "{0}.numel()",
    "{i} + 1",
    "{i} * 2",
    "{i} // 2",
    "{i} + {j}",
    "{i} * {j}",
    "max({i}, {j})",
    "min({i}, 5)",
    "{i} % 4",
)
TESTS = ("{i} % 2 == 0", "{i} > 4", "{i} == {j}", "{i} < {j}", "{i} >= 2", "{0}.shape[{d}] > {i}")


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.values, self.ints, self.made, self.paths = [], {}, ["k"], 0, 0
        self.values = {"x": ("n", "m"), "y": ("n", "m"), "v": ("m",)}

    def name(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    def fresh(self):
        self.made += 1
        return f"d{self.made}"

    def put(self, text, dims, indent):
        name = self.name("t")
        self.lines.append(f"{indent}{name} = {text}")
        self.values[name] = tuple(dims)

    def any(self, at_least=1, at_most=4):
        fit = [v for v, dims in self.values.items() if at_least <= len(dims) <= at_most]
        # what was made lately more often: chains, not a bush
        return self.r.choice(fit[-4:] if self.r.random() < 0.6 else fit)

    def int_text(self):
        a = self.any()
        return self.r.choice(INTS).format(
            a,
            d=self.r.randrange(len(self.values[a])),
            i=self.r.choice(self.ints),
            j=self.r.choice(self.ints),
        )

    def statement(self, indent="    "):
        kind = self.r.choice(
            (
                "unary",
                "unary",
                "binary",
                "binary",
                "broadcast",
                "reduce",
                "slice",
                "move",
                "move",
                "join",
                "contract",
                "int",
                "create",
                "write",
                "branch",
                "control",
            )
        )
        getattr(self, kind)(indent)

    def unary(self, indent):
        a = self.any()
        text = self.r.choice(UNARY).format(
            a, last=len(self.values[a]) - 1, int=self.r.choice(self.ints)
        )
        self.put(text, self.values[a], indent)

    def binary(self, indent):
        a = self.any()
        b = self.r.choice([v for v, dims in self.values.items() if dims == self.values[a]])
        self.put(self.r.choice(BINARY).format(a, b), self.values[a], indent)

    def control(self, indent):
        a = self.any()
        b = self.r.choice([v for v, dims in self.values.items() if dims == self.values[a]])
        self.put(
            self.r.choice(CONTROL).format(a, b).replace("G.", "G.higher_order.", 1),
            self.values[a],
            indent,
        )

    def broadcast(self, indent):
        a = self.any(2)
        dims = self.values[a]
        rows = [v for v, d in self.values.items() if d == dims[1:]]
        b = self.r.choice(
            rows
            + [
                f"{a}.mean(dim=0)",
                f"{a}.amax(dim=-1, keepdim=True)",
                f"{a}[:1]",
                f"G.ones({a}.shape[-1])",
            ]
        )
        self.put(self.r.choice(BINARY).format(a, b), dims, indent)

    def reduce(self, indent):
        a = self.any()
        dims = self.values[a]
        d, keep = self.r.randrange(len(dims)), self.r.random() < 0.4
        rest = (*dims[:d], *((1,) if keep else ()), *dims[d + 1 :])
        self.put(f"{a}.{self.r.choice(REDUCE)}(dim={d}, keepdim={keep})", rest, indent)

    def slice(self, indent):
        a = self.any()
        dims, i = self.values[a], self.r.choice(self.ints)
        how = self.r.choice(
            ("1:", ":-1", "::2", f":{i}", f"{i}:", ":2", "1:-1", "-1", f":{a}.shape[0] // 2")
        )
        rest = dims[1:] if how == "-1" else (self.fresh(), *dims[1:])
        if len(dims) > 1 and self.r.random() < 0.4:
            how, rest = f":, {how}", dims[:1] if how == "-1" and len(dims) == 2 else (
                dims[0],
                *((self.fresh(),) if how != "-1" else ()),
                *dims[2:],
            )
        self.put(f"{a}[{how}]", rest, indent)

    def move(self, indent):
        a = self.any()
        dims = self.values[a]
        n = len(dims)
        d = self.r.randrange(n)
        if n > 1 and self.r.random() < 0.4:
            e = self.r.randrange(n)
            to = list(dims)
            to[d], to[e] = to[e], to[d]
            return self.put(f"{a}.transpose({d}, {e})", to, indent)
        how = self.r.choice(
            ("flat", "unsqueeze", "expand", "rows", "halves", "view", "squeeze", "repeat")
        )
        if how == "flat":
            self.put(f"{a}.reshape(-1)", (dims[0] if n == 1 else self.fresh(),), indent)
        elif how == "unsqueeze" and n < 4:
            self.put(f"{a}.unsqueeze({d})", (*dims[:d], 1, *dims[d:]), indent)
        elif how == "expand" and n < 4:
            i = self.r.choice(self.ints)
            self.put(
                f"{a}.unsqueeze(0).expand({i}, {', '.join(['-1'] * n)})",
                (i if i == "k" else self.fresh(), *dims),
                indent,
            )
        elif how == "rows":
            self.put(
                f"{a}.reshape({a}.shape[0], -1)",
                (dims[0], self.fresh() if n != 2 else dims[1]),
                indent,
            )
        elif how == "halves":
            self.put(f"{a}.reshape(2, -1)", (2, self.fresh()), indent)
        elif how == "view":
            self.put(f"{a}.view({a}.numel())", (dims[0] if n == 1 else self.fresh(),), indent)
        elif how == "squeeze":
            self.put(
                f"{a}.squeeze({d})",
                (*dims[:d], *((dims[d],) if dims[d] != 1 else ()), *dims[d + 1 :]),
                indent,
            )
        else:
            self.put(
                f"{a}.repeat({', '.join(['2'] + ['1'] * (n - 1))})",
                (self.fresh(), *dims[1:]),
                indent,
            )

    def join(self, indent):
        a = self.any()
        dims = self.values[a]
        b = self.r.choice(
            [v for v, d in self.values.items() if len(d) == len(dims) and d[1:] == dims[1:]]
        )
        c = self.r.choice([v for v, d in self.values.items() if d == dims])
        how = self.r.choice(
            (f"G.cat([{a}, {b}])", f"G.stack([{a}, {c}])", f"G.stack([{c}, {a}], dim={len(dims)})")
        )
        to = (
            (self.fresh(), *dims[1:])
            if "cat" in how
            else (2, *dims)
            if "dim" not in how
            else (*dims, 2)
        )
        if len(to) < 5:
            self.put(how, to, indent)

    def contract(self, indent):
        a = self.any(2, 2)
        dims = self.values[a]
        fit = [v for v, d in self.values.items() if d[:1] == dims[1:] and len(d) < 3]
        b = self.r.choice([*fit, f"{a}.T", f"G.ones({a}.shape[1], 3)"])
        to = dims[:1] + (
            self.values[b][1:] if b in self.values else (dims[0],) if b.endswith("T") else (3,)
        )
        self.put(f"({a} @ {b}) * 0.3", to, indent)

    def write(self, indent):
        """To memory of its own, so that nothing that a gradient needs is lost; or to y, of which no
        gradient is asked."""
        a = self.any()
        dims = self.values[a]
        b = self.r.choice([v for v, d in self.values.items() if d == dims])
        how = self.r.choice(
            (
                "{0}.add_({1})",
                "{0}.mul_({int})",
                "{0}[:1] = 2",
                "{0}[1:] += 1",
                "{0}[-1] *= 2",
                "{0}.relu_()",
                "{0}.copy_({1} * 2)",
                "{0}[:, :1] -= 1",
            )
        )
        if len(dims) < 2 and ":," in how:
            how = "{0}.add_(1)"
        if dims == self.values["y"] and self.r.random() < 0.4:
            self.lines.append(
                indent + how.format("y", f"{b}.detach()", int=self.r.choice(self.ints))
            )
            return
        name = self.name("t")
        self.lines += [
            f"{indent}{name} = {a} * 1",
            indent + how.format(name, b, int=self.r.choice(self.ints)),
        ]
        self.values[name] = dims

    def int(self, indent):
        name = self.name("i")
        self.lines.append(f"{indent}{name} = {self.int_text()}")
        self.ints.append(name)

    def create(self, indent):
        a = self.any()
        i = self.r.choice(self.ints)
        text, dims = self.r.choice(
            (
                (f"G.arange({i}) * 0.1", (i,)),
                (f"G.zeros({a}.shape) + {i}", self.values[a]),
                (f"G.full(({i}, 3), 0.5)", (i, 3)),
                (f"G.ones_like({a})", self.values[a]),
                (f"G.eye({a}.shape[0])", (self.values[a][0],) * 2),
            )
        )
        self.put(
            text,
            (
                d
                if d in ("n", "m", "k") or not isinstance(d, str) or d.startswith("d")
                else f"of {d}"
                for d in dims
            ),
            indent,
        )

    def branch(self, indent):
        """Both sides give a value of the same dimensions."""
        if self.paths == 2 or len(indent) > 4:
            return self.unary(indent)
        self.paths += 1
        a = self.any()
        test = self.r.choice(TESTS).format(
            a,
            d=self.r.randrange(len(self.values[a])),
            i=self.r.choice(self.ints),
            j=self.r.choice(self.ints),
        )
        b, c = self.r.choice(list(self.values)), self.name("t")
        one, two = (
            self.r.choice(UNARY).format(
                b, last=len(self.values[b]) - 1, int=self.r.choice(self.ints)
            )
            for _ in range(2)
        )
        self.lines += [
            f"{indent}if {test}:",
            f"{indent}    {c} = {one}",
            f"{indent}else:",
            f"{indent}    {c} = {two}",
        ]
        self.values[c] = self.values[b]


def source(seed, length=None):
    """The text of a function f (x, y, v, k) that gives a tuple of tensors, ints and shapes."""
    m = Maker(seed)
    for _ in range(length or m.r.randrange(2, 10)):
        m.statement()
    made = [v for v in m.values if v not in "xyv"] or ["x"]
    results = m.r.sample(made, min(len(made), 3))
    if made[-1] not in results:
        results.append(made[-1])
    results += [m.r.choice((f"{results[0]}.shape", m.r.choice(m.ints), f"{results[0]}.stride()"))]
    return "def f(x, y, v, k):\n" + "\n".join(m.lines) + f"\n    return {', '.join(results)}\n"


def sizes(seed, n):
    """n sets of sizes (n, m, k): some come back, some stay as they are, 0 and 1 are rare."""
    r = random.Random(seed * 7919 + 1)
    one = (
        lambda: r.choice((2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20))
        if r.random() < 0.9
        else r.choice((0, 1))
    )
    fixed = [r.random() < 0.3 for _ in range(3)]
    now = [r.choice((3, 4, 5)) for _ in range(3)]
    seen = []
    for _ in range(n):
        seen.append(tuple(now))
        if r.random() < 0.3:
            now = list(r.choice(seen))
        else:
            now = [s if keep or r.random() < 0.4 else one() for s, keep in zip(now, fixed)]
    return seen
