"""A server process and clients for it, as the end-to-end tests use them.

The message classes are generated at build time; their folder is on PYTHONPATH.
"""
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import grpc
from k3serve.v1 import control_pb2, inference_pb2

PATIENCE_S = 60
raw = bytes  # a serializer that leaves bytes as they are


class Server:
    """k3serve on free ports, killed at the end unless it ended before."""

    def __init__(self, program, model, *flags):
        # A file, not a pipe: nobody reads while the server runs, and it must not wait for us.
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [program, "--model", str(model), "--http-port", "0", "--grpc-port", "0",
             "--threads", "1", *flags],  # the machine is the test runner's, not ours alone
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening grpc=(\S+) http=(\S+)\n", line)
        if not found:
            self.process.wait(PATIENCE_S)
            raise AssertionError(f"no address in {line!r}: {self.logged()}")
        self.grpc_address, self.http_address = found[1], found[2]
        self.channel = grpc.insecure_channel(self.grpc_address)

    def wait_ready(self):
        for _ in range(PATIENCE_S * 20):
            if self.http("/readyz")[0] == 200:
                return self
            if self.process.poll() is not None:
                raise AssertionError(self.logged())
            time.sleep(0.05)
        raise AssertionError("not ready in time")

    def http(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.http_address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name, **labels):
        total = 0.0
        for line in self.http("/metrics")[1].splitlines():
            if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def stream(self, request):
        """The call object of Generate; `request` may be bytes."""
        serializer = raw if isinstance(request, bytes) else type(request).SerializeToString
        return self.channel.unary_stream(
            "/k3serve.v1.Inference/Generate", request_serializer=serializer,
            response_deserializer=inference_pb2.GenerateEvent.FromString)(
                request, timeout=PATIENCE_S)

    def unary(self, method, request, response_type):
        return self.channel.unary_unary(
            method, request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString)(request, timeout=PATIENCE_S)

    def model_info(self):
        return self.unary("/k3serve.v1.Control/GetModelInfo", control_pb2.GetModelInfoRequest(),
                          control_pb2.ModelInfo)

    def loads(self):
        return self.unary("/k3serve.v1.Control/GetLoads", control_pb2.GetLoadsRequest(),
                          control_pb2.LoadSnapshot)

    def rss_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def health(self, service=b""):
        request = b"\x0a" + bytes([len(service)]) + service if service else b""
        answer = self.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=raw,
                                          response_deserializer=raw)(request, timeout=PATIENCE_S)
        return {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}[answer]

    def stop(self, signal_number=15):
        """The exit code, and what it wrote to stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        return self.wait_end()

    def wait_end(self):
        self.process.communicate(timeout=PATIENCE_S)
        self.channel.close()
        logged = self.logged()
        return self.process.returncode, logged

    def logged(self):
        """What it wrote to stderr so far."""
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.channel.close()
        self.log.close()


def token_ids(events):
    return [i for event in events for i in event.delta.token_ids]


def refusal(call):
    """(status name, reason) of a call that must fail."""
    try:
        events = list(call)
    except grpc.RpcError as error:
        reasons = [v for k, v in error.trailing_metadata() or () if k == "k3-error-reason"]
        return error.code().name, (reasons or [""])[0]
    raise AssertionError(f"no refusal but {len(events)} events")


def linked_copy(model, folder):
    """A model folder of links, so that a test can replace one file and keep 20 MB uncopied."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    for file in pathlib.Path(model).iterdir():
        (folder / file.name).symlink_to(file.resolve())
    return folder


def own_file(folder, name):
    """Turns a link into a file of this folder's own."""
    path = pathlib.Path(folder) / name
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path
