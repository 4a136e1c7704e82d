//! Process of the suite on the host that holds what no sandbox may find: a secret in its command
//! line, its environment, a file, an abstract socket, and listeners on the loopback.
//!
//! Invariant: it ends with the suite, because it ends when its input closes.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use crate::ROLE;

/// First argument that makes the role a decoy.
pub(crate) const NAME: &str = "decoy";

/// Prefix of the decoy's abstract socket.
pub(crate) const ABSTRACT_PREFIX: &str = "ringfence-decoy-";

/// Handle of the decoy.
#[derive(Debug)]
pub struct Decoy {
    child: Child,
    directory: PathBuf,
    token: String,
    ports: Vec<(String, u16)>,
}

impl Decoy {
    /// Starts one, with a fresh secret and a fresh scratch directory beside its files.
    pub fn start() -> io::Result<Self> {
        let token = random_token()?;
        let directory = std::env::temp_dir().join(format!("ringfence-hostile-{token:.12}"));
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(directory.join("scratch"))?;
        fs::write(directory.join("secret.txt"), format!("{token}\n"))?;
        let mut child = spawn(&token, &directory)?;
        let ports = read_ports(&mut child)?;
        Ok(Self { child, directory, token, ports })
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Directory in which controls work.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.directory.join("scratch")
    }

    /// Facts about it for attacks; secrets reversed (see [`crate::AttackContext`]).
    pub(crate) fn facts(&self) -> Vec<String> {
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        let mut facts = vec![
            format!("token={}", backwards(&self.token)),
            format!("directory={}", self.directory.display()),
            format!("scratch={}", self.scratch().display()),
            format!("pid={}", self.child.id()),
        ];
        facts.extend(self.ports.iter().map(|(name, port)| format!("{name}={port}")));
        facts
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

#[expect(clippy::disallowed_methods, reason = "the decoy stands outside every sandbox on purpose")]
fn spawn(token: &str, directory: &Path) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .args([ROLE, NAME, token])
        .arg(directory)
        .env("RINGFENCE_DECOY", token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

fn read_ports(child: &mut Child) -> io::Result<Vec<(String, u16)>> {
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("decoy has no output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    serde_json::from_str(&line)
        .map_err(|_| io::Error::other(format!("the decoy said `{}`", line.trim())))
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Main function of the decoy's process.
pub(crate) fn main(arguments: &[String]) -> i32 {
    let [token, directory] = arguments else { return 2 };
    let served = listen(token, Path::new(directory)).and_then(|ports| {
        let line = serde_json::to_string(&ports)?;
        io::stdout().write_all(format!("{line}\n").as_bytes())
    });
    if let Err(error) = served {
        eprintln!("error: decoy: {error}");
        return 2;
    }
    drop(io::copy(&mut io::stdin(), &mut io::sink()));
    0
}

fn listen(token: &str, directory: &Path) -> io::Result<Vec<(&'static str, u16)>> {
    let mut ports = vec![("tcp4", serve_tcp("127.0.0.1:0", token)?), ("udp4", serve_udp(token)?)];
    // On a host without IPv6 this listener is missing, and the control says so.
    ports.extend(serve_tcp("[::1]:0", token).ok().map(|port| ("tcp6", port)));
    serve_unix(UnixListener::bind(directory.join("decoy.sock"))?, token);
    let name = format!("{ABSTRACT_PREFIX}{token}");
    serve_unix(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?, token);
    Ok(ports)
}

fn serve_tcp(address: &str, token: &str) -> io::Result<u16> {
    let listener = TcpListener::bind(address)?;
    let (port, token) = (listener.local_addr()?.port(), token.to_owned());
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|mut peer| drop(peer.write_all(token.as_bytes())));
    });
    Ok(port)
}

fn serve_unix(listener: UnixListener, token: &str) {
    let token = token.to_owned();
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|mut peer| drop(peer.write_all(token.as_bytes())));
    });
}

/// Answers every datagram with the secret.
fn serve_udp(token: &str) -> io::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (port, token) = (socket.local_addr()?.port(), token.to_owned());
    thread::spawn(move || {
        let mut question = [0_u8; 512];
        while let Ok((_, peer)) = socket.recv_from(&mut question) {
            drop(socket.send_to(token.as_bytes(), peer));
        }
    });
    Ok(port)
}
