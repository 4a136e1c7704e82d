import asyncio, fcntl, multiprocessing, os, pty, signal, socket, sqlite3, subprocess
import tempfile, termios, threading


def square(number):
    return number * number


async def child():
    process = await asyncio.create_subprocess_exec("echo", "async", stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode().strip()


async def echo_once():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"tcp\n")
    line = await reader.readline()
    writer.close()
    server.close()
    return line.decode().strip()


def terminal():
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "test -t 0 && stty size && tty -s && echo terminal"])
    termios.tcgetattr(master)
    output = b""
    try:
        while chunk := os.read(master, 1024):
            output += chunk
    except OSError:
        pass
    os.waitpid(pid, 0)
    return output.decode().split()[-1]


def locked():
    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, 4096)
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("pool", pool.map(square, [2, 3]))
    results = []
    threads = [threading.Thread(target=results.append, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("threads", sorted(results))
    print("asyncio", asyncio.run(child()), asyncio.run(echo_once()))
    left, right = socket.socketpair()
    left.send(b"pair")
    print("socketpair", right.recv(4).decode())
    print("subprocess", subprocess.check_output(["sh", "-c", "echo $((6 * 7))"]).decode().strip())
    database = sqlite3.connect(os.path.join(tempfile.mkdtemp(), "data.db"))
    database.execute("create table t (v)")
    database.execute("insert into t values (7)")
    database.commit()
    print("sqlite", database.execute("select v from t").fetchone()[0])
    print("terminal", terminal())
    print("file", locked())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    print("signal", signal.sigwait([signal.SIGALRM]).name)
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    except OSError as error:
        print("netlink", error.strerror)
