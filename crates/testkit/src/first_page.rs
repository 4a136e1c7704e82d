//! The README's first page as a script: every command of it, pasted line by line as a new user would.
//!
//! A command passes if it ends with the exit code that the page leads one to expect, or with exit code 2
//! and a hint, or the verdict of `doctor`, that says what to do.

use std::fmt::Write;

/// Commands of the page that are not pasted, with the reason.
const LEFT_OUT: [&str; 4] = [
    "export RINGFENCE_DATA",        // The script chooses the directory.
    "alias ringfence",              // The binary under test is on the path.
    "cargo run --release -- serve", // The script starts the server, to know its address and its end.
    "ringfence selftest --hostile", // Minutes; suites of their own run it.
];

/// Exit codes other than 0 that the page announces, by a part of the command.
const EXPECTED: [(&str, i32); 6] = [
    ("http_fetch", 4),
    ("/etc/shadow", 1),
    ("create_connection", 1),
    ("--timeout 2s", 124),
    ("--memory 64M", 1),
    ("os.fork()", 1),
];

/// One command of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// As it is pasted, several lines if it goes on.
    pub command: String,
    /// The exit code that is expected.
    pub code: i32,
}

/// The commands of all `console` blocks.
pub fn steps(page: &str) -> Vec<Step> {
    let mut commands: Vec<String> = Vec::new();
    let (mut is_inside, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && (goes_on || line.starts_with("$ ")) {
            let text = line.strip_prefix("$ ").unwrap_or(line);
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => *command += &format!("\n{text}"),
                None => commands.push(text.to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
    }
    let is_left_out = |command: &str| LEFT_OUT.iter().any(|start| command.starts_with(start));
    let code = |command: &str| {
        let found = EXPECTED.iter().find(|(part, _)| command.contains(part));
        found.map_or(0, |(_, code)| *code)
    };
    let wanted = commands.into_iter().filter(|command| !is_left_out(command));
    wanted.map(|command| Step { code: code(&command), command }).collect()
}

/// A script for bash that starts a server, pastes every command, prints a line for each, and ends with
/// the number of those that failed. It needs `ringfence` on the path and an empty directory to be in.
pub fn script(page: &str) -> String {
    let mut text = HEAD.to_owned();
    for Step { command, code } in steps(page) {
        let command = command.replace("http://127.0.0.1:7420", "$URL");
        let _ = writeln!(text, "paste {code} {}", quoted(&command));
    }
    text + TAIL
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

const HEAD: &str = r#"
export RINGFENCE_DATA=$PWD/data
failed=0
count=0
report() { # ok|FAILED, command, code, expected
    echo "first page: $1: ${2%%$'\n'*} (exit code $3, expected $4)"
    if [ "$1" = FAILED ]; then
        failed=$((failed + 1))
        cat out err
    fi
}
start() {
    rm -f banner
    ringfence serve --listen 127.0.0.1:0 --json > banner 2> serve.err &
    server=$!
    while [ ! -s banner ] && kill -0 $server 2> /dev/null; do sleep 0.05; done
    grep -q '"url"' banner
}
paste() { # expected, command
    eval "$2" > out 2> err < /dev/null
    code=$?
    count=$((count + 1))
    if [ $code = "$1" ] || { [ $code = 2 ] && grep -q '^hint: \|^verdict: ' err out; }; then
        report ok "$2" $code "$1"
    else
        report FAILED "$2" $code "$1"
    fi
}
if ! start; then
    wait $server
    code=$?
    cat serve.err
    if [ $code != 2 ] || ! grep -q '^hint: .*--allow-missing cgroup' serve.err; then
        echo "first page: FAILED: serve (exit code $code, without a hint)"
        exit 1
    fi
    echo 'first page: ok: serve refuses and says what helps'
    export RINGFENCE_SANDBOX_ALLOW_MISSING=cgroup
    if ! start; then
        cat serve.err
        echo 'first page: FAILED: serve, as the hint says'
        exit 1
    fi
fi
URL=$(sed 's/.*"url":"\([^"]*\)".*/\1/' banner)
# Rules are compiled by the first question, which an emulated machine may not manage in time.
for _ in 1 2 3 4 5 6 7 8 9; do ringfence call echo text=x > out 2> err && break; done
"#;

const TAIL: &str = r#"
kill -TERM $server
wait $server
code=$?
if [ $code != 0 ]; then
    failed=$((failed + 1))
    cat serve.err
    echo "first page: FAILED: stop (exit code $code)"
fi
echo "first page: $count commands, $failed failed"
exit $failed
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_with_their_continuations_and_codes() {
        let page = "text\n```console\n$ ringfence run \\\n    -c 1\n42\n$ alias ringfence=x\n```\n\
                    ```\n$ none\n```\n```console\n$ ringfence run --timeout 2s x\n```\n";
        let step = |command: &str, code| Step { command: command.to_owned(), code };
        let wanted =
            [step("ringfence run \\\n    -c 1", 0), step("ringfence run --timeout 2s x", 124)];
        assert_eq!(steps(page), wanted);
    }

    #[test]
    fn the_script_quotes_what_it_pastes() {
        let script = script("```console\n$ curl http://127.0.0.1:7420/x -d 'a'\n```\n");
        assert!(script.contains(r"paste 0 'curl $URL/x -d '\''a'\'''"), "{script}");
    }
}
