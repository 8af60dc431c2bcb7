"""Plants each fault the walls forbid and sees it named; sees clean code left in peace.

Kills: a wall that stopped looking (a regex that no longer matches, a room left out of the table).
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layers  # noqa: E402  (the script beside this test)

GUARD = "#pragma once\n"


def report(path, text):
    return "\n".join(layers.faults(path, text))


class Walls(unittest.TestCase):
    def test_includes_that_climb_are_named(self):
        for path, include in [
            ("kernels/base/a.h", '"kernels/backend.h"'),
            ("kernels/linear/a.h", '"cache/lease.h"'),
            ("kernels/linear/a.h", '"runtime/engine/engine.h"'),
            ("cache/a.h", '"kernels/backend.h"'),
            ("cache/a.h", '"runtime/engine/engine.h"'),
            ("runtime/model/a.h", '"server/flags.h"'),
            ("runtime/model/a.h", '"proto/k3serve/v1/k3serve.pb.h"'),
            ("server/a.h", '"cache/page_pool.h"'),
            ("server/a.h", '"kernels/backend.h"'),
            ("runtime/a_test.cc", '"server/flags.h"'),
        ]:
            found = report(path, f"{GUARD}#include {include}\n// Kills: x\n")
            self.assertIn(f"may not include {include[1:-1]}", found, (path, include))

    def test_nothing_includes_tests(self):
        for path in ("kernels/a.cuh", "server/a.h", "cache/a_test.cc"):
            self.assertIn("nothing includes tests/", report(path, '#include "tests/simt/simt.h"\n'))

    def test_arrows_that_point_down_are_fine(self):
        for path, include in [
            ("kernels/linear/a.h", '"kernels/base/tensor.h"'),
            ("cache/a.h", '"kernels/base/check.h"'),
            ("runtime/model/a.h", '"kernels/backend.h"'),
            ("runtime/model/a.h", '"kernels/base/check.h"'),
            ("runtime/model/a.h", '"cache/page_pool.h"'),
            ("server/grpc/a.h", '"runtime/engine/engine.h"'),
            ("server/grpc/a.h", '"kernels/base/result.h"'),
            ("server/grpc/a.h", '"proto/k3serve/v1/k3serve.pb.h"'),
            ("server/grpc/a.h", "<grpcpp/grpcpp.h>"),
            ("kernels/linear/a_cuda.cu", "<cuda_runtime.h>"),
            ("tests/end_to_end/a.h", '"server/flags.h"'),
        ]:
            self.assertEqual(report(path, f"{GUARD}#include {include}\n"), "", (path, include))

    def test_libraries_stay_in_their_room(self):
        for path, include in [
            ("runtime/a.h", "grpcpp/grpcpp.h"),
            ("runtime/a.h", "google/protobuf/message.h"),
            ("runtime/a.h", "boost/asio.hpp"),
            ("cache/a.h", "prometheus/registry.h"),
        ]:
            self.assertIn("belongs to server/", report(path, f"{GUARD}#include <{include}>\n"))
        for path in ("runtime/a.h", "kernels/linear/a_cpu.cc", "server/a.h"):
            found = report(path, f"{GUARD}#include <cuda_runtime.h>\n")
            self.assertIn("belongs to the .cu files", found, path)

    def test_sizes(self):
        self.assertIn("401 lines", report("cache/a.cc", "\n" * 401))
        self.assertEqual(report("cache/a.cc", "\n" * 400), "")
        self.assertIn("a.py:1: 101 columns", report("tests/a.py", "#" * 101))
        self.assertIn("dev:1: 101 columns", report("dev", "#" * 101))
        self.assertIn("81 lines", report("cache/README.md", "\n" * 81))

    def test_folders_that_mean_nothing(self):
        for folder in ("util", "common", "core"):
            self.assertIn("no such room", report(f"runtime/{folder}/a.cc", ""))

    def test_unfinished_work(self):
        for word in ("TO" "DO", "FIX" "ME", "GTEST_" "SKIP()", "DISABLED" "_Slow"):
            self.assertIn("unfinished", report("cache/a.cc", f"// {word}: later\n"), word)

    def test_paths_of_one_machine(self):
        for path in ("/wo" "rk/x", "/ro" "ot/x", "/ho" "me/x", "/t" "mp/x"):
            self.assertIn("path of one machine", report("README.md", f"see {path}\n"), path)
        harmless = "see ../shared/x and a/wo" "rk/x and /usr/bin/x\n"
        self.assertEqual(report("README.md", harmless), "")

    def test_headers_and_tests_say_what_they_must(self):
        self.assertIn("#pragma once", report("cache/a.h", "namespace k3::cache {}\n"))
        self.assertIn("Kills", report("cache/a_test.cc", "TEST(A, B) {}\n"))

    def test_namespaces_repeat_rooms(self):
        self.assertIn("the room is k3::cache", report("cache/a.cc", "namespace k3::runtime {\n"))
        self.assertIn("the room is k3::server", report("server/a.cc", "namespace k3 {\n"))
        for path, name in (("kernels/a.cc", "k3::kernels::cpu"), ("server/a.h", "k3serve::v1")):
            self.assertEqual(report(path, f"{GUARD}namespace {name} {{\n"), "")

    def test_ownership(self):
        for code in ("auto p = new int(3);", "delete p;", "std::shared_ptr<int> p;",
                     "auto p = std::make_shared<int>(1);"):
            self.assertIn("only at the edge", report("runtime/a.cc", code + "\n"), code)
            self.assertEqual(report("server/grpc/a.cc", code + "\n"), "", code)
        for code in ("Pool(const Pool&) = delete;", "// a new page", 'Say("delete it");',
                     "int renew = 1;", "return std::unique_ptr<Pool>(new Pool(size));"):
            self.assertEqual(report("runtime/a.cc", code + "\n"), "", code)

    def test_exceptions(self):
        self.assertIn("no exception", report("server/a.cc", "  throw std::runtime_error(x);\n"))
        self.assertEqual(report("server/a.cc", "// never throw\n"), "")

    def test_a_room_without_readme(self):
        self.assertIn("cache/: a room has a README.md",
                      "\n".join(layers.tree_faults(["kernels/README.md"])))


if __name__ == "__main__":
    unittest.main()
