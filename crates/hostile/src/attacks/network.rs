//! Connections to the host over the network. Every address is one of our own decoy's.

use std::{
    fs,
    io::{self, Read},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use ringfence_jail::attack;
use ringfence_types::SandboxNetwork;

use crate::{
    AttackContext, Case, Finding, Group,
    child::or_with_own_namespaces,
    finding::{broken, escaped, held, not_applicable},
};

const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

pub(super) fn cases() -> Vec<Case> {
    // With a network inside, so that its own isolation is tested and not only its absence.
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Network, id, promise, attack)
            .limited(|limits| limits.network = SandboxNetwork::Loopback)
    };
    let unasked = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Network, id, promise, attack)
    };
    vec![
        unasked("N01.inet", "no IPv4 socket unless it was asked for", |context| inet(context, 2)),
        unasked("N01.inet6", "no IPv6 socket unless it was asked for", |context| inet(context, 10)),
        case("N01.tcp", "no TCP connection to the host", |context| {
            tcp(context, "127.0.0.1", "tcp4")
        }),
        case("N01.tcp6", "no TCP connection to the host over IPv6", |context| {
            tcp(context, "[::1]", "tcp6")
        }),
        case("N01.udp", "no datagram reaches the host", |context| udp(context, b"ringfence")),
        case("N01.dns", "no question to a resolver on the host", |context| udp(context, QUESTION)),
        case("N01.icmp", "no ping socket can be had", |context| {
            or_with_own_namespaces(context, || icmp(context))
        }),
        case("N01.interfaces", "there is no network device but the loopback", interfaces),
        case("N01.routes", "there is no route", routes),
        case("N12", "no port of the host by any of its local names", local_names),
        case("N19.known", "no socket of a service of the host is there", known_sockets),
        case("N19.path", "a socket of the host cannot be reached by its path", by_path),
        case("N19.run", "/run holds no socket", run_sockets),
    ]
}

/// A DNS question for `example.invalid`, type A.
const QUESTION: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x07invalid\x00\x00\x01\x00\x01";

/// Finding for an answer: only the secret counts.
fn heard(context: &AttackContext, answer: io::Result<Vec<u8>>) -> Finding {
    let token = context.secret("token").unwrap_or_default();
    match answer {
        Ok(bytes) if !token.is_empty() && bytes == token.as_bytes() => escaped("the host answered"),
        Ok(_) => held("another process answered"),
        Err(error) => held(error.to_string()),
    }
}

fn port(context: &AttackContext, name: &str) -> Option<u16> {
    context.number(name)?.try_into().ok()
}

fn connect(address: &str, port: u16) -> io::Result<Vec<u8>> {
    let address: SocketAddr =
        format!("{address}:{port}").parse().map_err(|_| io::Error::other("not an address"))?;
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn tcp(context: &AttackContext, address: &str, name: &str) -> Finding {
    match port(context, name) {
        Some(port) => heard(context, connect(address, port)),
        None if context.is_outside() => not_applicable("this host has no such loopback"),
        None => held("the host has no such loopback"),
    }
}

fn udp(context: &AttackContext, question: &[u8]) -> Finding {
    let Some(port) = port(context, "udp4") else { return broken("the port was not told") };
    let ask = || -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.send_to(question, ("127.0.0.1", port))?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer)?;
        Ok(answer[..length].to_vec())
    };
    heard(context, ask())
}

/// A stream and a datagram socket of one family; nothing is sent.
fn inet(context: &AttackContext, family: i32) -> Finding {
    let (stream, datagram) = (1, 2);
    let open = |kind| context.succeeded("socket", attack::open_socket(family, kind, 0));
    crate::context::worst([open(stream), open(datagram)]).unwrap_or_else(|| held("no socket"))
}

/// Raw as root, datagram as others; nothing is sent.
fn icmp(context: &AttackContext) -> Finding {
    let (inet, raw, datagram, icmp) = (2, 3, 2, 1);
    let socket =
        attack::open_socket(inet, raw, icmp).or_else(|_| attack::open_socket(inet, datagram, icmp));
    context.succeeded("ping socket", socket)
}

fn interfaces(context: &AttackContext) -> Finding {
    let devices = match fs::read_to_string("/proc/self/net/dev") {
        Ok(text) => text,
        Err(error) => return context.refused_or_absent("/proc/self/net/dev", &error),
    };
    let names = devices.lines().skip(2).filter_map(|line| line.split(':').next());
    let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
    match others.first() {
        Some(name) => escaped(format!("{name} is there")),
        None if context.is_outside() => not_applicable("this host has only a loopback itself"),
        None => held("the loopback only"),
    }
}

fn routes(context: &AttackContext) -> Finding {
    let routes = match fs::read_to_string("/proc/self/net/route") {
        Ok(text) => text.lines().skip(1).count(),
        Err(error) => return context.refused_or_absent("/proc/self/net/route", &error),
    };
    match routes {
        0 if context.is_outside() => not_applicable("this host has no route itself"),
        0 => held("none"),
        many => escaped(format!("{many} routes")),
    }
}

/// Tries names of this host, such as `0.0.0.0` and the mapped address.
fn local_names(context: &AttackContext) -> Finding {
    let Some(port) = port(context, "tcp4") else { return broken("the port was not told") };
    let names = ["127.0.0.1", "0.0.0.0", "127.0.0.2", "[::ffff:127.0.0.1]"];
    let tries = names.map(|name| heard(context, connect(name, port)));
    crate::context::worst(tries).unwrap_or_else(|| held("no name"))
}

const KNOWN: &[&str] = &[
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/run/systemd/journal/socket",
    "/run/udev/control",
    "/dev/log",
    "/run/postgresql/.s.PGSQL.5432",
    "/run/mysqld/mysqld.sock",
    "/tmp/.X11-unix/X0",
];

/// Looks for known sockets without connecting; the control also knows the decoy's own.
fn known_sockets(context: &AttackContext) -> Finding {
    let own = context.fact("directory").map(|path| format!("{path}/decoy.sock"));
    let paths = KNOWN.iter().map(ToString::to_string).chain(own);
    let mut there = paths.filter(|path| is_socket(Path::new(path)));
    match there.next() {
        Some(path) => escaped(format!("{path} is there")),
        None => held("none of them is there"),
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

fn by_path(context: &AttackContext) -> Finding {
    let Some(directory) = context.fact("directory") else { return broken("no path was told") };
    let ask = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(Path::new(directory).join("decoy.sock"))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    heard(context, ask())
}

/// Looks two levels deep, where services put their sockets; the control starts beside the decoy's.
fn run_sockets(context: &AttackContext) -> Finding {
    let root = PathBuf::from(context.pick("/run", context.fact("directory").unwrap_or("/run")));
    let inner = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let first: Vec<PathBuf> = inner(root).map(|entry| entry.path()).take(1000).collect();
    let second = first.iter().flat_map(|path| inner(path.clone())).map(|entry| entry.path());
    match first.iter().cloned().chain(second.take(1000)).find(|path| is_socket(path)) {
        Some(path) => escaped(format!("{} is there", path.display())),
        None => held("none"),
    }
}
