#!/usr/bin/env python3
"""Objects built for a wider instruction set must not export symbols that anybody may share.

An inline function or a std template compiled with -mavx512f is a weak symbol; the linker keeps one
copy for the whole program, and a machine without AVX-512 dies in it. So: no weak or unique symbol
is defined in those objects. Usage: isa_symbols.py OBJECT...
"""
import subprocess
import sys

SHARED_KINDS = "WVuwv"
# A pointer to the unwinder's routine, the same in every object; it holds no instructions.
HARMLESS = ("DW.ref.",)


def shared_symbols(listing):
    """Names in `nm` output that the linker may pick for everyone."""
    for line in listing.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3 and fields[1] in SHARED_KINDS and not fields[2].startswith(HARMLESS):
            yield fields[2]


def main(objects):
    if not objects:
        print("NOT RUN: no object is built for a wider instruction set here")
        return False
    found = []
    for path in objects:
        listing = subprocess.run(["nm", "--demangle", "--defined-only", path], check=True,
                                 capture_output=True, text=True).stdout
        found += [f"{path}: shares {name}" for name in shared_symbols(listing)]
    print("\n".join(found) or f"{len(objects)} objects keep their instructions to themselves")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
