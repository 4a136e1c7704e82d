//! The calls of the demo, in order.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LABEL, SKILL, actors::Actors};
use crate::{client::escaped, failure::Failure, print};

/// Sessions of the demo.
const TRIAGE: &str = "demo-triage-4711";
const NIGHTLY: &str = "demo-nightly";
const HOSTILE: &str = "demo-hostile";
const REPORTS: &str = "demo-reports";

/// Steps between which time passes.
const STEPS: u32 = 7;

/// Counts of what was made.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) calls: usize,
    pub(super) held: usize,
}

/// Plays all scenes, spread over a time.
pub(super) async fn play(actors: &Actors, over: Duration) -> Result<Played, Failure> {
    let mut stage = Stage { actors, pause: over / STEPS, played: Played::default() };
    stage.triage().await?;
    stage.nightly().await?;
    stage.reports().await?;
    stage.hostile().await?;
    stage.analysis().await?;
    stage.ends().await?;
    Ok(stage.played)
}

struct Stage<'a> {
    actors: &'a Actors,
    pause: Duration,
    played: Played,
}

impl Stage<'_> {
    /// Begins a scene: says what happens, and lets time pass.
    async fn scene(&self, words: &str) {
        print::note(&format!("{words}\n"));
        tokio::time::sleep(self.pause).await;
    }

    async fn call(&mut self, session: &str, tool: &str, args: Value) -> Result<Value, Failure> {
        self.played.calls += 1;
        self.actors.call(session, tool, args).await
    }

    async fn python(&mut self, session: &str, code: &str) -> Result<Value, Failure> {
        self.call(session, "code_execute", json!({"language": "python", "code": code})).await
    }

    /// An agent that works on a ticket, with skills.
    async fn triage(&mut self) -> Result<(), Failure> {
        self.scene("an agent reads a ticket: skills that summarise and extract").await;
        self.call(TRIAGE, "text_summarize", json!({"text": TICKET, "max_sentences": 2})).await?;
        self.call(TRIAGE, "extract_entities", json!({"text": TICKET})).await?;
        for text in ["Who reported it?", "Since when?", "Draft an answer"] {
            self.call(TRIAGE, "echo", json!({ "text": text })).await?;
        }
        Ok(())
    }

    /// Code that works, and code that fails.
    async fn nightly(&mut self) -> Result<(), Failure> {
        self.scene("a nightly job: code in Python, JavaScript and Bash").await;
        for month in 1..=12 {
            let code = format!("total = sum(n * n for n in range({month}_000))\nprint(total)");
            self.python(NIGHTLY, &code).await?;
        }
        let script = "console.log([1, 2, 3].map(n => n ** 2).join(' '))";
        let args = json!({"language": "javascript", "code": script});
        self.call(NIGHTLY, "code_execute", args).await?;
        let args = json!({"language": "bash", "code": "uname -sr; nproc; df -h /workspace"});
        self.call(NIGHTLY, "code_execute", args).await?;
        self.python(NIGHTLY, "rows = [{'id': 1}]\nprint(rows[0]['price'])").await?;
        self.scene("a long job: started, watched, cancelled").await;
        let code = "import time\nfor n in range(600):\n    print('batch', n, flush=True)\n    time.sleep(0.1)";
        let args = json!({"language": "python", "code": code});
        let long = self.actors.begin(NIGHTLY, "code_execute", args).await?;
        self.played.calls += 1;
        self.actors.cancel(&long).await
    }

    /// Calls that a person decides: denied, approved, changed, approved for a session, and one that waits.
    async fn reports(&mut self) -> Result<(), Failure> {
        self.scene("an agent wants to send mail: policy holds it, a person decides").await;
        let denied = self.report("all@demo.example", "Reset your password here").await?;
        let resolution = json!({"action": "deny", "reason": "this mail was not asked for"});
        self.actors.decide(&denied, &resolution).await?;
        let sent = self.report("team@demo.example", "Weekly numbers").await?;
        let resolution = json!({"action": "approve", "reason": "as every week"});
        self.actors.decide(&sent, &resolution).await?;
        let changed = self.report("everyone@demo.example", "Outage of last night").await?;
        let edited = report("oncall@demo.example", "Outage of last night");
        let resolution = json!({"action": "approve", "edited_args": edited,
                                "reason": "only those on call"});
        self.actors.decide(&changed, &resolution).await?;
        let first = self.report("sales@demo.example", "Third quarter, draft").await?;
        let resolution = json!({"action": "approve", "scope": "session", "uses": 3,
            "expires_in": "1h", "reason": "drafts to sales only",
            "where": [{"path": "/subject", "prefix": "Third quarter"}]});
        self.actors.decide(&first, &resolution).await?;
        self.report("sales@demo.example", "Third quarter, final").await?;
        Ok(())
    }

    async fn report(&mut self, to: &str, subject: &str) -> Result<String, Failure> {
        let call = self.call(REPORTS, SKILL, report(to, subject)).await?;
        Ok(call["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Programs that try to get out, and a fetch of an address that must not be reached.
    async fn hostile(&mut self) -> Result<(), Failure> {
        self.scene("hostile programs: files, network, escape, memory; they get nowhere").await;
        for code in [
            include_str!("hostile/secrets.py"),
            include_str!("hostile/network.py"),
            include_str!("hostile/escape.py"),
            include_str!("hostile/memory.py"),
        ] {
            self.python(HOSTILE, code).await?;
        }
        let url = json!({"url": "http://169.254.169.254/latest/meta-data/iam/"});
        let fetch = self.call(HOSTILE, "http_fetch", url).await?;
        let id = fetch["id"].as_str().unwrap_or_default();
        let resolution = json!({"action": "approve", "reason": "approved by mistake"});
        self.actors.decide(id, &resolution).await?;
        Ok(())
    }

    /// A session sandbox with an interpreter, a table and a plot.
    async fn analysis(&mut self) -> Result<(), Failure> {
        self.scene("an analysis in a session sandbox: a file, a table, a plot").await;
        let body = json!({"metadata": {"name": format!("{LABEL}sales analysis")},
                          "limits": {"memory_bytes": 256 << 20}, "idle_secs": 3_600});
        let sandbox = self.actors.post("/v1/sandboxes", &body).await?;
        let id = escaped(sandbox["id"].as_str().unwrap_or_default());
        let place = format!("/v1/sandboxes/{id}/interpreters");
        let interpreter = self.actors.post(&place, &json!({"language": "python"})).await?;
        self.played.calls += 2;
        for code in [
            include_str!("cells/load.py"),
            include_str!("cells/table.py"),
            include_str!("cells/plot.py"),
        ] {
            let path = format!("{place}/{}/execute", interpreter["id"]);
            self.actors.post(&path, &json!({ "code": code })).await?;
            self.played.calls += 1;
        }
        Ok(())
    }

    /// Calls that are left for the first look: a call that runs, and one that waits.
    async fn ends(&mut self) -> Result<(), Failure> {
        self.scene("one call runs for a while, one waits for you").await;
        let code = "import time\nfor part in range(1, 41):\n    print(f'part {part} of 40 indexed', flush=True)\n    time.sleep(1)";
        let args = json!({"language": "python", "code": code});
        self.actors.begin(NIGHTLY, "code_execute", args).await?;
        let args = json!({
            "to": ["cfo@demo.example", "board@demo.example"], "subject": "Quarterly report",
            "body": "The report is at https://files.demo.example/q3.pdf\nThe password is hunter2.",
            "priority": "high"});
        self.call(REPORTS, SKILL, args).await?;
        self.played.calls += 1;
        self.played.held += 1;
        Ok(())
    }
}

fn report(to: &str, subject: &str) -> Value {
    json!({"to": [to], "subject": subject, "body": "Numbers of the week are in the sheet."})
}

const TICKET: &str = "Ann Smith of Acme wrote on 3 March 2026 that invoices of the Berlin office arrive \
    twice. She noticed it first on Monday. The second copy has the same number and a later date. Acme paid \
    $1,200 too much. The accounting team asks for a refund before the end of the month. Bob Jones of \
    support could repeat it with a test account. The error began with the release of last Thursday.";
