from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request.upper())


server = grpc.server(futures.ThreadPoolExecutor(2), [Echo()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    print(channel.unary_unary("/test.Echo/Say")(b"grpc", timeout=30).decode())
server.stop(None).wait()
