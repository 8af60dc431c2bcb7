"""The program itself on a small model: what clients and scripts rely on.

Arguments: k3serve k3ctl model_folder.
"""
import pathlib
import subprocess
import sys
import threading
import time
import unittest

import grpc
import k3client
import reflection_pb2
from google.protobuf import descriptor_pb2
from k3serve.v1 import inference_pb2 as k3

K3SERVE, K3CTL, MODEL = sys.argv[1:4]
NUM_TOKENS = 24
HERE = pathlib.Path(__file__).resolve().parent


def prompt(number, seed=None, temperature=0.0):
    request = k3.GenerateRequest(text=f"prompt {number}: " + "word " * (3 + 7 * number))
    request.sampling.temperature = temperature
    if seed is not None:
        request.sampling.seed = seed
    request.stop.max_new_tokens = NUM_TOKENS
    request.stop.ignore_eos = True
    request.output.want_token_ids = True
    return request


class EndToEnd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = k3client.Server(K3SERVE, MODEL, "--max-model-len", "1024",
                                     "--cache-bytes", "256M").wait_ready()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    # Kills: an example in the README that does not run, or is not the tested one.
    def test_readme_client(self):
        client = HERE / "readme_client.py"
        self.assertLessEqual(len(client.read_text().splitlines()), 15)
        before = self.server.metric("k3serve_generation_tokens_total")
        done = subprocess.run(["/usr/bin/python3", str(client), self.server.grpc_address],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("prompt_tokens", done.stdout)
        self.assertGreater(self.server.metric("k3serve_generation_tokens_total"), before)
        readme = (HERE.parent.parent / "README.md").read_text()
        self.assertIn(client.read_text(), readme)

    # Kills: an answer that comes whole at the end, numbers that do not add up, events out of order.
    def test_stream(self):
        request = prompt(1)
        request.output.include_prompt_token_ids = True
        events = list(self.server.stream(request))
        kinds = [event.WhichOneof("event") for event in events]
        self.assertEqual(kinds[0], "started")
        self.assertEqual(kinds[-2:], ["finished", "completed"])
        self.assertGreater(len(kinds), 6, "so few events are no stream")
        self.assertEqual([event.seq for event in events], list(range(len(events))))
        started, usage = events[0].started, events[-1].completed.usage
        self.assertEqual(started.prompt_tokens, len(started.prompt_token_ids))
        self.assertEqual(usage.prompt_tokens, started.prompt_tokens)
        self.assertEqual(usage.completion_tokens, NUM_TOKENS)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + NUM_TOKENS)
        self.assertEqual(sum(event.delta.num_tokens for event in events), NUM_TOKENS)
        self.assertEqual(events[-2].finished.reason, k3.FINISH_REASON_LENGTH_MAX_TOKENS)
        self.assertGreater(events[-1].completed.timings.ttft_ms, 0)

    # Kills: text that is not what Detokenize says of the ids, ids in that differ from text in.
    def test_text_and_ids_agree(self):
        request = prompt(2)
        tokenized = self.server.unary("/k3serve.v1.Inference/Tokenize",
                                      k3.TokenizeRequest(text=request.text), k3.TokenizeResponse)
        events = list(self.server.stream(request))
        ids = k3client.token_ids(events)
        by_ids = prompt(2)
        by_ids.token_ids.ids.extend(tokenized.token_ids)
        self.assertEqual(k3client.token_ids(self.server.stream(by_ids)), ids)
        text = self.server.unary("/k3serve.v1.Inference/Detokenize",
                                 k3.DetokenizeRequest(token_ids=ids), k3.DetokenizeResponse).text
        streamed = "".join(e.delta.text + e.finished.text for e in events)
        info = self.server.model_info()
        if all(i < info.vocab_size - 256 for i in ids):  # control tokens hide in streams
            self.assertEqual(streamed, text)

    # Kills: tokens that depend on who else is in the batch; a seed that is shared, or ignored.
    def test_eight_at_once_as_alone(self):
        requests = [prompt(i) for i in range(4)]
        requests += [prompt(i, seed=1000 + i, temperature=0.8) for i in range(4)]
        alone = [k3client.token_ids(self.server.stream(request)) for request in requests]
        self.assertEqual({len(ids) for ids in alone}, {NUM_TOKENS})
        self.assertNotEqual(alone[3], alone[7])
        finished = self.server.metric("k3serve_requests_finished_total", reason="length")
        for _ in range(2):
            together = [None] * len(requests)

            def run(i):
                together[i] = k3client.token_ids(self.server.stream(requests[i]))

            threads = [threading.Thread(target=run, args=(i,)) for i in range(len(requests))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(together, alone)
        self.assertEqual(self.server.metric("k3serve_requests_finished_total", reason="length"),
                         finished + 16)

    # Kills: a server without reflection, or with the wrong descriptors behind it.
    def test_reflection(self):
        call = self.server.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
        listing, file = list(call(iter([
            reflection_pb2.ServerReflectionRequest(list_services="*"),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="k3serve.v1.Inference"),
        ])))
        names = {service.name for service in listing.list_services_response.service}
        self.assertLessEqual({"k3serve.v1.Inference", "k3serve.v1.Control"}, names)
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(
            file.file_descriptor_response.file_descriptor_proto[0])
        self.assertEqual(descriptor.package, "k3serve.v1")
        self.assertIn("Generate", [m.name for s in descriptor.service for m in s.method])

    # Kills: health that knows one name only; a model info without its numbers.
    def test_health_and_info(self):
        for service in (b"", b"k3serve.v1.Inference", b"k3serve.v1.Control"):
            self.assertEqual(self.server.health(service), "SERVING")
        info = self.server.model_info()
        self.assertEqual(info.max_model_len, 1024)
        self.assertEqual(len(info.weights_fingerprint), 32)
        self.assertGreater(info.execution.num_pages, 0)
        self.assertEqual(self.server.http("/livez")[0], 200)
        self.assertEqual(self.server.http("/health")[0], 200)
        self.assertEqual(self.server.http("/nothing")[0], 404)

    # Kills: each bad request answered without its name, or by dying.
    def test_bad_requests(self):
        info = self.server.model_info()
        ids = lambda *values: k3.GenerateRequest(token_ids=k3.TokenIds(ids=values))
        nan = k3.GenerateRequest(text="x", sampling=k3.SamplingParams(temperature=float("nan")))
        negative = k3.GenerateRequest(text="x", stop=k3.StopParams(max_new_tokens=-1))
        cases = {
            "EMPTY_PROMPT": k3.GenerateRequest(text=""),
            "TOKEN_ID_OUT_OF_RANGE": ids(1, info.vocab_size),
            "INVALID_UTF8": b"\x1a\x03a\xffb",
            "CONTEXT_LENGTH_EXCEEDED": ids(*[5] * info.max_model_len),
            "INVALID_TEMPERATURE": nan,
            "INVALID_MAX_NEW_TOKENS": negative,
        }
        for reason, request in cases.items():
            with self.subTest(reason):
                self.assertEqual(k3client.refusal(self.server.stream(request)),
                                 ("INVALID_ARGUMENT", reason))
        unknown = k3.GenerateRequest(text="x", model="another")
        self.assertEqual(k3client.refusal(self.server.stream(unknown)),
                         ("NOT_FOUND", "MODEL_NOT_FOUND"))
        longest = ids(*[5] * (info.max_model_len - 1))
        events = list(self.server.stream(longest))
        self.assertEqual(events[-1].completed.usage.completion_tokens, 1)
        self.assertIn(events[-2].finished.reason,
                      (k3.FINISH_REASON_LENGTH_CONTEXT, k3.FINISH_REASON_STOP_EOS))

    # Kills: a client that leaves and is computed for to the end.
    def test_cancel_frees_the_engine(self):
        request = prompt(0)
        request.stop.max_new_tokens = 900
        call = self.server.stream(request)
        next(call)
        call.cancel()
        deadline = time.monotonic() + 20
        while (self.server.metric("k3serve_requests_running") > 0 or
               self.server.metric("k3serve_requests_finished_total", reason="aborted") == 0):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    # Kills: a command-line client without exit codes, or that shows nothing until the end.
    def test_k3ctl(self):
        def ctl(*arguments):
            return subprocess.run([K3CTL, *arguments, "--server", self.server.grpc_address],
                                  capture_output=True, text=True, timeout=60)

        said = ctl("generate", "--text", "hello", "--max-tokens", "8", "--temperature", "0")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("8 generated", said.stderr)
        self.assertEqual(ctl("health").stdout, "SERVING\n")
        self.assertIn("weights_fingerprint", ctl("info").stdout)
        refused = ctl("generate", "--text", "")
        self.assertEqual(refused.returncode, 13)
        self.assertIn("EMPTY_PROMPT", refused.stderr)
        self.assertEqual(ctl("no-such-verb").returncode, 2)


class Stopping(unittest.TestCase):
    def start(self, *flags):
        server = k3client.Server(K3SERVE, MODEL, "--cache-bytes", "256M", *flags).wait_ready()
        self.addCleanup(server.kill)
        return server

    # Kills: SIGTERM that cuts running streams, takes new work, or leaves a code other than 0.
    def test_sigterm_lets_streams_finish(self):
        server = self.start()
        request = prompt(0)
        request.stop.max_new_tokens = 200
        call = server.stream(request)
        next(call)
        server.process.terminate()
        time.sleep(0.2)
        late = k3client.refusal(server.stream(prompt(1)))
        events = list(call)
        self.assertEqual(events[-1].completed.usage.completion_tokens, 200)
        self.assertEqual(late, ("UNAVAILABLE", "DRAINING"))
        code, stderr = server.wait_end()
        self.assertEqual(code, 0, stderr)

    # Kills: a drain that has no end: a second signal ends it, streams are told "aborted".
    def test_second_signal_is_now(self):
        server = self.start("--drain-timeout", "600")
        request = prompt(0)
        request.stop.max_new_tokens = 50000
        call = server.stream(request)
        next(call)
        server.process.terminate()
        time.sleep(0.3)
        server.process.terminate()
        events = list(call)
        self.assertEqual(events[-2].finished.reason, k3.FINISH_REASON_ABORTED)
        self.assertEqual(server.wait_end()[0], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
