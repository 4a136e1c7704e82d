//! Invalid messages on the sockets of the helpers: they refuse them or end cleanly, and the next
//! helper works.
//!
//! Only the service can reach these sockets; this is about its own mistakes, and about an init,
//! whose socket is one hop away from hostile code.

use std::{
    fs::File,
    io::IoSlice,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ringfence_jail::{
    socket,
    wire::{
        ActiveLayers, Confine, Exec, ForkRequest, FromInit, FromTemplate, Join, MayMiss,
        RootSource, RootSpec, SignalScope, ToInit, ToSpawner, ToTemplate,
    },
};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    sockopt::{Timeout, set_socket_timeout},
};

use crate::support::{census, settings};

/// Mutation of a valid packet, and the descriptors sent with it.
#[derive(Debug, Clone)]
struct Packet {
    body: Body,
    fds: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Body {
    Random(Vec<u8>),
    Mutated { message: usize, at: usize, with: u8, cut: Option<usize>, tail: Vec<u8> },
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let random = vec(any::<u8>(), 0..200).prop_map(Body::Random);
    let mutated = (
        any::<usize>(),
        any::<usize>(),
        any::<u8>(),
        any::<Option<usize>>(),
        vec(any::<u8>(), 0..4),
    )
        .prop_map(|(message, at, with, cut, tail)| Body::Mutated {
            message,
            at,
            with,
            cut,
            tail,
        });
    let packet = (prop_oneof![1 => random, 3 => mutated], vec(0_u8..5, 0..=16))
        .prop_map(|(body, fds)| Packet { body, fds });
    vec(packet, 1..8)
}

impl Packet {
    fn bytes(&self, valid: &[Vec<u8>]) -> Vec<u8> {
        match &self.body {
            Body::Random(bytes) => bytes.clone(),
            Body::Mutated { message, at, with, cut, tail } => {
                let mut bytes = valid[message % valid.len()].clone();
                let at = at % bytes.len();
                bytes[at] ^= with;
                if let Some(cut) = cut {
                    bytes.truncate(cut % (bytes.len() + 1));
                }
                bytes.extend(tail);
                bytes
            }
        }
    }

    /// Pipes, sockets, files and devices whose readers and writers never block.
    fn descriptors(&self) -> Vec<OwnedFd> {
        let open = |kind: &u8| -> OwnedFd {
            match kind {
                0 => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe").0,
                1 => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe").1,
                2 => socket::pair().expect("pair").0,
                3 => tempfile::tempfile().expect("file").into(),
                _ => File::open("/dev/null").expect("null").into(),
            }
        };
        self.fds.iter().map(open).collect()
    }

    fn send(&self, socket: BorrowedFd<'_>, valid: &[Vec<u8>]) {
        let held = self.descriptors();
        let fds: Vec<BorrowedFd<'_>> = held.iter().map(AsFd::as_fd).collect();
        let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let bytes = self.bytes(valid);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags);
    }
}

/// An encoded message.
fn encoded(message: &impl serde::Serialize) -> Vec<u8> {
    let (ours, theirs) = socket::pair().expect("pair");
    socket::send(ours.as_fd(), message, &[]).expect("send");
    let mut bytes = vec![0; 64 << 10];
    let (length, _) =
        rustix::net::recv(&theirs, &mut bytes, rustix::net::RecvFlags::empty()).expect("receive");
    bytes.truncate(length);
    bytes
}

fn confine() -> Confine {
    Confine {
        uid: 0x6fff_0000,
        hostname: "fuzz".to_owned(),
        disk: 1 << 20,
        inodes: 100,
        open_files: 64,
        loopback: false,
        terminals: 1,
        data: None,
        processes: None,
        cpu_secs: Some(2),
        cpus: 0,
        listeners: Vec::new(),
        may_miss: MayMiss::default(),
    }
}

fn exec(argv: &[&str]) -> Exec {
    Exec {
        id: 1,
        argv: argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        cwd: b"/".to_vec(),
        files: vec![("main.py".to_owned(), b"print(1)".to_vec())],
        terminal: None,
        joins: false,
    }
}

fn to_template() -> Vec<Vec<u8>> {
    let spawn = |join| ToTemplate::Spawn { id: 7, confine: confine(), join };
    let strings = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect();
    let zygote = ToTemplate::Zygote {
        id: 8,
        uid: 0x6fff_0001,
        ids: 10,
        argv: strings(&["python3", "-c", "1"]),
        env: strings(&["A=B"]),
        join: Join::None,
    };
    let joins = [Join::None, Join::Files(3), Join::Born, Join::Service];
    joins.map(spawn).iter().map(encoded).chain([encoded(&zygote)]).collect()
}

fn to_init() -> Vec<Vec<u8>> {
    let signal = |scope| ToInit::Signal { id: 1, signal: 15, scope };
    let terminal = Exec { terminal: Some((24, 80)), ..exec(&["true"]) };
    let messages = [
        ToInit::Go,
        ToInit::Exec(exec(&["sleep", "1000"])),
        ToInit::Exec(exec(&["no-such-program"])),
        ToInit::Exec(terminal),
        signal(SignalScope::Process),
        signal(SignalScope::Session),
    ];
    messages.iter().map(encoded).collect()
}

fn to_spawner() -> Vec<Vec<u8>> {
    let root = |source| {
        ToSpawner::Template(RootSpec {
            source,
            with_attack: false,
            with_zygote: true,
            packages: None,
        })
    };
    let messages = [
        root(RootSource::HostView),
        root(RootSource::Directory(PathBuf::from("/nonexistent"))),
        root(RootSource::Directory(PathBuf::from("/usr"))),
    ];
    messages.iter().map(encoded).collect()
}

/// A spawner of this test alone, and the socket to it.
struct Spawner {
    child: Child,
    socket: Option<OwnedFd>,
}

impl Spawner {
    fn start(exe: &Path) -> Self {
        let (ours, theirs) = socket::pair().expect("pair");
        let mut command = settings::program(exe);
        command.arg0(ringfence_sandbox::SPAWNER_ROLE).stdin(Stdio::from(theirs)).env_clear();
        let child = command.stderr(Stdio::null()).spawn().expect("spawner");
        patient(&ours);
        Self { child, socket: Some(ours) }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().expect("open until the end").as_fd()
    }

    /// A template of the host's view; `None` if the spawner is gone.
    fn template(&self) -> Option<OwnedFd> {
        let (ours, theirs) = socket::pair().expect("pair");
        patient(&ours);
        let spec = RootSpec {
            source: RootSource::HostView,
            with_attack: false,
            with_zygote: true,
            packages: None,
        };
        socket::send(self.socket(), &ToSpawner::Template(spec), &[theirs.as_fd()]).ok()?;
        drop(theirs);
        let word = socket::receive::<FromTemplate>(ours.as_fd()).ok()?.message;
        assert!(matches!(word, FromTemplate::Ready { .. }), "{word:?}");
        Some(ours)
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("ours").is_none()
    }

    /// Closes the socket; everything it made must end with it, in time.
    fn end(mut self) {
        self.socket = None;
        let deadline = Instant::now() + Duration::from_secs(15);
        while self.is_alive() {
            assert!(Instant::now() < deadline, "the spawner does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Time limit for an answer.
fn patient(socket: &OwnedFd) {
    set_socket_timeout(socket, Timeout::Recv, Some(Duration::from_secs(10))).expect("a socket");
}

/// A sandbox from this template, ready; `None` if the template is gone.
fn sandbox(template: &OwnedFd) -> Option<OwnedFd> {
    let (ours, theirs) = socket::pair().expect("pair");
    patient(&ours);
    let spawn = ToTemplate::Spawn { id: 999_999, confine: confine(), join: Join::None };
    socket::send(template.as_fd(), &spawn, &[theirs.as_fd()]).ok()?;
    drop(theirs);
    match socket::receive::<FromInit>(ours.as_fd()) {
        Ok(received) => {
            let active_layers = matches!(received.message, FromInit::Ready(ActiveLayers { .. }));
            assert!(active_layers, "{:?}", received.message);
            Some(ours)
        }
        Err(socket::Error::Closed) => None,
        Err(error) => panic!("the template neither answers nor ends: {error:?}"),
    }
}

/// Whether this sandbox runs a program, or is gone. It may still answer an earlier message.
fn runs_a_program(control: &OwnedFd) -> bool {
    let wanted = 424_242;
    let order = ToInit::Exec(Exec { id: wanted, ..exec(&["true"]) });
    if socket::send(control.as_fd(), &order, &[]).is_err() {
        return false;
    }
    loop {
        match socket::receive::<FromInit>(control.as_fd()).map(|received| received.message) {
            Ok(FromInit::Ended(ended)) if ended.id == wanted => return ended.code == Some(0),
            Ok(_) => {}
            Err(socket::Error::Closed) => return false,
            Err(error) => panic!("the init neither answers nor ends: {error:?}"),
        }
    }
}

/// Runs the cases; then the helpers end, and with them everything they made.
fn fuzz(case: impl Fn(&mut Spawner, &Path, Vec<Packet>)) {
    let (_dir, exe) = settings::staged_binary();
    let spawner = std::cell::RefCell::new(Spawner::start(&exe));
    let config =
        Config { cases: settings::fuzz_cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&packets(), |packets| {
            let mut spawner = spawner.borrow_mut();
            case(&mut spawner, &exe, packets);
            if !spawner.is_alive() {
                *spawner = Spawner::start(&exe);
            }
            let template = spawner.template().expect("a fresh template");
            let control = sandbox(&template).expect("a fresh sandbox");
            assert!(runs_a_program(&control), "a fresh sandbox works");
            Ok(())
        })
        .expect("no packet does harm");
    spawner.into_inner().end();
    assert!(census::family(&exe).is_empty(), "{:?}", census::family(&exe));
}

#[test]
fn nonsense_to_a_template_is_refused_or_its_end() {
    let valid = to_template();
    fuzz(|spawner, _, packets| {
        let template = spawner.template().expect("a template");
        packets.iter().for_each(|packet| packet.send(template.as_fd(), &valid));
        if let Some(control) = sandbox(&template) {
            assert!(runs_a_program(&control), "a template that goes on goes on well");
        }
    });
}

#[test]
fn nonsense_to_an_init_is_refused_or_its_end() {
    let valid = to_init();
    fuzz(|spawner, _, packets| {
        let template = spawner.template().expect("a template");
        let control = sandbox(&template).expect("a sandbox");
        packets.iter().for_each(|packet| packet.send(control.as_fd(), &valid));
        runs_a_program(&control);
        drop(control);
        let next = sandbox(&template).expect("the template is unharmed");
        assert!(runs_a_program(&next));
    });
}

#[test]
fn nonsense_to_the_spawner_is_refused_or_its_end() {
    let valid = to_spawner();
    fuzz(|spawner, _, packets| {
        packets.iter().for_each(|packet| packet.send(spawner.socket(), &valid));
        if spawner.template().is_none() {
            // It refused the message and ends, with all it made.
            let deadline = Instant::now() + Duration::from_secs(15);
            while spawner.is_alive() {
                assert!(Instant::now() < deadline, "neither answers nor ends");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
}

/// Fork requests are received by an interpreter; here only their decoding is tested, on every byte.
#[test]
fn no_spoilt_fork_request_is_taken_for_another() {
    let valid = encoded(&ForkRequest { confine: confine(), join: 0, at_once: false });
    for at in 0..valid.len() {
        let (ours, theirs) = socket::pair().expect("pair");
        rustix::net::send(&ours, &valid[..at], SendFlags::empty()).expect("send");
        drop(ours);
        assert!(socket::receive::<ForkRequest>(theirs.as_fd()).is_err(), "cut at {at}");
    }
}
