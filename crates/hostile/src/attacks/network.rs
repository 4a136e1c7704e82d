//! Reaching the host over the network. Every address is one of our own decoy's.

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
    Case, Finding, Ground, Group,
    child::or_with_own_namespaces,
    finding::{broken, escaped, held, not_applicable},
};

const PATIENCE: Duration = Duration::from_millis(700);

pub(super) fn cases() -> Vec<Case> {
    // With a network inside, so that its own walls are tried and not only its absence.
    let case = |id: &str, promise: &str, attack: fn(&Ground) -> Finding| {
        Case::new(Group::Network, id, promise, attack)
            .limited(|limits| limits.network = SandboxNetwork::Loopback)
    };
    let unasked = |id: &str, promise: &str, attack: fn(&Ground) -> Finding| {
        Case::new(Group::Network, id, promise, attack)
    };
    vec![
        unasked("N01.inet", "no IPv4 socket unless it was asked for", |ground| inet(ground, 2)),
        unasked("N01.inet6", "no IPv6 socket unless it was asked for", |ground| inet(ground, 10)),
        case("N01.tcp", "no TCP connection to the host", |ground| tcp(ground, "127.0.0.1", "tcp4")),
        case("N01.tcp6", "no TCP connection to the host over IPv6", |ground| {
            tcp(ground, "[::1]", "tcp6")
        }),
        case("N01.udp", "no datagram reaches the host", |ground| udp(ground, b"ringfence")),
        case("N01.dns", "no question to a resolver on the host", |ground| udp(ground, QUESTION)),
        case("N01.icmp", "no ping socket can be had", |ground| {
            or_with_own_namespaces(ground, || icmp(ground))
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

/// Turns what was read into a finding: only the secret counts.
fn heard(ground: &Ground, answer: io::Result<Vec<u8>>) -> Finding {
    let token = ground.secret("token").unwrap_or_default();
    match answer {
        Ok(bytes) if !token.is_empty() && bytes == token.as_bytes() => escaped("the host answered"),
        Ok(_) => held("somebody else answered"),
        Err(error) => held(error.to_string()),
    }
}

fn port(ground: &Ground, name: &str) -> Option<u16> {
    ground.number(name)?.try_into().ok()
}

fn connect(address: &str, port: u16) -> io::Result<Vec<u8>> {
    let address: SocketAddr =
        format!("{address}:{port}").parse().map_err(|_| io::Error::other("not an address"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn tcp(ground: &Ground, address: &str, name: &str) -> Finding {
    match port(ground, name) {
        Some(port) => heard(ground, connect(address, port)),
        None if ground.is_outside() => not_applicable("this host has no such loopback"),
        None => held("the host has no such loopback"),
    }
}

fn udp(ground: &Ground, question: &[u8]) -> Finding {
    let Some(port) = port(ground, "udp4") else { return broken("the port was not told") };
    let ask = || -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send_to(question, ("127.0.0.1", port))?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer)?;
        Ok(answer[..length].to_vec())
    };
    heard(ground, ask())
}

/// A stream and a datagram socket of one family; nothing is sent.
fn inet(ground: &Ground, family: i32) -> Finding {
    let (stream, datagram) = (1, 2);
    let open = |kind| ground.succeeded("socket", attack::open_socket(family, kind, 0));
    crate::ground::worst([open(stream), open(datagram)]).unwrap_or_else(|| held("no socket"))
}

/// Raw as root, datagram as others; nothing is sent.
fn icmp(ground: &Ground) -> Finding {
    let (inet, raw, datagram, icmp) = (2, 3, 2, 1);
    let socket =
        attack::open_socket(inet, raw, icmp).or_else(|_| attack::open_socket(inet, datagram, icmp));
    ground.succeeded("ping socket", socket)
}

fn interfaces(ground: &Ground) -> Finding {
    let devices = match fs::read_to_string("/proc/self/net/dev") {
        Ok(text) => text,
        Err(error) => return ground.refused_or_absent("/proc/self/net/dev", &error),
    };
    let names = devices.lines().skip(2).filter_map(|line| line.split(':').next());
    let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
    match others.first() {
        Some(name) => escaped(format!("{name} is there")),
        None if ground.is_outside() => not_applicable("this host has only a loopback itself"),
        None => held("the loopback only"),
    }
}

fn routes(ground: &Ground) -> Finding {
    let routes = match fs::read_to_string("/proc/self/net/route") {
        Ok(text) => text.lines().skip(1).count(),
        Err(error) => return ground.refused_or_absent("/proc/self/net/route", &error),
    };
    match routes {
        0 if ground.is_outside() => not_applicable("this host has no route itself"),
        0 => held("none"),
        many => escaped(format!("{many} routes")),
    }
}

/// `0.0.0.0` and the mapped address mean this host as well.
fn local_names(ground: &Ground) -> Finding {
    let Some(port) = port(ground, "tcp4") else { return broken("the port was not told") };
    let names = ["127.0.0.1", "0.0.0.0", "127.0.0.2", "[::ffff:127.0.0.1]"];
    let tries = names.map(|name| heard(ground, connect(name, port)));
    crate::ground::worst(tries).unwrap_or_else(|| held("no name"))
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

/// Looks without connecting; the control also knows the decoy's own.
fn known_sockets(ground: &Ground) -> Finding {
    let own = ground.fact("directory").map(|path| format!("{path}/decoy.sock"));
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

fn by_path(ground: &Ground) -> Finding {
    let Some(directory) = ground.fact("directory") else { return broken("no path was told") };
    let ask = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(Path::new(directory).join("decoy.sock"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    heard(ground, ask())
}

/// Two levels deep is where services put theirs; the control starts beside the decoy's.
fn run_sockets(ground: &Ground) -> Finding {
    let root = PathBuf::from(ground.pick("/run", ground.fact("directory").unwrap_or("/run")));
    let inner = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let first: Vec<PathBuf> = inner(root).map(|entry| entry.path()).take(1000).collect();
    let second = first.iter().flat_map(|path| inner(path.clone())).map(|entry| entry.path());
    match first.iter().cloned().chain(second.take(1000)).find(|path| is_socket(path)) {
        Some(path) => escaped(format!("{} is there", path.display())),
        None => held("none"),
    }
}
