//! The checks that every entry passes, in any format.
//!
//! Invariant: the sink sees an entry only after its name, kind, mode and size passed every rule.

use std::io::Read;

use super::{
    Error, Links, Meta, Note, Policy, Problem, Sink, UnpackLimits, UnpackReport,
    seen::{Made, SeenNames},
};
use crate::files::{BoxPath, MAX_PATH, shown};

/// An entry as the archive describes it, unchecked.
pub(super) struct Item<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: ItemKind,
    pub(super) mode: u32,
    pub(super) modified_secs: i64,
    pub(super) size: u64,
}

pub(super) enum ItemKind {
    File,
    Directory,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    Special,
}

/// Largest number of notes kept of one archive; the counts in the report are exact.
const MAX_NOTES: usize = 100;

pub(super) struct Unpacker<'a> {
    sink: &'a mut dyn Sink,
    policy: Policy,
    limits: UnpackLimits,
    seen: SeenNames,
    report: UnpackReport,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink, policy: Policy, limits: UnpackLimits) -> Self {
        Self { sink, policy, limits, seen: SeenNames::default(), report: UnpackReport::default() }
    }

    pub(super) fn finish(self) -> UnpackReport {
        self.report
    }

    /// Length of the longest allowed name.
    pub(super) fn max_name(&self) -> u64 {
        self.limits.name_len.min(MAX_PATH) as u64
    }

    /// Checks an entry and hands it to the sink.
    pub(super) fn entry(&mut self, item: Item<'_>, content: &mut dyn Read) -> Result<(), Error> {
        let name = item.name;
        self.pass(item, content).map_err(|problem| Error::at(name, problem))
    }

    fn pass(&mut self, item: Item<'_>, content: &mut dyn Read) -> Result<(), Problem> {
        self.count(1)?;
        let Some(path) = self.path(item.name)? else { return Ok(()) };
        let mode = self.mode(&item)?;
        self.spend(item.size)?;
        if matches!(item.kind, ItemKind::Special) {
            return self.special(item.name);
        }
        self.admit(&path, &item.kind)?;
        let meta = Meta { mode, modified_secs: item.modified_secs };
        self.write(&path, meta, item.kind, content)
    }

    /// The name as a path; `None` for the archive's own root, which needs no entry.
    fn path(&self, name: &[u8]) -> Result<Option<BoxPath>, Problem> {
        let mut name = name;
        while let Some(rest) = name.strip_prefix(b"./") {
            name = rest;
        }
        if name.is_empty() || name == b"." {
            return Ok(None);
        }
        let path = BoxPath::relative(name.strip_suffix(b"/").unwrap_or(name))?;
        let limits = &self.limits;
        if path.as_bytes().len() > limits.name_len {
            return Err(over("bytes in a name", limits.name_len));
        }
        if path.depth() > limits.depth {
            return Err(over("levels of directories", limits.depth));
        }
        Ok(Some(path))
    }

    fn mode(&mut self, item: &Item<'_>) -> Result<u32, Problem> {
        if item.mode & 0o6000 != 0 {
            if !self.policy.strip_privileges {
                return Err(Problem::Privileged { mode: item.mode & 0o7777 });
            }
            self.note(item.name, "set-user-id or set-group-id bit dropped");
        }
        Ok(item.mode & 0o1777)
    }

    fn special(&mut self, name: &[u8]) -> Result<(), Problem> {
        if !self.policy.skip_special {
            return Err(Problem::Special);
        }
        self.report.skipped += 1;
        self.note(name, "device or FIFO skipped");
        Ok(())
    }

    /// Checks links against the policy and names against earlier entries.
    fn admit(&mut self, path: &BoxPath, kind: &ItemKind) -> Result<(), Problem> {
        let made = match (kind, self.policy.links) {
            (ItemKind::Symlink(_), Links::Refuse) => return Err(Problem::Symlink),
            (ItemKind::HardLink(_), Links::Refuse) => return Err(Problem::HardLink),
            (ItemKind::Directory, _) => Made::Directory,
            (ItemKind::Symlink(_), Links::Within) => Made::Symlink,
            _ => Made::File,
        };
        let implied = self.seen.add(path, made)?;
        // The entry itself is counted already; the directories it implies are counted here.
        self.count(implied.saturating_sub(1))
    }

    fn write(
        &mut self,
        path: &BoxPath,
        meta: Meta,
        kind: ItemKind,
        content: &mut dyn Read,
    ) -> Result<(), Problem> {
        match kind {
            ItemKind::Directory => {
                self.sink.directory(path, meta)?;
                self.report.directories += 1;
            }
            ItemKind::Symlink(target) => {
                self.sink.symlink(path, checked_target(&target)?)?;
                self.report.links += 1;
            }
            ItemKind::HardLink(target) => {
                let original = self.original(&target)?;
                if original == *path {
                    return Err(Problem::HardLinkTarget);
                }
                self.sink.hard_link(path, &original)?;
                self.report.links += 1;
            }
            ItemKind::File | ItemKind::Special => {
                self.sink.file(path, meta, content)?;
                self.report.files += 1;
            }
        }
        Ok(())
    }

    /// Checked target of a hard link: a name under the same root, so it passes the same checks. A
    /// name that this archive has not used may be a file of a lower layer; the sink looks.
    fn original(&self, target: &[u8]) -> Result<BoxPath, Problem> {
        let path = self.path(target)?.ok_or(Problem::HardLinkTarget)?;
        match self.seen.get(&path) {
            Some(Made::File) => Ok(path),
            None if self.policy.links_to_existing => Ok(path),
            _ => Err(Problem::HardLinkTarget),
        }
    }

    fn count(&mut self, entries: u64) -> Result<(), Problem> {
        self.report.entries += entries;
        if self.report.entries > self.limits.entries {
            return Err(Problem::Over { what: "entries", limit: self.limits.entries });
        }
        Ok(())
    }

    /// Charges a size before content is read: the readers of both formats enforce the declared
    /// size.
    fn spend(&mut self, bytes: u64) -> Result<(), Problem> {
        self.report.bytes = self.report.bytes.saturating_add(bytes);
        if self.report.bytes > self.limits.bytes {
            return Err(Problem::Over { what: "bytes", limit: self.limits.bytes });
        }
        Ok(())
    }

    fn note(&mut self, name: &[u8], what: &'static str) {
        if self.report.notes.len() < MAX_NOTES {
            self.report.notes.push(Note { entry: shown(name), what });
        } else {
            self.report.more_notes += 1;
        }
    }
}

/// Checks a link's target, which is stored verbatim and only resolved inside the sandbox.
fn checked_target(target: &[u8]) -> Result<&[u8], Problem> {
    if target.is_empty() || target.len() > MAX_PATH || target.contains(&0) {
        return Err(Problem::Malformed("target of a symbolic link"));
    }
    Ok(target)
}

fn over(what: &'static str, limit: usize) -> Problem {
    Problem::Over { what, limit: limit as u64 }
}
