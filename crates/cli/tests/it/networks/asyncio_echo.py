import asyncio


async def answer(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def ask(address, number):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"line {number}\n".encode())
    line = await reader.readline()
    writer.close()
    return line.decode().strip()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    print(*await asyncio.gather(*(ask(address, number) for number in range(8))))
    server.close()


asyncio.run(main())
