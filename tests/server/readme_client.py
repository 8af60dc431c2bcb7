import sys
import grpc

sys.path.append("run/python")  # where protoc put the message classes
from k3serve.v1 import inference_pb2 as k3

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
with grpc.insecure_channel(address) as channel:
    generate = channel.unary_stream("/k3serve.v1.Inference/Generate",
                                    request_serializer=k3.GenerateRequest.SerializeToString,
                                    response_deserializer=k3.GenerateEvent.FromString)
    request = k3.GenerateRequest(text="Once upon a time", stop=k3.StopParams(max_new_tokens=32))
    for event in generate(request):
        print(event.delta.text + event.finished.text, end="", flush=True)
    print("\n", event.completed.usage, sep="")
