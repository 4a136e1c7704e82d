//! Resources that a sandbox can take from the host without being charged.
//!
//! Programs that make as many kernel objects of one kind as they are allowed run in sandboxes with
//! default limits; the machine's memory and the charge of the control group are compared. Some of
//! them would crash an unprotected host, so they run only in the throw-away machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::vm;

/// Largest allowed uncharged memory.
const MAX_UNCHARGED: i64 = 64 << 20;
/// Time limit for all programs, each of which is bounded by itself.
const DEADLINE: Duration = Duration::from_secs(7200);

/// One line of `measure.py`.
#[derive(Debug, PartialEq, Eq)]
struct Measured {
    name: String,
    said: String,
    taken: i64,
    charged: i64,
    uncharged: i64,
    left: i64,
}

impl Measured {
    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line.strip_prefix("RESOURCE ")?).ok()?;
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let bytes = |key: &str| value.get(key)?.as_i64();
        Some(Self {
            name: text("name")?,
            said: text("said")?,
            taken: bytes("taken")?,
            charged: bytes("charged")?,
            uncharged: bytes("uncharged")?,
            left: bytes("left")?,
        })
    }
}

/// Measures the named programs, or all, with this binary; prints a table; fails if one takes more
/// than 64 MiB without being charged.
pub fn run(binary: &Path, names: &[&str]) -> Result<()> {
    println!("{:<24}{:>10}{:>10}{:>10}{:>8}  said", "MiB", "taken", "charged", "uncharged", "left");
    let mut measured: Vec<Measured> = Vec::new();
    let code =
        vm::run(Some(binary), &script(names), DEADLINE, &mut |line| match Measured::parse(line) {
            Some(row) => {
                println!("{}", render(&row));
                measured.push(row);
            }
            _ => println!("{line}"),
        })?;
    if code != 0 || measured.is_empty() {
        bail!("the measurement ended with exit code {code} after {} programs", measured.len());
    }
    let above = |row: &&Measured| row.uncharged > MAX_UNCHARGED;
    let above: Vec<&str> = measured.iter().filter(above).map(|row| row.name.as_str()).collect();
    if above.is_empty() {
        return Ok(());
    }
    bail!("more than {} MiB uncharged: {}", MAX_UNCHARGED >> 20, above.join(", "))
}

fn render(row: &Measured) -> String {
    let mib = |bytes: i64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{:<24}{:>10.1}{:>10.1}{:>10.1}{:>8.1}  {}",
        row.name,
        mib(row.taken),
        mib(row.charged),
        mib(row.uncharged),
        mib(row.left),
        row.said
    )
}

/// Puts both programs into the machine and starts the measurement.
fn script(names: &[&str]) -> String {
    let file = |name: &str, text: &str| {
        format!("cat > /run/{name} <<'END_OF_{name}'\n{text}\nEND_OF_{name}\n")
    };
    let mut script = file("hoards.py", include_str!("hoards.py"));
    script += &file("measure.py", include_str!("measure.py"));
    script + &format!("python3 /run/measure.py {}\n", names.join(" "))
}

/// Binary to measure: the given one, otherwise the debug build of this tree.
pub fn arguments<'a>(words: &'a [&'a str]) -> Result<(std::path::PathBuf, &'a [&'a str])> {
    match words {
        ["--binary", path, names @ ..] => Ok(((*path).into(), names)),
        ["--binary"] => bail!("`--binary` needs a path"),
        names => {
            let built = crate::settings::workspace_root().join("target/debug/ringfence");
            let built = built.canonicalize().context("find the binary: run `cargo build` first")?;
            Ok((built, names))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_measurement_is_read_and_the_console_is_not() {
        let line = r#"RESOURCE {"name":"files","said":"made 3, then time","taken":3,"charged":2,"uncharged":1,"left":0}"#;
        let row = Measured::parse(line).expect("a row");
        assert_eq!((row.name.as_str(), row.taken, row.charged, row.uncharged), ("files", 3, 2, 1));
        assert_eq!(Measured::parse("[  112.240710] reboot: Power down"), None);
    }
}
