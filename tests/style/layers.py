#!/usr/bin/env python3
"""The walls of the house: rooms and arrows, sizes, and words that must not appear.

Prints one line a fault and fails on any. `layers_test.py` plants each fault and sees it named.
"""
import pathlib
import re
import subprocess
import sys

MAY_INCLUDE = {  # room -> what it may include, itself aside
    "kernels/base": (),
    "kernels": ("kernels/base",),
    "cache": ("kernels/base",),
    "runtime": ("kernels", "cache"),
    "server": ("runtime", "kernels/base", "proto"),
    "tests": ("kernels", "cache", "runtime", "server", "proto"),
}
ROOMS_WITH_README = ("kernels", "cache", "runtime", "server", "proto", "tests", "deploy")
EDGE_HEADERS = re.compile(r"(grpc|grpcpp|google/protobuf|boost|prometheus)/")
CUDA_HEADERS = re.compile(r"(cuda|cub/|cublas|cooperative_groups|thrust/|nccl|mma\.h|nvtx)")
NO_SUCH_FOLDER = ("util", "utils", "common", "core", "helpers", "misc")
MAX_LINES, MAX_COLUMNS, MAX_README_LINES = 400, 100, 80

CPP = (".h", ".cc", ".cu", ".cuh")
CODE = CPP + (".py", ".sh", ".cmake", ".proto")
CODE_NAMES = ("CMakeLists.txt", "dev", "run")
TEXT = CODE + (".md", ".json", ".yaml", ".yml", ".supp", ".txt")
TEST_DATA = ("tests/golden/", "runtime/weights/make/tokenizer/")

# Written in two halves, so that this file does not forbid itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX(?!X)|GTEST_" r"SKIP|DISABLED" r"_\w*)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|farm|root|home|tmp)" r"/\w")
OWNERSHIP = re.compile(r"\b(shared_ptr|make_shared|weak_ptr)\b|\bnew\s+[\w:(]|(?<!=)\s*\bdelete\b")
DELETED_FUNCTION = re.compile(r"=\s*delete\b|\boperator\s+(new|delete)\b")
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)


def room_of(path):
    rooms = sorted(MAY_INCLUDE, key=len, reverse=True)
    return next((r for r in rooms if path.startswith(r + "/")), None)


def only_code(text):
    """The text without comments and literals, line numbers kept."""
    return NOT_CODE.sub(lambda m: "\n" * m[0].count("\n") or " ", text)


def is_code(path):
    return path.endswith(CODE) or pathlib.PurePath(path).name in CODE_NAMES


def size_faults(path, lines):
    if len(lines) > MAX_LINES:
        yield f"{path}: {len(lines)} lines; {MAX_LINES} is the room's height"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns; {MAX_COLUMNS} is the width"


def include_faults(path, lines):
    home = room_of(path)
    for number, line in enumerate(lines, 1):
        include = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if not include or home is None:
            continue
        name, where = include[1], f"{path}:{number}"
        target = room_of(name) or ("proto" if name.startswith("proto/") else None)
        allowed = MAY_INCLUDE[home] + (home,)
        if target == "tests" and home != "tests":
            yield f"{where}: nothing includes tests/ ({name})"
        elif target and not any(target == a or target.startswith(a + "/") for a in allowed):
            yield f"{where}: {home} may not include {name}"
        if home == "kernels/base" and '"' in line and not name.startswith("kernels/base/"):
            yield f"{where}: kernels/base knows the standard library only, not {name}"
        if EDGE_HEADERS.match(name) and home not in ("server", "tests"):
            yield f"{where}: {name} belongs to server/"
        if CUDA_HEADERS.match(name) and not (home == "kernels" and path.endswith((".cu", ".cuh"))):
            yield f"{where}: {name} belongs to the .cu files of kernels/"


def namespace_faults(path, lines):
    home = room_of(path)
    if home in (None, "tests"):
        return
    want = "k3" if home == "kernels/base" else f"k3::{home}"
    for number, line in enumerate(lines, 1):
        space = re.match(r"namespace (k3(?:::\w+)*) \{", line)
        if space and not (space[1] == want or space[1].startswith(want + "::")):
            yield f"{path}:{number}: namespace {space[1]}; the room is {want}"


def cpp_faults(path, text):
    lines = text.splitlines()
    yield from include_faults(path, lines)
    yield from namespace_faults(path, lines)
    if path.endswith((".h", ".cuh")) and "#pragma once" not in lines:
        yield f"{path}: a header begins with #pragma once"
    if path.endswith(("_test.cc", "_test.cu")) and "Kills:" not in text:
        yield f"{path}: no test says which wrong program it kills (// Kills: ...)"
    if room_of(path) == "tests":
        return
    previous = ""
    for number, line in enumerate(only_code(text).splitlines(), 1):
        if re.search(r"\bthrow\b", line):
            yield f"{path}:{number}: no exception of ours; answer with Result or optional"
        owned = OWNERSHIP.search(DELETED_FUNCTION.sub("", line))
        # make_unique cannot reach a private constructor; its factory says both words at once.
        at_once = owned and "new" in owned[0] and "unique_ptr" in previous + line
        free = room_of(path) == "server" or path.endswith("_test.cc") or at_once
        if owned and not free and not line.lstrip().startswith("#"):
            yield f"{path}:{number}: '{owned[0].strip()}' lives only at the edge, in server/"
        previous = line


def faults(path, text):
    """Every fault of one file, as sentences."""
    lines = text.splitlines()
    if any(part in NO_SUCH_FOLDER for part in path.split("/")[:-1]):
        yield f"{path}: no such room; a helper lives with its user"
    if path.startswith(TEST_DATA):
        return
    if is_code(path):
        yield from size_faults(path, lines)
    if path.endswith("README.md") and path.count("/") == 1 and len(lines) > MAX_README_LINES:
        yield f"{path}: {len(lines)} lines; a room's README has {MAX_README_LINES}"
    if path.endswith(CPP):
        yield from cpp_faults(path, text)
    if is_code(path) or path.endswith(TEXT):
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line) and not path.endswith(".md"):
                yield f"{path}:{number}: unfinished: {UNFINISHED.search(line)[0]}"
            if MACHINE_PATH.search(line):
                yield f"{path}:{number}: a path of one machine: {MACHINE_PATH.search(line)[0]}"


def tree_faults(paths):
    """What no single file shows: a room without its README."""
    for room in ROOMS_WITH_README:
        if f"{room}/README.md" not in paths:
            yield f"{room}/: a room has a README.md: purpose, laws, reading order, decisions"


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                            check=True, capture_output=True, text=True).stdout
    paths = sorted({p for p in listed.split("\0") if p and pathlib.Path(p).is_file()})
    found = list(tree_faults(paths))
    for path in paths:
        if is_code(path) or path.endswith(TEXT):
            found += faults(path, pathlib.Path(path).read_text(encoding="utf-8"))
    print("\n".join(found) or f"the house stands: {len(paths)} files")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
