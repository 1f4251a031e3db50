#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a two-layer classifier of handwritten digits, plain and compiled, and compares.

The training step's forward, loss and backward run as plain eager code first, then compiled by each
back end that is installed.  The last column says whether the losses of the whole run have the same
bits as plain eager's: they must, on the CPU.

    digits.py [--backends eager,tcc] [--epochs N] [--json FILE]
"""

import argparse
import csv
import gzip
import json
import os
import statistics
import sys
import time

import gramme
import gramme.nn.functional as F
from gramme import nn

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 64
SEED = 20


def load(path):
    """Returns (train_x, train_y, test_x, test_y): pixels f32[n, 64] in 0..1, digits i64[n].

    The order of the file is kept up to a fixed shuffle, so that every run sees the same data."""
    with gzip.open(path, "rt", newline="") as file:
        rows = [[float(field) for field in row] for row in csv.reader(file) if row]
    gramme.manual_seed(SEED)
    order = gramme.randperm(len(rows))
    table = gramme.tensor(rows)[order]
    x, y = table[:, :64] / 16.0, table[:, 64].long()
    cut = len(rows) * 4 // 5
    return x[:cut], y[:cut], x[cut:], y[cut:]


class Classifier(nn.Module):
    """f32[n, 64] pixels to f32[n, 10] scores."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 96)
        self.out = nn.Linear(96, 10)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)


def train(backend, data, epochs, report):
    """One whole run; `backend` None is plain eager.  Returns a row of the table, losses
    included."""
    train_x, train_y, test_x, test_y = data
    gramme.manual_seed(SEED)
    model = Classifier()
    optimizer = gramme.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step_loss = loss_of if backend is None else gramme.compile(loss_of, backend=backend)
    losses, times = [], []
    n_batches = len(train_x) // BATCH
    for epoch in range(epochs):
        order = gramme.randperm(len(train_x))
        for i in range(n_batches):
            rows = order[i * BATCH : (i + 1) * BATCH]
            x, y = train_x[rows], train_y[rows]
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = step_loss(model, x, y)
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - start)
            losses.append(loss.item())
        report(f"  {backend or 'plain':8} epoch {epoch + 1:2}/{epochs}  loss {losses[-1]:.6f}")
    with gramme.no_grad():
        correct = (model(test_x).argmax(1) == test_y).sum().item()
    row = {
        "backend": backend or "plain eager",
        "accuracy": correct / len(test_y),
        "step_us": statistics.median(times) * 1e6,
        "first_step_ms": times[0] * 1e3,
        "compile_ms": None,
        "backend_compile_ms": None,
        "losses": losses,
    }
    if backend is not None:
        status = step_loss.status()
        if status["graphs"] != 1 or status["breaks"]:
            sys.exit(f"digits.py: {backend}: expected one graph without breaks, got {status}")
        row["compile_ms"] = status["compile_ms"]
        row["backend_compile_ms"] = status["stages"]["l"]
    return row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--backends", help="comma-separated names (default: eager, tcc as far as installed)"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the table")
    args = parser.parse_args()

    installed = gramme.compiler.list_backends()
    names = (
        args.backends.split(",")
        if args.backends
        else [n for n in ("eager", "tcc") if n in installed]
    )
    data = load(os.path.join(HERE, "data", "digits.csv.gz"))
    report = (lambda line: None) if args.quiet else (lambda line: print(line, flush=True))
    report(
        f"{len(data[0])} images to train on, {len(data[2])} to test, batches of {BATCH}, "
        f"{args.epochs} epochs"
    )
    rows = [train(name, data, args.epochs, report) for name in [None, *names]]

    plain = rows[0]["losses"]
    print(
        f"\n{'':12} {'accuracy':>9} {'step':>10} {'compile':>10} {'back end':>10}   losses equal "
        "plain eager's"
    )
    for row in rows:
        # Bits, not values: hex() tells 0.0 from -0.0, and a NaN never slips through.
        row["bit_identical"] = [v.hex() for v in row.pop("losses")] == [v.hex() for v in plain]
        ms = lambda key: "-" if row[key] is None else f"{row[key]:.2f} ms"
        print(
            f"{row['backend']:12} {row['accuracy']:9.2%} {row['step_us']:7.1f} us "
            f"{ms('compile_ms'):>10}"
            f" {ms('backend_compile_ms'):>10}   {'bit for bit' if row['bit_identical'] else 'NO'}"
        )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"epochs": args.epochs, "batch": BATCH, "rows": rows}, file, indent=1)
            file.write("\n")
    good = all(row["bit_identical"] and row["accuracy"] >= 0.95 for row in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
