"""Unruly clients on a pool too small for half of them: nothing leaks, nobody's tokens change.

Arguments: k3serve model_folder. K3_LAW_SECONDS says how long (6); K3_LAW_SEED fixes who does what.
"""
import os
import random
import sys
import threading
import time
import unittest

import grpc
import k3client
from k3serve.v1 import inference_pb2 as k3

K3SERVE, MODEL = sys.argv[1:3]
SECONDS = float(os.environ.get("K3_LAW_SECONDS", "6"))
SEED = int(os.environ.get("K3_LAW_SEED", time.time_ns() % 2**32))
CLIENTS = 64
KINDS = 24  # different requests
PAGES = 240  # of the pool: room for about ten sequences of the average kind


def request_of(kind):
    chance = random.Random(kind)
    request = k3.GenerateRequest()
    request.token_ids.ids.extend(chance.randrange(2000) for _ in range(chance.randrange(4, 60)))
    request.sampling.seed = kind
    request.sampling.temperature = chance.choice([0.0, 0.7, 1.2])
    if kind % 3 == 0:
        request.sampling.top_k = 20
        request.sampling.frequency_penalty = 0.5
    if kind % 4 == 0:
        request.stop.stop_strings.append(" a")
    request.scheduling.priority = kind % 2
    request.stop.max_new_tokens = chance.randrange(40, 200)
    request.output.want_token_ids = True
    return request


class Client(threading.Thread):
    """Asks, and leaves, dawdles or sets deadlines at random; keeps what does not match."""

    def __init__(self, server, number, expected, until):
        super().__init__()
        self.server, self.expected, self.until = server, expected, until
        self.chance = random.Random(SEED * 1000 + number)
        self.finished, self.ended, self.wrong = 0, {}, []

    def run(self):
        while time.monotonic() < self.until:
            kind = self.chance.randrange(KINDS)
            try:
                self.ask(kind, self.chance.choice(["read", "read", "read", "dawdle", "leave",
                                                   "deadline", "never"]))
            except grpc.RpcError as error:
                name = error.code().name
                self.ended[name] = self.ended.get(name, 0) + 1
                if name in ("INTERNAL", "UNKNOWN"):
                    self.wrong.append(error.details())

    def ask(self, kind, manner):
        timeout = self.chance.uniform(0.01, 0.5) if manner == "deadline" else 60
        call = self.server.channel.unary_stream(
            "/k3serve.v1.Inference/Generate",
            request_serializer=k3.GenerateRequest.SerializeToString,
            response_deserializer=k3.GenerateEvent.FromString)(request_of(kind), timeout=timeout)
        patience = self.chance.randrange(1, 20)
        events = []
        for event in call:
            events.append(event)
            if manner == "dawdle":
                time.sleep(0.02)
            if manner in ("leave", "never") and len(events) > patience:
                if manner == "never":
                    time.sleep(1.0)
                call.cancel()
                return
        tokens = k3client.token_ids(events)
        if tokens != self.expected[kind]:
            self.wrong.append(f"kind {kind}: {tokens} instead of {self.expected[kind]}")
        self.finished += 1


class Soak(unittest.TestCase):
    # Kills: pages, slots or calls that stay behind; a preemption, a pause or a neighbour that
    # changes a token; a client that holds up others for good; memory that grows with every call.
    def test_nothing_leaks_and_nothing_changes(self):
        print(f"seed {SEED} (K3_LAW_SEED), {SECONDS:.0f} s (K3_LAW_SECONDS)")
        probe = k3client.Server(K3SERVE, MODEL).wait_ready()
        page_bytes = probe.model_info().execution.page_bytes
        probe.kill()
        server = k3client.Server(
            K3SERVE, MODEL, "--cache-bytes", str(PAGES * page_bytes), "--max-num-seqs", "48",
            "--max-model-len", "512", "--max-queued-requests", "64", "--max-unread-tokens", "16",
            "--slow-client-timeout", "2", "--log-requests", "none").wait_ready()
        self.addCleanup(server.kill)
        expected = [k3client.token_ids(list(server.stream(request_of(kind))))
                    for kind in range(KINDS)]
        self.assertEqual(server.loads().preemptions_total, 0)
        begin = time.monotonic()
        clients = [Client(server, i, expected, begin + SECONDS) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(SECONDS / 3)
        rss_early = server.rss_mib()
        for client in clients:
            client.join()
        self.assertEqual([w for client in clients for w in client.wrong], [])
        deadline = time.monotonic() + 30
        while server.loads().running + server.loads().waiting > 0:
            self.assertLess(time.monotonic(), deadline, "requests stay behind")
            time.sleep(0.05)
        loads, rss = server.loads(), server.rss_mib()
        ended = {}
        for client in clients:
            for name, count in client.ended.items():
                ended[name] = ended.get(name, 0) + count
        finished = sum(client.finished for client in clients)
        print(f"{finished} finished as alone, {ended}; {loads.preemptions_total} preemptions, "
              f"{loads.recomputed_tokens_total} tokens recomputed, paused now {loads.paused}; "
              f"RSS {rss_early:.0f} MiB after a third, {rss:.0f} at the end")
        self.assertEqual(loads.pages_free, loads.pages_total)
        if SECONDS >= 30:  # on a busy machine a short run may come to none
            self.assertGreater(loads.preemptions_total, 0)
        self.assertGreater(finished, 0)
        self.assertLess(rss, rss_early + 100)  # a leak of pages or calls is far more
        self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
