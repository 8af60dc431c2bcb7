"""Compiles an object that shares code and one that does not, and sees only the first named.

Kills: a check that reads nm's columns wrongly and so never finds anything.
"""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import isa_symbols  # noqa: E402  (the script beside this test)


def verdict(source):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.o"
        subprocess.run(["g++", "-std=c++20", "-O0", "-x", "c++", "-c", "-", "-o", path],
                       input=source, text=True, check=True)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            failed = isa_symbols.main([path])
        return failed, said.getvalue()


class IsaSymbols(unittest.TestCase):
    def test_inline_functions_and_templates_are_named(self):
        for source, name in [
            ("inline int Two() { return 2; } int F() { return Two(); }", "Two"),
            ("#include <vector>\nint F() { return std::vector<int>(3).size(); }", "std::vector"),
            ("template <class T> T Id(T x) { return x; } template int Id(int);", "Id"),
        ]:
            failed, said = verdict(source)
            self.assertTrue(failed, source)
            self.assertIn(name, said)

    def test_plain_functions_are_fine(self):
        failed, said = verdict(
            "[[gnu::always_inline]] inline int Twice(int x) { return 2 * x; }\n"
            "static int Thrice(int x) { return 3 * x; }\n"
            "int F(int x) { return Twice(x) + Thrice(x); }\n")
        self.assertFalse(failed, said)


if __name__ == "__main__":
    unittest.main()
