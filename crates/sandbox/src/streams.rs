//! A program's pipes, from our side.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, fchmod},
    pipe::{PipeFlags, pipe_with},
};
use tokio::net::{UnixStream, unix::pipe};

use crate::output::Output;

/// Most bytes of a result.
pub(crate) const MOST_RESULT: u64 = 4 << 20;

/// Our ends of a program's pipes.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: Tap,
    pub(crate) stderr: Tap,
    pub(crate) result: Tap,
}

/// The program's ends: standard input, output, error and the result channel.
pub(crate) type Inside = [OwnedFd; 4];

impl Streams {
    /// Pipes whose outputs keep at most `cap` bytes each.
    pub(crate) fn open(cap: u64) -> io::Result<(Self, Inside)> {
        let (stdin_inside, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        let (result, result_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&stdin, true)?;
        // A program may open its streams by name (`/dev/stdout`) as well, under its own uid.
        fchmod(&stdin_inside, Mode::from_raw_mode(0o644))?;
        for inside in [&stdout_inside, &stderr_inside, &result_inside] {
            fchmod(inside, Mode::from_raw_mode(0o622))?;
        }
        let streams = Self {
            stdin: Some(pipe::Sender::from_owned_fd(stdin)?),
            stdout: Tap::new(stdout, Output::new(cap))?,
            stderr: Tap::new(stderr, Output::new(cap))?,
            result: Tap::new(result, Output::new(MOST_RESULT))?,
        };
        Ok((streams, [stdin_inside, stdout_inside, stderr_inside, result_inside]))
    }

    /// Changes how much is kept, before anything was written.
    pub(crate) fn set_cap(&self, cap: u64) {
        self.stdout.output.set_cap(cap);
        self.stderr.output.set_cap(cap);
    }

    /// Waits for bytes on any stream and takes some; no stream comes before another. For ever
    /// pending once all have ended; cancel safe.
    pub(crate) async fn pump(&mut self) {
        tokio::select! {
            () = self.stdout.pump() => {}
            () = self.stderr.pump() => {}
            () = self.result.pump() => {}
        }
    }

    /// What is left in the pipes is bounded: no follower holds it back any longer.
    pub(crate) fn let_go(&mut self) {
        for tap in [&mut self.stdout, &mut self.stderr, &mut self.result] {
            tap.is_held = false;
        }
    }

    /// Takes everything that can be had without waiting.
    pub(crate) fn drain(&mut self) {
        self.stdout.drain();
        self.stderr.drain();
        self.result.drain();
    }

    /// Whether the last writer of every stream is gone.
    pub(crate) fn all_ended(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none() && self.result.pipe.is_none()
    }

    /// Bytes written by the program so far.
    pub(crate) fn total(&self) -> u64 {
        self.stdout.output.total() + self.stderr.output.total()
    }

    /// No reader need wait any longer.
    pub(crate) fn close(&mut self) {
        for tap in [&mut self.stdout, &mut self.stderr, &mut self.result] {
            tap.pipe = None;
            tap.output.close();
        }
    }
}

/// The reading end of one pipe and what came out of it.
#[derive(Debug)]
pub(crate) struct Tap {
    pipe: Option<pipe::Receiver>,
    pub(crate) output: Output,
    /// Whether a follower that is behind keeps us from reading.
    is_held: bool,
}

/// What one look at a pipe found.
enum Look {
    Bytes,
    Nothing,
    Ended,
}

impl Tap {
    /// Reads the program's side of a terminal. It is no pipe, but read and polled like one; that
    /// nobody holds the other side any more is told by an error instead of an empty read.
    pub(crate) fn terminal(master: OwnedFd, output: Output) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd_unchecked(master)?;
        Ok(Self { pipe: Some(pipe), output, is_held: true })
    }

    fn new(fd: OwnedFd, output: Output) -> io::Result<Self> {
        Ok(Self { pipe: Some(pipe::Receiver::from_owned_fd(fd)?), output, is_held: true })
    }

    /// Waits for bytes and takes some. For ever pending once the stream ended; cancel safe.
    pub(crate) async fn pump(&mut self) {
        loop {
            let Some(pipe) = &self.pipe else { return std::future::pending().await };
            if self.is_held {
                self.output.room().await;
            }
            match look(pipe, &self.output) {
                Look::Bytes => return,
                Look::Ended => {
                    self.end();
                    return;
                }
                Look::Nothing => {}
            }
            if pipe.readable().await.is_err() {
                self.end();
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        // A flood from something left behind must not hold us: a pipe holds 64 KiB, so this is
        // more than the program itself can have left in it.
        for _ in 0..32 {
            let Some(pipe) = &self.pipe else { return };
            // Asked of the kernel: the runtime may not know yet that there is something.
            match take(|buffer| Ok(rustix::io::read(pipe, buffer)?), &self.output) {
                Look::Bytes => {}
                Look::Nothing => return,
                Look::Ended => self.end(),
            }
        }
    }

    fn end(&mut self) {
        self.pipe = None;
        self.output.close();
    }
}

fn look(pipe: &pipe::Receiver, output: &Output) -> Look {
    take(|buffer| pipe.try_read(buffer), output)
}

fn take(read: impl FnOnce(&mut [u8]) -> io::Result<usize>, output: &Output) -> Look {
    let mut buffer = [0; 64 << 10];
    match read(&mut buffer) {
        Ok(0) => Look::Ended,
        Ok(count) => {
            output.append(&buffer[..count]);
            Look::Bytes
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Look::Nothing,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Look::Nothing,
        Err(_) => Look::Ended,
    }
}

/// A job channel: ours, and the descriptor for the inside.
pub(crate) fn job_channel() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
