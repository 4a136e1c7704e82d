//! Network and terminals, which a sandbox has only on request.

use ringfence_sandbox::{Report, Request};
use ringfence_types::{Limits, SandboxNetwork};

use crate::support::{Service, Tier, assert_exited, on_every_tier, python, stderr, stdout};

on_every_tier! {
    without_a_network_there_are_unix_sockets_only
    event_loops_and_unix_servers_need_no_network
    programs_talk_over_the_loopback_that_was_asked_for
    a_missing_network_is_hinted_at
}

fn with_loopback(request: Request) -> Request {
    let limits = Limits { network: SandboxNetwork::Loopback, ..request.limits };
    Request { limits, ..request }
}

fn with_terminals(request: Request, terminals: u32) -> Request {
    let limits = Limits { terminals, ..request.limits };
    Request { limits, ..request }
}

/// The families of `socket(2)` that work: of the local, the internet and the IPv6 one.
const FAMILIES: &str = "import errno, socket\n\
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):\n    \
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n        \
    try: socket.socket(family, kind); print('ok')\n        \
    except OSError as e: print(errno.errorcode[e.errno])";

/// TCP and UDP over both addresses of the loopback.
const SOCKETS: &str = "const tell = e => console.log(e.code);\
    require('net').createServer().on('error', tell).listen(0, '127.0.0.1', function () { \
    console.log('ok'); this.close() });\
    require('dgram').createSocket('udp4').on('error', tell).bind(0, '127.0.0.1', function () { \
    console.log('ok'); this.close() });";

async fn without_a_network_there_are_unix_sockets_only(tier: Tier) {
    let service = tier.service();
    let request = tier.code(FAMILIES, SOCKETS);
    let refused = service.run(request.clone()).await;
    let python = format!("ok\nok\n{}", "EAFNOSUPPORT\n".repeat(4));
    let expected = if tier == Tier::Warm { "EAFNOSUPPORT\nEAFNOSUPPORT\n" } else { &python };
    assert_eq!(stdout(&refused), expected, "{}", stderr(&refused));
    // The control: the same program with the network it asks for.
    let control = service.run(with_loopback(request)).await;
    let python = "ok\n".repeat(6);
    let expected = if tier == Tier::Warm { "ok\nok\n" } else { &python };
    assert_eq!(stdout(&control), expected, "{}", stderr(&control));
    service.close().await;
}

async fn event_loops_and_unix_servers_need_no_network(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import asyncio\n\
         async def serve(reader, writer):\n    \
         writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()\n\
         async def main():\n    \
         await asyncio.sleep(0)\n    \
         child = await asyncio.create_subprocess_exec('echo', 'child', \
         stdout=asyncio.subprocess.PIPE)\n    \
         print((await child.communicate())[0].decode().strip())\n    \
         print(await asyncio.to_thread(lambda: 'thread'))\n    \
         async with await asyncio.start_unix_server(serve, '/tmp/s'):\n        \
         reader, writer = await asyncio.open_unix_connection('/tmp/s')\n        \
         writer.write(b'unix\\n'); print((await reader.readline()).decode().strip())\n        \
         writer.close()\n\
         asyncio.run(main())",
        "const http = require('http');\
         console.log(require('child_process').execFileSync('echo', ['child']).toString().trim());\
         setTimeout(() => { console.log('thread');\
         const server = http.createServer((q, a) => a.end('UNIX')).listen('/tmp/s', () => \
         http.get({socketPath: '/tmp/s'}, a => a.on('data', d => { \
         console.log(d.toString()); server.close(); process.exit() })))}, 1)",
    );
    let report = service.run(request).await;
    assert_eq!(stdout(&report), "child\nthread\nUNIX\n", "{}", stderr(&report));
    assert_exited(&report, 0);
    service.close().await;
}

async fn programs_talk_over_the_loopback_that_was_asked_for(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import asyncio\n\
         async def serve(reader, writer):\n    \
         writer.write(await reader.read()); await writer.drain(); writer.close()\n\
         async def main():\n    \
         for host in ('127.0.0.1', 'localhost', '::1'):\n        \
         server = await asyncio.start_server(serve, host, 0)\n        \
         async with server:\n            \
         port = server.sockets[0].getsockname()[1]\n            \
         reader, writer = await asyncio.open_connection(host, port)\n            \
         writer.write(b'x' * 4000000); writer.write_eof()\n            \
         print(len(await reader.read())); writer.close()\n\
         asyncio.run(main())",
        "const server = require('http').createServer((q, a) => a.end('x'.repeat(4000000)));\
         const get = async host => (await (await \
         fetch(`http://${host}:${server.address().port}`)).text()).length;\
         server.listen(0, async () => { for (const host of ['127.0.0.1', 'localhost', '[::1]'])\
         console.log(await get(host)); process.exit() })",
    );
    let report = service.run(with_loopback(request)).await;
    assert_eq!(stdout(&report), "4000000\n".repeat(3), "{}", stderr(&report));
    service.close().await;
}

async fn a_missing_network_is_hinted_at(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import socket; socket.create_server(('127.0.0.1', 0))",
        "require('net').createServer().listen(0, '127.0.0.1')",
    );
    let limits =
        |report: &Report| -> Vec<&str> { report.hints.iter().map(|hint| hint.limit).collect() };
    let report = service.run(request).await;
    assert_exited(&report, 1);
    assert_eq!(limits(&report), ["network"], "{}", stderr(&report));
    assert!(report.hints[0].hint.contains("--network loopback"), "{:?}", report.hints);
    service.close().await;
}

/// Memory that the kernel charges to no cgroup is bounded per listening socket: few connections
/// wait for a program to accept them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_wait_to_be_accepted() {
    let service = Service::cold();
    let request = python(
        "import socket\n\
         server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(4096)\n\
         held = []\n\
         while len(held) < 100:\n    \
         s = socket.socket(); s.settimeout(0.3)\n    \
         try: s.connect(server.getsockname())\n    \
         except OSError: break\n    \
         held.append(s)\n\
         print(len(held) < 40, len(held) > 4)",
    );
    let report = service.run(with_loopback(request)).await;
    assert_eq!(stdout(&report), "True True\n", "{}", stderr(&report));
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminals_are_as_many_as_were_asked_for() {
    let service = Service::cold();
    let count = python(
        "import os\n\
         held = []\n\
         try:\n    \
         while len(held) < 9: held.append(os.openpty())\n\
         except OSError as e: print(len(held), os.strerror(e.errno))",
    );
    for (terminals, said) in
        [(0, "0 No such file or directory\n"), (2, "2 No space left on device\n")]
    {
        let report = service.run(with_terminals(count.clone(), terminals)).await;
        assert_eq!(stdout(&report), said, "{}", stderr(&report));
    }
    let spawn = python("import pty; print(pty.spawn(['tty']))");
    let report = service.run(with_terminals(spawn.clone(), 1)).await;
    assert_eq!(stdout(&report), "/dev/pts/0\r\n0\n", "{}", stderr(&report));
    let report = service.run(spawn).await;
    assert_exited(&report, 1);
    assert_eq!(
        report.hints.first().map(|hint| hint.limit),
        Some("terminals"),
        "{}",
        stderr(&report)
    );
    service.close().await;
}

/// Sizes of the sandbox's own file systems do not reveal the host's; nodes of `/dev` are its own
/// where the service may make them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_systems_of_our_own_do_not_tell_the_host_s_memory() {
    let service = Service::cold();
    let request = python(
        "import os\n\
         for path in ('/', '/dev', '/dev/null'):\n    \
         s = os.statvfs(path); print(path, s.f_blocks * s.f_frsize, s.f_files)\n\
         open('/dev/null', 'w').write('x'); print(len(open('/dev/urandom', 'rb').read(8)))",
    );
    let report = service.run(request).await;
    let dev = "65536 16384";
    let expected = format!("/ 67108864 16384\n/dev {dev}\n/dev/null {dev}\n8\n");
    assert_eq!(stdout(&report), expected, "{}", stderr(&report));
    service.close().await;
}
