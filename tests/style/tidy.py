#!/usr/bin/env python3
"""clang-tidy over what changed, inside a time box, saying which files it read and which it did not.

Changed means: since --base; else since the merge base with origin/main; where that is HEAD itself
(a fresh clone), the newest commit. `./dev lint COMMIT` reads what changed since any other. Units
that include gRPC or Beast are left out: each takes a minute and the faults are the libraries' own.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

LEFT_OUT = re.compile(
    r"^(proto/|server/(grpc|http|ctl)/|tests/server/|build/)|_pb2?\.cc$|\.pb\.cc$")
BUDGET_SECONDS = 140
CLANG_TIDY = ("clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option")  # g++'s own
# The path-sensitive analyzer takes half the time and knows neither test nor bench macros; sizes
# like rows * cols are small constants in tests, and real ones elsewhere.
LIGHTER_FOR_TESTS = "-clang-analyzer-*,-bugprone-implicit-widening-of-multiplication-result"


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def changed_paths(base):
    """Paths changed since `base`, committed or not; None when there is nothing to compare with."""
    head = git("rev-parse", "HEAD")
    base = base or git("merge-base", "HEAD", "origin/main")
    if not base or base == head:
        base = git("rev-parse", "--verify", "--quiet", "HEAD~1")
    if not base:
        return None
    return set(git("diff", "--name-only", base).splitlines()) | set(
        git("ls-files", "-o", "--exclude-standard").splitlines())


def units_to_read(units, changed):
    """Changed units, and the siblings x*.cc of a changed x.h, which are who reads it."""
    if changed is None:
        return set(units)
    stems = [path[:-2] for path in changed if path.endswith(".h")]
    return {u for u in units if u in changed or any(u.startswith(stem) for stem in stems)}


def newest_first():
    """Place of each path in the history, newest commit first."""
    seen = git("log", "--format=", "--name-only").splitlines()
    return {path: place for place, path in reversed(list(enumerate(seen)))}


def in_reading_order(units):
    """Code before tests, then the newest first: what a time box should spend itself on."""
    age = newest_first()
    return sorted(units, key=lambda u: (u.endswith(("_test.cc", "_bench.cc")), age.get(u, -1), u))


def one_command_a_unit(build):
    """A database of its own for clang-tidy, which reads a unit once for each of its commands.

    A CPU op is compiled for several instruction sets; the first, the plain one, is read.
    """
    commands = json.loads(pathlib.Path(build, "compile_commands.json").read_text("utf-8"))
    first = {}
    for command in commands:
        # g++'s precompiled headers are nothing to clang.
        command["command"] = re.sub(r" -Winvalid-pch| -include \S+", "", command["command"])
        first.setdefault(os.path.relpath(command["file"]), command)
    folder = pathlib.Path(build, "tidy")
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(first.values())), "utf-8")
    return folder, {u for u in first if u.endswith(".cc") and not u.startswith("..")}


def read_unit(build, unit, deadline):
    if time.monotonic() > deadline:
        return unit, None, ""
    lighter = [f"--checks={LIGHTER_FOR_TESTS}"] if unit.endswith(("_test.cc", "_bench.cc")) else []
    done = subprocess.run([*CLANG_TIDY, "-p", build, *lighter, unit], check=False,
                          capture_output=True, text=True)
    return unit, done.returncode == 0, done.stdout


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", required=True, help="folder with compile_commands.json")
    arguments.add_argument("--base", default="", help="commit to compare with")
    arguments.add_argument("--jobs", type=int, default=2)
    given = arguments.parse_args()

    build, units = one_command_a_unit(given.build)
    wanted = units_to_read(units, changed_paths(given.base))
    left_out = {u for u in wanted if LEFT_OUT.search(u)}

    deadline = time.monotonic() + BUDGET_SECONDS
    clean, faulty, unread = [], [], []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        order = in_reading_order(wanted - left_out)
        for unit, ok, said in pool.map(lambda u: read_unit(build, u, deadline), order):
            (unread if ok is None else clean if ok else faulty).append(unit)
            if ok is False:
                print(said)
    print(f"clang-tidy: {len(clean)} clean, {len(faulty)} faulty, of {len(wanted)} changed units")
    for title, names in (("faulty", faulty), ("NOT CHECKED, the time box is over", unread),
                         ("NOT CHECKED, units of gRPC, Beast or generated code", left_out)):
        if names:
            print(f"  {title}: {' '.join(sorted(names))}")
    return bool(faulty)


if __name__ == "__main__":
    sys.exit(main())
