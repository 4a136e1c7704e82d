import subprocess, threading, urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write(name, text):
    with open(name, "w") as file:
        file.write(text)


server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"

write("page.txt", "page\n")
print("urllib", urllib.request.urlopen(f"{address}/page.txt").read().decode().strip())
print("curl", output("curl", "-sS", f"{address}/page.txt"))

output("git", "init", "-q", "-b", "main", "repo")
write("repo/hello.txt", "hello\n")
output("git", "-C", "repo", "add", ".")
author = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
output("git", "-C", "repo", *author, "commit", "-q", "-m", "first")
output("git", "-C", "repo", "update-server-info")
output("git", "clone", "-q", f"{address}/repo/.git", "copy")
with open("copy/hello.txt") as file:
    print("git", output("git", "-C", "copy", "log", "--format=%s"), file.read().strip())
