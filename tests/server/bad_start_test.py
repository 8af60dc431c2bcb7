"""Everything that can be wrong before serving begins: the exit code, and words that name the fault.

Arguments: k3serve model_folder.
"""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import grpc
import k3client
from k3serve.v1 import inference_pb2 as k3

K3SERVE, MODEL = sys.argv[1:3]
USAGE, BAD_MODEL, PORT_IN_USE, MAPPING_FAULT = 2, 3, 4, 74


def edit_header(path, change):
    """Rewrites the JSON header of a safetensors file, keeping its length and so all offsets."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= size
    path.write_bytes(content[:8] + text.ljust(size) + content[8 + size:])


class BadStart(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.model = k3client.linked_copy(MODEL, pathlib.Path(temporary.name) / "model")

    def refused(self, code, *words, model=None, flags=("--http-port", "0", "--grpc-port", "0")):
        done = subprocess.run([K3SERVE, "--model", str(model or self.model), *flags],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def shard_with(self, part):
        """(file, tensor name) of the first tensor whose name holds `part`."""
        index = json.loads((self.model / "model.safetensors.index.json").read_text())
        name = min(n for n in index["weight_map"] if part in n)
        return k3client.own_file(self.model, index["weight_map"][name]), name

    # Kills: a loader that stops at the first fault of a config.
    def test_config_with_three_faults(self):
        path = k3client.own_file(self.model, "config.json")
        config = json.loads(path.read_text())
        del config["text_config"]["rms_norm_eps"]
        config["text_config"]["hidden_size"] = -1
        config["text_config"]["num_hidden_layers"] = "nine"
        path.write_text(json.dumps(config))
        self.refused(BAD_MODEL, "rms_norm_eps", "hidden_size", "num_hidden_layers")

    # Kills: a hole in the weights that is found at the first request.
    def test_missing_tensor(self):
        path, name = self.shard_with("o_proj")
        edit_header(path, lambda header: header.pop(name))
        index = k3client.own_file(self.model, "model.safetensors.index.json")
        listed = json.loads(index.read_text())
        del listed["weight_map"][name]
        index.write_text(json.dumps(listed))
        self.refused(BAD_MODEL, name)

    # Kills: a transposed weight that is multiplied as if it were right.
    def test_wrong_shape(self):
        path, name = self.shard_with("embed_tokens")
        edit_header(path, lambda header: header[name]["shape"].reverse())
        self.refused(BAD_MODEL, name, path.name)

    # Kills: a short file that is a crash at the first touch of its end.
    def test_truncated_shard(self):
        path, _ = self.shard_with("o_proj")
        path.write_bytes(path.read_bytes()[:-1000])
        self.refused(BAD_MODEL, path.name)

    def test_missing_tokenizer(self):
        (self.model / "tiktoken.model").unlink()
        self.refused(BAD_MODEL, "tiktoken.model")

    # Kills: tokenizer and weights complained about one start after the other.
    def test_faults_of_both_halves_together(self):
        (self.model / "tiktoken.model").unlink()
        path, _ = self.shard_with("o_proj")
        path.write_bytes(path.read_bytes()[:-1000])
        self.refused(BAD_MODEL, "tiktoken.model", path.name)

    def test_wrong_path(self):
        self.refused(BAD_MODEL, "no-such-folder", model="no-such-folder")

    def test_bad_flags(self):
        self.refused(USAGE, "--device", "--http-port", "--no-such",
                     flags=("--device", "tpu", "--http-port", "99999", "--no-such", "x"))
        self.refused(USAGE, "--max-num-batched-tokens",
                     flags=("--max-num-seqs", "64", "--max-num-batched-tokens", "8",
                            "--http-port", "0", "--grpc-port", "0"))

    # Kills: a port shared unnoticed; the second port complained about one start after the first;
    # a model that is loaded before its port is known to be free.
    def test_port_in_use(self):
        with socket.socket() as http, socket.socket() as rpc:
            ports = []
            for taken in (http, rpc):
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                ports.append(str(taken.getsockname()[1]))
            self.refused(PORT_IN_USE, *ports, "HTTP", "gRPC", model="no-such-folder",
                         flags=("--http-port", ports[0], "--grpc-port", ports[1]))

    # Kills: a bare "Bus error" when somebody cuts a weights file under a running server.
    def test_file_cut_while_serving(self):
        path, _ = self.shard_with("embed_tokens")
        server = k3client.Server(K3SERVE, self.model, "--cache-bytes", "64M").wait_ready()
        self.addCleanup(server.kill)
        with open(path, "r+b") as file:
            file.truncate(4096)
        request = k3.GenerateRequest(text="some words " * 20, stop=k3.StopParams(max_new_tokens=64))
        try:
            list(server.stream(request))
        except grpc.RpcError:
            pass
        code, stderr = server.wait_end()
        self.assertEqual(code, MAPPING_FAULT, stderr)
        self.assertIn(path.name, stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
