#!/usr/bin/env python3
"""Plants the bugs of a kills.json, one at a time, and expects the named tests to find each.

Arguments: build folder, kills.json, static library to plant in, test programs. A bug is a text in a
file beside the json and what stands there instead. Only the planted unit is compiled; it is linked
before the library, which then is not asked for it.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PATIENCE_S = 120


def commands_of(build):
    entries = json.loads((build / "compile_commands.json").read_text("utf-8"))
    return {os.path.realpath(entry["file"]): entry["command"] for entry in entries}


def link_command(build, program):
    """What ninja links the program with, from its own mouth."""
    said = subprocess.run(["ninja", "-C", build, "-t", "commands", program], check=True,
                          capture_output=True, text=True).stdout.splitlines()
    return re.sub(r"^: && | && :$", "", said[-1])


def plant(kill, source, folder):
    text = source.read_text("utf-8")
    if text.count(kill["find"]) != 1:
        raise SystemExit(f"{source}: {kill['find']!r} is there {text.count(kill['find'])} times")
    planted = folder / source.name
    planted.write_text(text.replace(kill["find"], kill["replace"]), "utf-8")
    return planted


def verdict(kill, here, build, library, programs, commands):
    """The program that found the bug; empty when none did."""
    source = (here / kill["file"]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        planted = plant(kill, source, folder)
        command = commands[str(source)].replace(str(source), str(planted))
        command = re.sub(r" -o \S+", f" -o {folder / 'planted.o'} -Wno-error", command)
        subprocess.run(shlex.split(command), cwd=build, check=True)
        for program in programs:
            output = folder / "program"
            link = link_command(build, program)
            link = link.replace(library, f"{folder / 'planted.o'} {library}")
            link = re.sub(r" -o \S+", f" -o {output}", link)
            subprocess.run(link, shell=True, cwd=build, check=True)
            try:
                done = subprocess.run([output], capture_output=True, timeout=PATIENCE_S,
                                      check=False)
            except subprocess.TimeoutExpired:
                return f"{program} (never ends)"
            if done.returncode != 0:
                return program
    return ""


def main():
    build, kills_path = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    library, programs = sys.argv[3], sys.argv[4:]
    kills = json.loads(kills_path.read_text("utf-8"))
    commands = commands_of(build)
    alive = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(verdict, kill, kills_path.parent, build, library, programs, commands)
                for kill in kills]
        for kill, job in zip(kills, jobs):
            found_by = job.result()
            alive += not found_by
            print(f"{'LIVES' if not found_by else 'dies '}  {kill['bug']}"
                  + (f"  ({os.path.basename(found_by)})" if found_by else ""), flush=True)
    print(f"{len(kills) - alive} of {len(kills)} planted bugs die")
    return alive > 0


if __name__ == "__main__":
    sys.exit(main())
