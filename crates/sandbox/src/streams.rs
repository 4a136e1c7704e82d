//! Our ends of a program's pipes.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, fchmod},
    pipe::{PipeFlags, pipe_with},
};
use tokio::net::{UnixStream, unix::pipe};

use crate::output::Output;

/// Largest size of a result in bytes.
pub(crate) const MAX_RESULT: u64 = 4 << 20;

/// Our ends of a program's pipes.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: OutputPipe,
    pub(crate) stderr: OutputPipe,
    pub(crate) result: OutputPipe,
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
        // A program may also open its streams by name (`/dev/stdout`), under its own uid.
        fchmod(&stdin_inside, Mode::from_raw_mode(0o644))?;
        for inside in [&stdout_inside, &stderr_inside, &result_inside] {
            fchmod(inside, Mode::from_raw_mode(0o622))?;
        }
        let streams = Self {
            stdin: Some(pipe::Sender::from_owned_fd(stdin)?),
            stdout: OutputPipe::new(stdout, Output::new(cap))?,
            stderr: OutputPipe::new(stderr, Output::new(cap))?,
            result: OutputPipe::new(result, Output::new(MAX_RESULT))?,
        };
        Ok((streams, [stdin_inside, stdout_inside, stderr_inside, result_inside]))
    }

    /// Changes the cap of the outputs, before anything was written.
    pub(crate) fn set_cap(&self, cap: u64) {
        self.stdout.output.set_cap(cap);
        self.stderr.output.set_cap(cap);
    }

    /// Waits for bytes on any stream and reads some, without preferring a stream. Pending for ever
    /// once all have ended; cancel safe.
    pub(crate) async fn pump(&mut self) {
        tokio::select! {
            () = self.stdout.pump() => {}
            () = self.stderr.pump() => {}
            () = self.result.pump() => {}
        }
    }

    /// Removes the follower: the rest in the pipes is bounded and must not be blocked by it.
    pub(crate) fn unblock(&mut self) {
        for tap in [&mut self.stdout, &mut self.stderr, &mut self.result] {
            tap.is_held = false;
        }
    }

    /// Reads everything that is available without waiting.
    pub(crate) fn drain(&mut self) {
        self.stdout.drain();
        self.stderr.drain();
        self.result.drain();
    }

    /// Whether every stream has lost its last writer.
    pub(crate) fn all_ended(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none() && self.result.pipe.is_none()
    }

    /// Bytes written by the program so far.
    pub(crate) fn total(&self) -> u64 {
        self.stdout.output.total() + self.stderr.output.total()
    }

    /// Closes the outputs, so that readers see the end.
    pub(crate) fn close(&mut self) {
        for tap in [&mut self.stdout, &mut self.stderr, &mut self.result] {
            tap.pipe = None;
            tap.output.close();
        }
    }
}

/// Reading end of one pipe and the output it goes to.
#[derive(Debug)]
pub(crate) struct OutputPipe {
    pipe: Option<pipe::Receiver>,
    pub(crate) output: Output,
    /// Whether a follower that is behind blocks reading.
    is_held: bool,
}

/// Result of one read of a pipe.
enum PipeRead {
    Bytes,
    Nothing,
    Ended,
}

impl OutputPipe {
    /// Reads the program's side of a terminal, which is polled and read like a pipe; its end is an
    /// error instead of an empty read.
    pub(crate) fn terminal(master: OwnedFd, output: Output) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd_unchecked(master)?;
        Ok(Self { pipe: Some(pipe), output, is_held: true })
    }

    fn new(fd: OwnedFd, output: Output) -> io::Result<Self> {
        Ok(Self { pipe: Some(pipe::Receiver::from_owned_fd(fd)?), output, is_held: true })
    }

    /// Waits for bytes and reads some. Pending for ever once the stream ended; cancel safe.
    pub(crate) async fn pump(&mut self) {
        loop {
            let Some(pipe) = &self.pipe else { return std::future::pending().await };
            if self.is_held {
                self.output.room().await;
            }
            match read_some(pipe, &self.output) {
                PipeRead::Bytes => return,
                PipeRead::Ended => {
                    self.end();
                    return;
                }
                PipeRead::Nothing => {}
            }
            if pipe.readable().await.is_err() {
                self.end();
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        // Bounded, so that a flood from a background process cannot hold us: a pipe holds 64 KiB,
        // so this is more than the program itself can have left in it.
        for _ in 0..32 {
            let Some(pipe) = &self.pipe else { return };
            // Reads from the kernel directly: the runtime may not know yet that there is data.
            match take(|buffer| Ok(rustix::io::read(pipe, buffer)?), &self.output) {
                PipeRead::Bytes => {}
                PipeRead::Nothing => return,
                PipeRead::Ended => self.end(),
            }
        }
    }

    fn end(&mut self) {
        self.pipe = None;
        self.output.close();
    }
}

fn read_some(pipe: &pipe::Receiver, output: &Output) -> PipeRead {
    take(|buffer| pipe.try_read(buffer), output)
}

fn take(read: impl FnOnce(&mut [u8]) -> io::Result<usize>, output: &Output) -> PipeRead {
    let mut buffer = [0; 64 << 10];
    match read(&mut buffer) {
        Ok(0) => PipeRead::Ended,
        Ok(count) => {
            output.append(&buffer[..count]);
            PipeRead::Bytes
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => PipeRead::Nothing,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => PipeRead::Nothing,
        Err(_) => PipeRead::Ended,
    }
}

/// A job channel: our end, and the descriptor for the inside.
pub(crate) fn job_channel() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
