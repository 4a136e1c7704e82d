//! Live output of a running call, and a progress line.

use std::time::Instant;

use reqwest::Method;
use tokio::sync::watch;

use super::ending;
use crate::{
    client::{Client, escaped, sse::Events},
    failure::Failure,
    logs::{self, pause},
    print::{self, Progress},
};

/// Seconds to wait for more output.
const POLL_SECS: u32 = 25;

/// Progress of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Before,
    Running,
    Over,
}

/// Follows the call until it has ended or is held and its output is printed.
pub(super) async fn follow(client: &Client, id: &str, is_quiet: bool) -> Result<(), Failure> {
    let (stage, seen) = watch::channel(Stage::Before);
    let events = events(client, id, stage, is_quiet);
    if is_quiet {
        return events.await;
    }
    let pumps = async {
        let (stdout, stderr) =
            (pump(client, id, "stdout", seen.clone()), pump(client, id, "stderr", seen));
        tokio::try_join!(stdout, stderr).map(drop)
    };
    tokio::try_join!(events, pumps).map(drop)
}

/// Reads the events of the call and publishes its stage.
async fn events(
    client: &Client,
    id: &str,
    stage: watch::Sender<Stage>,
    is_quiet: bool,
) -> Result<(), Failure> {
    let path = format!("/v1/calls/{}/events", escaped(id));
    let response = client.send(client.request(Method::GET, &path)).await?;
    let mut events = Events::new(client, response);
    let line = (!is_quiet).then(Progress::new);
    let (began, mut state) = (Instant::now(), "accepted".to_owned());
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            () = pause() => {
                let secs = began.elapsed().as_secs_f64();
                // After half a second, show what the user waits for.
                if let Some(line) = line.as_ref().filter(|_| secs > 0.5) {
                    line.show(&format!("{state} {secs:.1} s"));
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        state = event.kind.trim_start_matches("call.").to_owned();
        stage.send_replace(match state.as_str() {
            "started" | "cancelling" => Stage::Running,
            state if ending::is_still(state) => break,
            _ => Stage::Before,
        });
    }
    stage.send_replace(Stage::Over);
    Ok(())
}

/// Relays one output stream to our standard error, from its first byte to its last.
async fn pump(
    client: &Client,
    id: &str,
    stream: &str,
    mut stage: watch::Receiver<Stage>,
) -> Result<(), Failure> {
    let mut offset = 0;
    // A dropped sender means that the call is over or failed, which ends this too.
    let _ = stage.wait_for(|stage| *stage != Stage::Before).await;
    loop {
        let is_over = *stage.borrow() == Stage::Over;
        let piece = logs::piece(client, id, stream, offset, POLL_SECS).await?;
        if piece.skipped > 0 {
            print::note(&format!("\nwarning: {} bytes were not kept\n", piece.skipped));
        }
        if !piece.bytes.is_empty() {
            relay(&piece.bytes);
        }
        offset = piece.next;
        if piece.is_end && is_over {
            return Ok(());
        }
        if piece.is_end {
            let _ = stage.wait_for(|stage| *stage == Stage::Over).await;
        }
    }
}

fn relay(bytes: &[u8]) {
    use std::io::Write;
    // A reader that closed it does not want it.
    let _ = std::io::stderr().lock().write_all(bytes);
}
