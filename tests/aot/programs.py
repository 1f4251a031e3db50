# SPDX-License-Identifier: Apache-2.0
"""Random functions over tensors that share memory, and random calls of them.

A program is text: how its inputs are made, what the function does, what is done with the results.
Every statement is tried once in plain Python when it is chosen, and left out where it raises, so
that nearly all programs run to their end.
"""

import contextlib
import random
import re

import gramme as G

SHAPES = [(12,), (3, 4), (4, 3), (2, 6)]
WAYS = [
    "{a}", "{a}", "{a}[:8]", "{a}[2:10]", "{a}[4:12].view(2, 4)", "{a}.view(3, 4)",
    "{a}.view(4, 3)", "{a}.view(3, 4).t()",
    "{a}.view(3, 4)[1:]", "{a}.view(3, 4)[:, 1:3]", "{a}.view(3, 4)[0]", "{a}[::2]", "{a}[1]",
    "{a}[1:2].expand(4)",
    "{a}.view(2, 6)", "{a}.detach()",
]  # fmt: skip
EXPRESSIONS = [
    "{a} * {b}", "{a} + {b}", "{a} * 0.5", "{a} - {b}", "{a}.sin()", "{a}.tanh() * {a}",
    "{a}.sum()", "{a}.mean(0)", "{a} @ {b}",
    "{a} * {a}", "{a}.relu()", "{a}.clone()", "G.where({a} > 0, {a}, {b})",
]  # fmt: skip
VIEWS = [
    "{a}.view(-1)", "{a}.view(3, 4)", "{a}.t()", "{a}[1:]", "{a}[0]", "{a}[:, 1]", "{a}[::2]",
    "{a}.unsqueeze(0)", "{a}.squeeze()",
    "{a}.transpose(0, 1)", "{a}.detach()", "{a}.reshape(2, 6)", "{a}.reshape(-1)",
    "{a}.expand(3, 4)", "{a}", "{a}[-1]",
    "{a}.as_strided((2, 3), (6, 2))", "{a}.as_strided((3, 2, 2), (4, 0, 1))",
    "{a}.as_strided((3, 2), (2, 3))",
]  # fmt: skip
WRITES = [
    "{a}.mul_(2)", "{a}.add_({b})", "{a}.copy_({b})", "{a}[1:] = {b}", "{a}[0] = 2.5",
    "{a}[0].mul_(3)", "{a}.zero_()", "{a} += {b}",
    "{a}.mul_({b})", "{a}[:, 1].add_(1)", "{a}.view(-1)[1:3].mul_(-1)", "{a}.sin_()",
    "{a}[1:].copy_({a}[:-1])", "{a}[::2] *= {b}",
    "{a}.detach().add_(1)",
]  # fmt: skip
SHAPES_IN_PLACE = [
    "{a}.t_()",
    "{a}.unsqueeze_(0)",
    "{a}.squeeze_()",
    "{a}.transpose_(0, 1)",
    "{a}.resize_(12)",
    "{a}.as_strided_((4, 3), (1, 4))",
    "{a}.set_({b})",
]
QUIET = ["with G.no_grad(): {a}.mul_(2)", "with G.no_grad(): {a}.add_({b})",
"with G.no_grad(): {n} = {a} * 2",
         "with G.no_grad(): {n} = {a}[1:]"]  # fmt: skip


class Program:
    WAYS, EXPRESSIONS, VIEWS, WRITES, SHAPES_IN_PLACE, QUIET = (
        WAYS,
        EXPRESSIONS,
        VIEWS,
        WRITES,
        SHAPES_IN_PLACE,
        QUIET,
    )
    KINDS = [
        (0.30, "EXPRESSIONS"),
        (0.55, "VIEWS"),
        (0.85, "WRITES"),
        (0.92, "SHAPES_IN_PLACE"),
        (1, "QUIET"),
    ]
    AFTER = [None, "backward", "backward", "outside", "grad", "double", "retain"]
    around = contextlib.nullcontext  # what the call is made in

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed
        self.seen = []  # what hooks saw
        self.setups = [self._setup() for _ in range(self.random.choice([1, 1, 2]))]
        self._body()

    # -- inputs: several ways for the same function ------------------------------------------------

    def _setup(self):
        r, lines, bases, written = self.random, [], [], []
        for i in range(r.choice([1, 1, 2])):
            kind = r.choice(["plain", "plain", "leaf", "inner"])
            base = self.base(i)
            if base.endswith((".long()", ".int()")):
                kind = "plain"
            lines.append(f"b{i} = {base}{'.requires_grad_()' if kind != 'plain' else ''}")
            if kind != "plain":
                lines.append(f"leaves.append(b{i})")
            if kind == "inner":
                lines.append(f"b{i} = b{i} * 1.25")
            if kind != "leaf":
                written.append(f"b{i}")
            bases.append(f"b{i}")
        inputs = [
            r.choice(self.WAYS).format(a=r.choice(bases)) for _ in range(r.choice([1, 2, 2, 3]))
        ]
        if len(getattr(self, "names", [])) > 0:
            inputs = (inputs * 3)[: len(self.names)]
        self.names = [f"x{i}" for i in range(len(inputs))]
        if len(inputs) > 1 and r.random() < 0.15:
            inputs[1] = inputs[0]
        lines.append("inputs = [" + ", ".join(inputs) + "]")
        if len(inputs) > 1 and r.random() < 0.15:
            lines.append("inputs[1] = inputs[0]")
        self.finish(lines)
        late = random.Random(
            f"{self.seed} late"
        )  # of its own: the rest of a seed's program is what it was
        if (
            written and late.random() < 0.2
        ):  # views that were taken before get their histories when somebody looks at them
            lines.append(
                late.choice(written) + late.choice(["[2:5].mul_(2)", "[2:5].zero_()", ".neg_()"])
            )
        return "\n".join(lines)

    def base(self, i):
        return f"(G.arange(12).float() * 0.37 - {i + 1.5})"

    def finish(self, lines):
        pass

    def check(self, line, scope):
        """Raises where the line had better not be there."""

    def scope(self):
        return {"G": G}

    def make(self, k=0):
        scope = dict(self.scope(), leaves=[])
        exec(self.setups[k % len(self.setups)], scope)
        return scope["inputs"], scope["leaves"]

    # -- the function ------------------------------------------------------------------------------

    def _statement(self, names, made):
        r = self.random
        a, b = r.choice(names), r.choice(names)
        at = r.random()
        kind = next(name for limit, name in self.KINDS if at < limit)
        text = r.choice(getattr(self, kind)).format(a=a, b=b, n=f"v{made}")
        return f"v{made} = {text}" if kind in ("EXPRESSIONS", "VIEWS") else text

    def _body(self):
        r = self.random
        scope = dict(zip(self.names, self.make()[0]), **self.scope())
        names, body, made = list(self.names), [], 0
        for _ in range(r.randrange(2, 9)):
            line = self._statement(names, made)
            try:
                exec(line, scope)
                self.check(line, scope)
            except Exception:  # noqa: BLE001
                continue
            body.append(line)
            if f"v{made}" in scope:
                names.append(f"v{made}")
                made += 1
        count = r.choice([1, 1, 2, 3])
        tail = [r.choice(names[-4:] if r.random() < 0.7 else names) for _ in range(count)]
        self.text = (
            "def f(" + ", ".join(self.names) + "):\n" + "".join(f"    {line}\n" for line in body)
        )
        self.text += (
            "    return " + ", ".join(tail) + ("," if count == 1 and r.random() < 0.3 else "")
        )
        self.after = r.choice(self.AFTER)
        scope = self.scope()
        exec(self.text, scope)
        self.f = scope["f"]

    def halves(self):
        """The function cut in two: the second one gets the inputs and what it needs of the first
        one's; None: it is too short."""
        n = len(self.text.splitlines()) - 2
        return self.cut([random.Random(f"{self.seed} halves").randrange(1, n)]) if n > 1 else None

    def pieces(self):
        """Two to four, and whether each is left plain, not all of them; None: it is too short."""
        n, choose = len(self.text.splitlines()) - 2, random.Random(f"{self.seed} pieces")
        if n < 3:
            return None
        functions = self.cut(sorted(choose.sample(range(1, n), choose.randint(1, min(3, n - 1)))))
        plain = [choose.random() < 0.35 for _ in functions]
        return functions, plain[:-1] + [plain[-1] and not all(plain)]

    def cut(self, places):
        """Functions for the statements up to the first place, from there to the next, and so on:
        each gets the inputs and hands on what later ones need."""
        signature, *body, result = self.text.splitlines()
        scope, functions, have = self.scope(), [], []
        for start, end in zip([0, *places], [*places, len(body)]):
            text, later = "\n".join(body[start:end]), "\n".join(body[end:] + [result])
            made = re.findall(r"\b(v\d+) = ", text)
            handed = [v for v in dict.fromkeys(have + made) if re.search(rf"\b{v}\b", later)]
            end_of_it = f"    return [{', '.join(handed)}]" if end < len(body) else result
            exec(f"def f({', '.join(self.names + have)}):\n{text}\n{end_of_it}", scope)
            functions.append(scope["f"])
            have = handed
        return functions

    def __str__(self):
        setups = "\n--\n".join(self.setups)
        return f"seed {self.seed}, then {self.after}\n{setups}\n{self.text}"


class Diagonals(Program):
    """Among all else the views that are no slices: diagonals, and windows that may overlap."""

    WAYS = WAYS + [
        "{a}.view(3, 4).diagonal()",
        "{a}.view(4, 3).diagonal(-1)",
        "{a}.view(2, 3, 2).diagonal(0, 0, 2)",
        "{a}.unfold(0, 2, 3)",
        "{a}.unfold(0, 4, 2)",
    ]
    VIEWS = VIEWS + [
        "{a}.diagonal()", "{a}.diagonal()", "{a}.diagonal(1)", "{a}.diagonal(-1, -1, 0)",
        "{a}.view(3, 4).diagonal(1)", "{a}.view(2, 3, 2).diagonal(0, 0, 2)",
        "{a}.unfold(0, 2, 2)", "{a}.unfold(-1, 2, 1)", "{a}.unfold(0, 2, 3)",
        "{a}.as_strided((3, 3), (4, 1), 1)", "G.einsum('ii->i', {a})",
    ]  # fmt: skip
    WRITES = WRITES + [
        "{a}.diagonal().mul_(2)", "{a}.diagonal().zero_()", "{a}.diagonal(1).add_({b}.sum())",
        "{a}.diagonal(-1).copy_({b})", "{a}.view(3, 4).diagonal().sin_()",
        "{a}.unfold(0, 2, 2).mul_(-1)", "{a}.unfold(0, 2, 3).copy_({b})", "{a}.fill_diagonal_(0.5)",
        "{a}.diagonal()[1:].copy_({a}.diagonal()[:-1])",
    ]  # fmt: skip


class Recast(Program):
    """Among all else views that autograd does not follow, other dtypes and x.data, fills where
    several elements are one place, parts that reach what they are part of, and bools as
    subscripts."""

    WAYS = WAYS + ["{a}.data", "{a}.view(3, 4).data[1:]", "{a}[:4].data"]
    EXPRESSIONS = EXPRESSIONS + [
        "{a}.view(G.int32).sum()",
        "({a}.view(G.int32) & -65536).view(G.float32)",
        "{a}[True]",
        "{a}[:, None][{a}.sum() > 0]",
        "{a}[[True, False, True]]",
    ]
    VIEWS = VIEWS + [
        "{a}.data", "{a}.data[1:]", "{a}.view(G.int32)", "{a}.view(G.int16)", "{a}.view(G.uint8)",
        "{a}.view(G.float32)", "{a}.data.view(G.int32)", "{a}.view(G.int64)",
        "{a}[1:].as_strided((2, 2), (2, 1))", "{a}[::2].as_strided((2, 2), (1, 2))",
        "{a}[0].as_strided((3,), (2,))", "{a}[1:].as_strided((2,), (1,), 0)",
    ]  # fmt: skip
    WRITES = WRITES + [
        "{a}.data.mul_(2)", "{a}.data[1:].zero_()", "{a}.view(G.int32).zero_()",
        "{a}.view(G.int16)[0] = 3", "{a}.view(G.int32).bitwise_and_(-65536)",
        "{a}[:1].expand(3, -1).fill_(0.5)",
        "{a}[0].expand(2, 4).zero_()", "{a}.fill_(1.5)", "{a}[True] = {b}", "{a}[False] = 4.0",
        "{a}[{a}.sum() > 0] = 1.5", "{a}[::2].as_strided((2, 2), (1, 2)).mul_(2)", "{a}.detach_()",
    ]  # fmt: skip
