//! Sessions of browsers: a random token in place of a key's secret.
//!
//! A session belongs to one key and ends with it: each request looks the key up again, so a revoked or
//! expired key ends its sessions at once. Sessions live in the memory of one server; after a restart
//! people sign in again.
//!
//! Invariant: neither a secret of a key nor a token of a session or link is kept, only digests.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ringfence_types::{Digest, Timestamp};

/// Longest life of a session.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3_600);

/// Longest life of a login link that is not used.
pub const LOGIN_LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Sessions at one time, and login links; the oldest makes room.
const MAX_SESSIONS: usize = 10_000;

/// Length of a token: 32 random bytes in base64url.
const TOKEN_LENGTH: usize = 43;

/// A session that was just opened.
#[derive(Debug)]
pub struct NewSession {
    /// Token for the cookie.
    pub token: Token,
    /// End of the session.
    pub ends_at: Timestamp,
}

/// Random text of 256 bits. It shows itself only when asked by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Digest of the key's secret, and the end of the session or link.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Digest,
    ends_at: Timestamp,
}

/// Open sessions and unused login links, by the digests of their tokens.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Digest, Entry>>,
    links: Mutex<HashMap<Digest, Entry>>,
}

impl Sessions {
    pub(crate) fn open(&self, key: Digest, now: Timestamp) -> Result<NewSession, getrandom::Error> {
        let (token, ends_at) = (Token::new()?, now.after(SESSION_LIFETIME));
        put(&mut lock(&self.open), token.digest(), Entry { key, ends_at }, now);
        Ok(NewSession { token, ends_at })
    }

    pub(crate) fn make_link(&self, key: Digest, now: Timestamp) -> Result<Token, getrandom::Error> {
        let (token, ends_at) = (Token::new()?, now.after(LOGIN_LINK_LIFETIME));
        put(&mut lock(&self.links), token.digest(), Entry { key, ends_at }, now);
        Ok(token)
    }

    /// Key of a link, which is used up.
    pub(crate) fn use_link(&self, token: &[u8], now: Timestamp) -> Option<Digest> {
        let entry = lock(&self.links).remove(&digest(token)?)?;
        (entry.ends_at > now).then_some(entry.key)
    }

    /// Key of an open session.
    pub(crate) fn key(&self, token: &[u8], now: Timestamp) -> Option<Digest> {
        let open = lock(&self.open);
        open.get(&digest(token)?).filter(|entry| entry.ends_at > now).map(|entry| entry.key)
    }

    pub(crate) fn close(&self, token: &[u8]) {
        if let Some(digest) = digest(token) {
            lock(&self.open).remove(&digest);
        }
    }
}

/// Token of the forms of a session: forms of another session, and of other pages, do not have it.
pub(crate) fn form_token(token: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Digest::of(&[b"form\n", token].concat()).as_bytes())
}

fn digest(token: &[u8]) -> Option<Digest> {
    (token.len() == TOKEN_LENGTH).then(|| Digest::of(token))
}

fn put(entries: &mut HashMap<Digest, Entry>, token: Digest, entry: Entry, now: Timestamp) {
    if entries.len() >= MAX_SESSIONS {
        entries.retain(|_, entry| entry.ends_at > now);
    }
    if entries.len() >= MAX_SESSIONS
        && let Some(oldest) = entries.iter().min_by_key(|(_, entry)| entry.ends_at).map(|(t, _)| *t)
    {
        entries.remove(&oldest);
    }
    entries.insert(token, entry);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_micros(0)
    }

    #[test]
    fn a_session_is_found_until_it_is_closed_or_over() {
        let (sessions, key) = (Sessions::default(), Digest::of(b"secret"));
        let opened = sessions.open(key, now()).unwrap();
        let token = opened.token.reveal().as_bytes();
        assert_eq!(sessions.key(token, now()), Some(key));
        assert_eq!(sessions.key(token, opened.ends_at), None);
        assert_eq!(sessions.key(b"other", now()), None);
        assert_eq!(sessions.key(Token::new().unwrap().reveal().as_bytes(), now()), None);
        sessions.close(token);
        assert_eq!(sessions.key(token, now()), None);
    }

    #[test]
    fn a_login_link_works_once_and_in_time() {
        let (sessions, key) = (Sessions::default(), Digest::of(b"secret"));
        let link = sessions.make_link(key, now()).unwrap();
        let late = sessions.make_link(key, now()).unwrap();
        assert_eq!(sessions.use_link(link.reveal().as_bytes(), now()), Some(key));
        assert_eq!(sessions.use_link(link.reveal().as_bytes(), now()), None);
        let after = now().after(LOGIN_LINK_LIFETIME);
        assert_eq!(sessions.use_link(late.reveal().as_bytes(), after), None);
    }

    #[test]
    fn the_number_of_sessions_is_bounded_and_the_oldest_makes_room() {
        let (sessions, key) = (Sessions::default(), Digest::of(b"secret"));
        let first = sessions.open(key, now()).unwrap();
        let second = sessions.open(key, now().after(Duration::from_secs(1))).unwrap();
        for _ in 0..MAX_SESSIONS - 1 {
            sessions.open(key, now().after(Duration::from_secs(2))).unwrap();
        }
        assert_eq!(lock(&sessions.open).len(), MAX_SESSIONS);
        let later = now().after(Duration::from_secs(2));
        assert_eq!(sessions.key(first.token.reveal().as_bytes(), later), None);
        assert_eq!(sessions.key(second.token.reveal().as_bytes(), later), Some(key));
    }

    #[test]
    fn form_tokens_differ_from_session_to_session_and_tokens_hide_themselves() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        let form = |token: &Token| form_token(token.reveal().as_bytes());
        assert_ne!(form(&one), form(&other));
        assert_ne!(form(&one), one.reveal());
        assert_eq!(format!("{one:?}"), "***");
    }
}
