import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.answer(f"got {self.path}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(f"posted {len(body)}")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/page"
with requests.Session() as session:
    for response in [session.get(address), session.post(address, data=b"abc")]:
        print(response.status_code, response.text)
server.shutdown()
