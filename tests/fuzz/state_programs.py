# SPDX-License-Identifier: Apache-2.0
"""The stateful fuzzer: random programs run plain and compiled, changed in one place, and run again.

  state_programs.py [--first N] [--count N] [--jobs N] [--stress LIST] [--backend NAME] [--sizes]
      runs seeds, prints each difference; --sizes: those whose sizes change
  state_programs.py --seed N [--shrink] [--show]                                          runs one;
      --shrink cuts it while the difference stays

Each seed is a program (state_grammar.py).  Its module is executed twice; in the second world `root`
is compiled.  Both worlds call root twice, with the same or with fresh equal arguments; then three
times the same mutation of one reachable thing is made in both (state_world.py) and root is called
again.  For each fourth seed, what changes between calls is
sizes: all tensors that were 3 long become 4, 1, 0 ... long, where they are or in fresh arguments,
and ints that are arguments change with them.  After each call everything is compared: the result or
the exception with its traceback's lines in the program and its chain, all state that can be
reached, identities, storages, gradients, and what was printed. Workers are processes of their own
with a time limit per program, so that a crash or a hang is a finding with a seed.
"""

import argparse
import builtins
import contextlib
import faulthandler
import functools
import gc
import io
import marshal
import os
import random
import re
import resource
import signal
import subprocess
import sys
import traceback
import types
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIMIT_S, PLAIN_LIMIT_S = (
    120,
    3,
)  # by the clock, which may be shared with others; of this process's time
MEMORY_BYTES = 2 << 30
CALLS = 5
# calls; a program that comes near to it may catch the RecursionError, and has done what the depth
# of the stack allowed
DEEPEST = 400
SIZES = (3, 4, 5, 1, 0, 1, 0, 7, 33, 600, 3)  # one after the other, for programs whose sizes change
TWICE = "a backward went a second time"


def backend_of(seed):
    return "tcc" if seed % 16 in (5, 7) else "eager"


def has_sizes(seed):
    return seed % 4 == 1


@functools.lru_cache(maxsize=1)
def code_bytes(text, file):
    return marshal.dumps(builtins.compile(text, file, "exec"))


def code_of(text, seed):
    """A new code object of the program: each world has its own, which no run has touched.
    Compiling the text is a fifth of the time that a program takes."""
    return marshal.loads(code_bytes(text, file_of(seed)))


def file_of(seed):
    return f"program{seed}.py"


def run(text, seed, compiled, backend, skip=()):
    """One world: a list of (what was done, what was seen).  None in place of a step that no
    mutation reached."""
    import gramme as G
    from state_world import Sizes, World, places

    module = types.ModuleType("program")
    space = module.__dict__
    world = World(file_of(seed), DEEPEST)
    sys.modules["program"] = module
    G.manual_seed(7)
    dice = random.Random(seed)
    fresh = dice.random() < 0.4
    words = set(re.findall(r"\w+", text[text.index("def h0") : text.index("\ndef make(")]))
    named = re.search(r"def root\((.*)\)", text)[1].split(", ")

    def used(place):
        """Mutations of what the functions name come more often."""
        name = re.search(r"(?:global )?(\w+)", place)[1]
        name = (
            named[int(name[3:])].split("=")[0]
            if re.fullmatch(r"arg\d+", name) and int(name[3:]) < len(named)
            else name
        )
        return (
            name in words
            and (name[0] != "p" or len(re.findall(rf"\b{name}\b", text)) > 1)
            or everywhere
        )

    everywhere = dice.random() < 0.2
    seen = []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code_of(text, seed), space)
        root = G.compile(space["root"], backend=backend) if compiled else space["root"]
        arguments = space["make"]()
        results = []
        sizes = Sizes(SIZES[0]) if has_sizes(seed) else None
        last = (len(SIZES) if sizes else CALLS) - 1
        follow = [type(a) is int and dice.random() < 0.5 for a in arguments]
        for call in range(last + 1):
            what = "call"
            if sizes:
                what = f"call with {SIZES[call]}"
                if call and fresh:
                    with contextlib.suppress(Exception):
                        arguments, sizes.n = space["make"](), 3
                if call not in skip:
                    sizes.change(
                        [
                            arguments,
                            *(
                                v
                                for k, v in space.items()
                                if k[:2] == "g_" or k in ("net", "deq", "odict", "df", "pt", "sm")
                            ),
                        ],
                        SIZES[call],
                    )
                    arguments = [
                        SIZES[call] if follows and type(a) is int else a
                        for a, follows in zip(arguments, follow)
                    ]
            elif call >= 2:
                offered = places(space, arguments)
                offered = [place for place in offered if used(place[0])] or offered
                what, change = offered[dice.randrange(len(offered))]
                state = dice.getrandbits(32)
                if call not in skip:
                    try:
                        change(random.Random(state))
                    except Exception as error:
                        what += f" failed: {world.text(repr(error))}"
            elif call and fresh:
                with contextlib.suppress(Exception):  # the state may be too odd by now for new ones
                    arguments = space["make"]()
            space["out"] = []
            try:
                with contextlib.nullcontext() if compiled else world.depth():
                    result = root(*arguments)
            except Exception as error:
                result = error
            if isinstance(result, BaseException):
                G.set_grad_enabled(True)
            results = [result]
            if call == last:
                results.append(backward(result, G))
            forget_frames([result, space["out"]])
            shown = {
                k: v
                for k, v in space.items()
                if k[:2] != "__"
                and not isinstance(v, types.ModuleType)
                and k not in ("make", "root")
            }
            state = world.snapshot(
                [results, arguments, list(shown), *shown.values(), G.is_grad_enabled()]
            )
            if world.twice:
                seen.append((what, TWICE, ""))
                break
            seen.append((what, state, world.text(printed.getvalue())))
    return seen, world


def forget_frames(things):
    """Clears the frames of the exceptions among things.  A traceback keeps the variables of its
    frames alive; that of a compiled function is the frame of one piece of it, which has some of
    them only.  Since 3.12 that of a generator also keeps those of whoever called it last, and with
    them the generator."""
    queue, seen = list(things), set()
    for thing in queue:
        if id(thing) in seen or len(queue) > 2000:
            continue
        seen.add(id(thing))
        if type(thing) in (list, tuple):
            queue.extend(thing)
        while isinstance(thing, BaseException) and thing.__traceback__:
            for frame, _ in traceback.walk_tb(thing.__traceback__):
                while frame is not None and frame.f_code.co_filename.startswith("program"):
                    with contextlib.suppress(RuntimeError):  # one that runs, or may go on
                        frame.clear()
                    frame = frame.f_back
            thing = thing.__context__


def backward(result, G):
    """Differentiates the first tensor of the result that has a history."""
    queue = [result]
    for thing in queue:
        if isinstance(thing, (list, tuple)) and len(queue) < 60:
            queue.extend(thing)
        if isinstance(thing, G.Tensor) and thing.grad_fn is not None:
            try:
                thing.sum().backward()
            except Exception as error:
                return error
            return "backward"
    return None


def first_difference(a, b, path=""):
    """Where two descriptions part, in words."""
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return (
                    first_difference(x, y, f"{path}[{i}]")
                    if len(a) == len(b)
                    else first_difference(str(a[i:]), str(b[i:]), f"{path}[{i}:]")
                )
        shared = min(len(a), len(b))
        a, b = a[shared:], b[shared:]
    return f"{path or 'all'}: plain {str(a)[:900]}\n    compiled {str(b)[:900]}"


class Endless(BaseException):
    """The plain program does not end."""


def endless(*_):
    raise Endless


def compare(text, seed, backend, skip=(), plain_ended=lambda: None):
    """None, or the difference in words; "discarded" for programs that say nothing."""
    code_of(text, seed)
    sys.setrecursionlimit(DEEPEST)
    before = signal.signal(signal.SIGPROF, endless)
    signal.setitimer(signal.ITIMER_PROF, PLAIN_LIMIT_S)
    try:
        plain, world = run(text, seed, False, backend, skip)
    except (Endless, MemoryError):
        return "discarded"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if world.recursed:
        return "discarded"
    plain_ended()
    try:
        found, _ = run(text, seed, True, backend, skip)
    except Exception as error:
        return "the compiled run failed: " + "".join(traceback.format_exception(error)[-6:])
    difference = between(plain, found)
    if difference and ".backward()" in text:
        # The results of a region have one history, which a backward from one of them frees: plain
        # code may go on with another.  All else must be as it is.
        kept = compare(
            text.replace(".backward()", ".backward(retain_graph=True)"), seed, backend, skip
        )
        return kept or "discarded"
    return "discarded" if difference and shows_addresses(text, seed, backend, skip) else difference


def between(plain, found):
    """What one run has seen and the other has not: None, or the first of it in words."""
    for i, (a, b) in enumerate(zip(plain, found)):
        if b[1] == TWICE != a[1]:
            return "discarded"  # see compare()
        for j, part in ((0, "mutation"), (2, "prints"), (1, "state")):
            if a[j] != b[j]:
                done = ", ".join(what for what, *_ in plain[: i + 1])
                return f"call {i} ({done}): {part} {first_difference(a[j], b[j])}"
    return None


def shows_addresses(text, seed, backend, skip):
    """Whether plain Python differs from itself: World.text() knows an address as repr() writes it,
    but not the number of its a's. These runs come after the compiled one, so what that may have
    spoilt they have in common; each keeps the last one's objects where they are.
    """
    runs = [run(text, seed, False, backend, skip) for _ in range(20)]
    return any(between(runs[0][0], again) for again, _ in runs[1:])


# -- Workers --


def program_of(seed):
    from state_grammar import Writer

    return Writer(seed).program()


def limit_memory():
    """A list that grows without end in C, where no signal is handled, ends in a MemoryError.  The
    address sanitizer needs more than any limit.
    The limit is on data, not on addresses: where those are used up the stack cannot grow, and
    CPython dies as it lets go of what filled them.
    """
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def take_buffers():
    """OpenBLAS takes a buffer at its first product and keeps it; where there is no memory for one
    it asks for ever."""
    import gramme as G

    G.ones(2, 2) @ G.ones(2, 2)


def worker(first, count, backend, sizes):
    take_buffers()
    limit_memory()
    warnings.simplefilter("ignore")
    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, chain=True)
    said = sys.stdout

    def say(*words):
        print(*words, file=said, flush=True)

    for seed in range(first, first + count):
        if sizes and not has_sizes(seed):
            continue
        say("start", seed)
        # a plain program that did not end may have been interrupted as its prints were given back
        sys.stdout = said
        signal.alarm(LIMIT_S)
        try:
            difference = compare(
                program_of(seed), seed, backend or backend_of(seed), (), lambda: say("plain", seed)
            )
        except SyntaxError as error:
            difference = f"the grammar wrote a bad program: {error}"
        except RecursionError:
            difference = "discarded"  # lists in lists, deeper than can be described
        signal.alarm(0)
        if difference == "discarded":
            say("discarded", seed)
            del sys.modules["program"]
            gc.collect()  # what filled all memory must not make the next program fail
        elif difference:
            say("differ", seed, repr(difference))
    say("done")


def command(stress, *arguments):
    environment = dict(os.environ, PYTHONHASHSEED="0", GRAMME_LOGS="")
    if stress:
        environment["GM_STRESS"] = stress
    return [sys.executable, "-B", os.path.abspath(__file__), *map(str, arguments)], environment


def attempt(text, seed, backend, skip):
    """The difference that a program shows, run in a child of this process, which may die of it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        limit_memory()
        signal.alarm(LIMIT_S)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            found = compare(text, seed, backend, skip)
        except BaseException:  # too much was cut: the plain program cannot be called
            found = "discarded"
        os.write(writer, (found or "").encode()[:60000])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        found = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return f"died with {os.waitstatus_to_exitcode(status)}" if status else found or None


def campaign(first, count, jobs, stress, backend, sizes=False, batch=100):
    """Runs the seeds in batches; prints findings; returns the number of programs that were compared
    and of findings."""
    waiting = [(s, min(batch, first + count - s)) for s in range(first, first + count, batch)]
    running, findings, compared, discarded = [], [], 0, 0

    def begin():
        start, n = waiting.pop(0)
        arguments, environment = command(
            stress, "--worker", start, n, "--backend", backend or "", *["--sizes"] * sizes
        )
        errors = io.open(os.memfd_create("errors"), "w+")
        running.append(
            (
                subprocess.Popen(
                    arguments, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
                ),
                start,
                n,
                errors,
            )
        )

    while waiting or running:
        while waiting and len(running) < jobs:
            begin()
        process, start, n, errors = running.pop(0)
        last, over, plain = None, False, None
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "start":
                last = int(rest)
                compared += 1
            elif word == "plain":
                plain = int(rest)
            elif word == "discarded":
                discarded += 1
            elif word == "differ":
                seed, _, text = rest.partition(" ")
                findings.append(int(seed))
                report(int(seed), eval(text), stress, backend)
            elif word == "done":
                over = True
        code = process.wait()
        if not over:
            errors.seek(0)
            said = errors.read()[-3500:]
            lost = last if last is not None else start
            if code == -signal.SIGALRM and last is not None and plain != last:
                discarded += (
                    1  # plain Python, in one call of C that fills all memory, took all the time
                )
            else:
                findings.append(lost)
                report(lost, f"the process died with {code}\n{said}", stress, backend)
            if lost + 1 < start + n:
                waiting.insert(0, (lost + 1, start + n - lost - 1))
        errors.close()
    return compared, discarded, findings


def report(seed, difference, stress, backend):
    print(f"---- seed {seed}: {difference}")
    extra = (f" --stress {stress}" if stress else "") + (f" --backend {backend}" if backend else "")
    print(
        (
            f"again: ./in-tree {sys.executable} {os.path.relpath(__file__)} --seed {seed}{extra} "
            "--show   (with --shrink for a small program)"
        ),
        flush=True,
    )


# -- Shrinking --


def end_of(lines, i):
    """Behind the line i and those that are indented below it."""
    indent = len(lines[i]) - len(lines[i].lstrip())
    j = i + 1
    while j < len(lines) and (
        not lines[j].strip() or len(lines[j]) - len(lines[j].lstrip()) > indent
    ):
        j += 1
    return j


def kind_of(difference):
    """What must stay while a program is cut: a crash remains a crash, state a difference of
    state."""
    if difference is None:
        return None
    if difference.startswith("died"):
        return "died"
    return re.sub(r"call \d+ \(.*?\): (\w+).*", r"\1", difference.split("\n")[0])[:24]


def shrink(text, seed, backend):
    """(text, skipped mutations, difference): lines and blocks go, last ones first, for as long as
    any can."""
    warnings.simplefilter("ignore")
    import gramme  # once, for all children

    wanted = kind_of(attempt(text, seed, backend, ()))
    if wanted in (None, "discarded"):
        return text, (), "no difference"

    def holds(candidate):
        try:
            builtins.compile(candidate, "program", "exec")
        except (SyntaxError, ValueError):
            return False
        return kind_of(attempt(candidate, seed, backend, skip)) == wanted

    skip = ()
    for call in range(2, len(SIZES) if has_sizes(seed) else CALLS):
        skip += (call,)
        if not holds(text):
            skip = skip[:-1]
    lines, changed = text.split("\n"), True
    while changed:
        changed = False
        i = len(lines)
        while i > 0:
            i -= 1
            if i >= len(lines):
                continue
            pad, j = lines[i][: len(lines[i]) - len(lines[i].lstrip())], end_of(lines, i)
            candidates = [lines[:i] + lines[j:]]
            if lines[i].strip() != "pass":
                candidates.append(lines[:i] + [pad + "pass"] + lines[j:])
            if j > i + 1:
                candidates.append(lines[:i] + [line[4:] for line in lines[i + 1 : j]] + lines[j:])
            for candidate in candidates:
                if holds("\n".join(candidate)):
                    lines, changed = candidate, True
                    break
    text = "\n".join(lines)
    return text, skip, attempt(text, seed, backend, skip)


def main():
    parser = argparse.ArgumentParser()
    for name in ("first", "count", "jobs", "seed"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--worker", type=int, nargs=2)
    for name in ("stress", "backend"):
        parser.add_argument("--" + name, default="")
    for name in ("shrink", "show", "sizes"):
        parser.add_argument("--" + name, action="store_true")
    o = parser.parse_args()
    if o.worker:
        return worker(*o.worker, o.backend, o.sizes)
    if o.seed is not None:
        text, backend = program_of(o.seed), o.backend or backend_of(o.seed)
        if o.shrink:
            if (
                o.stress != os.environ.get("GM_STRESS", "")
                or os.environ.get("PYTHONHASHSEED") != "0"
            ):
                arguments, environment = command(o.stress, *sys.argv[1:])
                os.execve(arguments[0], arguments, dict(environment, GM_STRESS=o.stress))
            text, skip, found = shrink(text, o.seed, backend)
            print(
                text,
                f"# without the mutations before calls {skip}" if skip else "",
                found,
                sep="\n",
            )
            return 1
        if o.show:
            print(text)
        _, _, findings = campaign(o.seed, 1, 1, o.stress, o.backend)
        return 1 if findings else 0
    first, count = o.first or 0, o.count or 1000
    compared, discarded, findings = campaign(
        first, count, o.jobs or 1, o.stress, o.backend, o.sizes
    )
    print(
        f"{compared} programs, seeds {first} to "
        f"{first + count - 1}{', GM_STRESS=' + o.stress if o.stress else ''}: {len(findings)} "
        f"differences, {discarded} discarded{': seeds ' + str(findings[:40]) if findings else ''}"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
