import asyncio, os, shutil, socket, subprocess, threading

with open("big", "wb") as file:
    file.write(bytes(300_000))


def size(name):
    return os.stat(name).st_size


def received(end):
    total = 0
    while chunk := end.recv(65536):
        total += len(chunk)
    return total


shutil.copyfile("big", "copy")
print("shutil", size("copy"))

near, far = socket.socketpair()
results = []
reader = threading.Thread(target=lambda: results.append(received(far)))
reader.start()
with open("big", "rb") as file:
    near.sendfile(file)
near.close()
reader.join()
print("socket", results[0])


async def served():
    async def answer(_, writer):
        with open("big", "rb") as file:
            await asyncio.get_running_loop().sendfile(writer.transport, file)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    body = await reader.read()
    writer.close()
    server.close()
    return len(body)


print("asyncio", asyncio.run(served()))
subprocess.run("cat big > piped && cp piped copied", shell=True, check=True)
print("cp", size("copied"))
