//! Source and language of code.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    path::Path,
};

use ringfence_sandbox::Language;

/// Maximum bytes of code; larger input belongs into a file of the workspace.
const MAX_CODE_BYTES: u64 = 16 << 20;

/// Reads a file of code; `-` is standard input.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    if file == Path::new("-") {
        return bounded(io::stdin().lock())
            .map_err(|why| format!("code from standard input {why}"));
    }
    let shown = file.display();
    let opened = File::open(file).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    if opened.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(format!("cannot read `{shown}`: it is a directory"));
    }
    bounded(opened).map_err(|why| format!("`{shown}` {why}"))
}

fn bounded(reader: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_CODE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_CODE_BYTES {
        return Err("is longer than 16 MiB".to_owned());
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8: byte {} is not", error.utf8_error().valid_up_to()))
}

/// The language of a file, by its extension or else its first line.
pub(crate) fn language(file: &Path, code: &str) -> Option<Language> {
    file.extension().and_then(OsStr::to_str).and_then(by_extension).or_else(|| by_first_line(code))
}

fn by_extension(extension: &str) -> Option<Language> {
    match extension {
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" => Some(Language::Javascript),
        "sh" | "bash" => Some(Language::Bash),
        _ => None,
    }
}

/// The language of a first line: `#!/usr/bin/env -S python3 -u` and `#!/usr/bin/python3.11` are
/// Python.
fn by_first_line(code: &str) -> Option<Language> {
    let words = code.lines().next()?.strip_prefix("#!")?.split_ascii_whitespace();
    let mut names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    let name = names.find(|name| *name != "env" && !name.starts_with('-'))?;
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" => Some(Language::Python),
        "node" | "nodejs" => Some(Language::Javascript),
        "bash" | "sh" | "dash" => Some(Language::Bash),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_told_by_extension_or_first_line() {
        for (file, code, expected) in [
            ("a.py", "", Some(Language::Python)),
            ("a.mjs", "#!/bin/sh\n", Some(Language::Javascript)),
            ("a.cjs", "", Some(Language::Javascript)),
            ("a.sh", "", Some(Language::Bash)),
            ("a", "#!/usr/bin/env python3\n", Some(Language::Python)),
            ("a", "#!/usr/bin/env -S node --x\n", Some(Language::Javascript)),
            ("a", "#!/usr/bin/python3.11 -u\n", Some(Language::Python)),
            ("a", "#! /bin/bash\n", Some(Language::Bash)),
            ("a", "#!\n", None),
            ("a", "#!/usr/bin/env\n", None),
            ("a.txt", "print(1)", None),
        ] {
            assert_eq!(language(Path::new(file), code), expected, "{file} {code}");
        }
    }

    #[test]
    fn code_that_is_not_text_is_refused_with_the_place() {
        assert_eq!(bounded(&b"ab\xff"[..]), Err("is not UTF-8: byte 2 is not".to_owned()));
    }
}
